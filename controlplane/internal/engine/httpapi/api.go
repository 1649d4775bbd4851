package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
)

// Authenticator finds out to whom a bearer token belongs. It fails with a fault
// of kind unauthenticated and code token_invalid or token_expired.
type Authenticator interface {
	Authenticate(ctx context.Context, token redact.Secret) (*auth.Principal, error)
}

// ProjectResolver finds the tenant of a project, and says whether a tenant may ask
// for something new. For one that does not exist it fails with kind not_found.
type ProjectResolver interface {
	ProjectOrg(ctx context.Context, project id.Project) (id.Org, error)
	TenantEnabled(ctx context.Context, org id.Org) error
}

// DenialRecorder audits refused attempts. The principal is in ctx.
type DenialRecorder interface {
	RecordDenial(ctx context.Context, denial Denial) error
}

// Denial is one refused attempt. Path is the template, because a caller can put
// anything in the place of a parameter, even a secret.
type Denial struct {
	OperationID string
	Method      string
	Path        string
	Permission  auth.Permission
	Target      auth.Target
	Reason      string
}

// Limits limit what one request and one caller may cost. Zero fields take their
// value from DefaultLimits.
type Limits struct {
	RequestsPerSecond float64
	Burst             int
	MaxBodyBytes      int64
	RequestTimeout    time.Duration
	// StreamsPerCaller and Streams limit how many streams and terminals one
	// caller, and all callers together, may have open in this process.
	StreamsPerCaller, Streams int
}

// DefaultLimits suit an interactive caller and ordinary automation.
func DefaultLimits() Limits {
	return Limits{
		RequestsPerSecond: 50, Burst: 100, MaxBodyBytes: 1 << 20, RequestTimeout: 30 * time.Second,
		StreamsPerCaller: 50, Streams: 2000,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.RequestsPerSecond <= 0 {
		l.RequestsPerSecond = d.RequestsPerSecond
	}
	if l.Burst <= 0 {
		l.Burst = d.Burst
	}
	if l.MaxBodyBytes <= 0 {
		l.MaxBodyBytes = d.MaxBodyBytes
	}
	if l.RequestTimeout <= 0 {
		l.RequestTimeout = d.RequestTimeout
	}
	if l.StreamsPerCaller <= 0 {
		l.StreamsPerCaller = d.StreamsPerCaller
	}
	if l.Streams <= 0 {
		l.Streams = d.Streams
	}
	return l
}

// Config is what the frame needs. Without Auth only public operations work;
// without DB no Idempotency-Key is accepted. That is enough to describe the
// API.
type Config struct {
	Title       string
	Version     string
	Description string
	Logger      *slog.Logger
	DB          *postgres.DB
	Auth        Authenticator
	Projects    ProjectResolver
	Denials     DenialRecorder
	Limits      Limits
	// Gate refuses all operations while it returns an error, for example before
	// the database has been prepared. Nil means always open.
	Gate func() error
	// TrustedProxies are believed about the address of the client (ProxyHeader)
	// and its connection (X-Forwarded-Proto). Nobody else is.
	TrustedProxies []netip.Prefix
	// ProxyHeader is ForwardedFor, the default, or Forwarded.
	ProxyHeader string
	// Heartbeat is how often an idle stream shows that it is alive; 15 s by
	// default.
	Heartbeat time.Duration
	// Recheck is how often the frame checks whether the caller of a stream or
	// terminal may still have it; 5 s by default.
	Recheck time.Duration
	// Clock is time.Now except in tests.
	Clock func() time.Time
}

// API is the whole HTTP surface of the control plane.
type API struct {
	cfg         Config
	huma        huma.API
	router      *chi.Mux
	handler     http.Handler
	operations  []Operation
	known       map[string]bool
	ids         map[string]bool // parameters that are ids: "query site_id"
	callers     *sharedLimiter
	strangers   *limiter
	familiar    *familiar
	idempotency *idempotency
	streams     *streams
}

const vocabulary = "x-gpuaas-vocabulary"

var adoptProblems sync.Once

// New makes an API without operations.
func New(cfg Config) *API {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Gate == nil {
		cfg.Gate = func() error { return nil }
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 15 * time.Second
	}
	if cfg.ProxyHeader == "" {
		cfg.ProxyHeader = ForwardedFor
	}
	if cfg.Recheck <= 0 {
		cfg.Recheck = recheckEvery
	}
	adoptProblems.Do(useProblems)
	router := chi.NewMux()
	a := &API{
		cfg:         cfg,
		router:      router,
		huma:        humachi.New(router, framework(cfg)),
		known:       map[string]bool{},
		ids:         map[string]bool{},
		callers:     newSharedLimiter(cfg),
		strangers:   newLimiter(cfg.Limits, cfg.Clock),
		familiar:    newFamiliar(cfg.Clock),
		idempotency: newIdempotency(cfg),
		streams:     newStreams(cfg),
	}
	router.NotFound(a.routeNotFound)
	router.MethodNotAllowed(a.methodNotAllowed)
	a.serveDocs()
	a.handler = compressed(a.observe(a.canonical(router)))
	return a
}

func framework(cfg Config) huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: cfg.Title, Version: cfg.Version, Description: cfg.Description},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry(schemaPrefix, schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					bearerScheme: {Type: "http", Scheme: "bearer", Description: "An API token or the token of a signed-in user."},
				},
			},
		},
		Formats:       huma.DefaultFormats,
		DefaultFormat: "application/json",
	}
}

// Handler serves the API.
func (a *API) Handler() http.Handler { return a.handler }

// OpenAPI returns the contract of all registered operations.
func (a *API) OpenAPI() *huma.OpenAPI { return a.huma.OpenAPI() }

// Operations lists the registered operations in the order of registration.
func (a *API) Operations() []Operation { return slices.Clone(a.operations) }

// Schema adds a named enum to the contract and returns a reference to it.
func (a *API) Schema(name string, enum []string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, word := range enum {
		s.Enum = append(s.Enum, word)
	}
	s.PrecomputeMessages()
	doc := a.OpenAPI()
	doc.Components.Schemas.Map()[name] = s
	ref := &huma.Schema{Ref: schemaPrefix + name}
	// The framework leaves out of the contract what nothing refers to.
	words, _ := doc.Extensions[vocabulary].([]*huma.Schema)
	a.Extend(vocabulary, append(words, ref))
	return ref
}

// Extend puts a table of the product into the contract, for programs that are
// made from it.
func (a *API) Extend(name string, value any) {
	doc := a.OpenAPI()
	if doc.Extensions == nil {
		doc.Extensions = map[string]any{}
	}
	doc.Extensions[name] = value
}

// CloseStreams ends every open stream and terminal, so that a server that shuts
// down does not wait for them. Later ones are refused.
func (a *API) CloseStreams() { a.streams.close() }

// Sweep deletes Idempotency-Keys older than a day and returns how many. It also
// deletes what rate limits no longer need.
func (a *API) Sweep(ctx context.Context) (int64, error) {
	if err := a.callers.sweep(ctx); err != nil {
		return 0, err
	}
	return a.idempotency.sweep(ctx)
}
