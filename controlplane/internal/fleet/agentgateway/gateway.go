package agentgateway

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
)

// Nodes lists the calls that the gateway makes to the inventory.
type Nodes interface {
	TokenGrant(ctx context.Context, token redact.Secret) (node.Grant, error)
	BeginEnrolment(ctx context.Context, token redact.Secret, keyFingerprint, instance, hostname string,
		build agentwire.Build,
		capabilities agentwire.Capabilities, hardware *agentwire.Hardware) (node.Node, error)
	RecordCertificate(ctx context.Context, n id.Node, c node.Cert, askedWith string) error
	Authorize(ctx context.Context, p node.Presented) (node.Identity, error)
	Still(ctx context.Context, p node.Presented) (node.Identity, error)
	AcceptedVerifiers(ctx context.Context, n id.Node, version int64) error
	NoteTrust(ctx context.Context, i node.Identity, bundle, refused string) error
	Polled(ctx context.Context, i node.Identity) error
	Report(ctx context.Context, n id.Node, r agentwire.Report) error
	KeepHostKeys(ctx context.Context, n id.Node, r agentwire.HostKeysRequest) error
	KeepBaseline(ctx context.Context, n id.Node, b node.SignedBaseline) (agentwire.BaselineResponse, error)
}

// Contacts is told of every sign of life of a node; it writes nothing itself.
type Contacts interface {
	Note(n id.Node, says agentwire.Vitals)
}

// Tasks is the queue of what nodes are asked to do.
type Tasks interface {
	Wait(ctx context.Context, n id.Node, generation int64, hold time.Duration) (*agentwire.Envelope, error)
	TakeBack(ctx context.Context, e *agentwire.Envelope) error
	Result(ctx context.Context, n id.Node, task id.NodeTask, r agentwire.ResultRequest) error
	Progress(ctx context.Context, n id.Node, task id.NodeTask, p agentwire.ProgressRequest) (agentwire.ProgressResponse,
		error)
	Bound(ctx context.Context, n id.Node, task id.NodeTask, attempt int) (agenttask.Task, error)
}

// Signer knows what tasks and packages are signed with, and signs what nodes
// are to trust.
type Signer interface {
	Verifiers(ctx context.Context) (agentwire.VerifierSet, error)
	Statements(ctx context.Context, domain string,
		issuer func(ctx context.Context, recorded string) (string, error)) ([]agentwire.Statement, error)
	SignPackage(ctx context.Context, version, digest string) (signer string, signature []byte, err error)
}

// Terminal takes the node's end of an interactive session over.
type Terminal interface {
	ServeNode(w http.ResponseWriter, r *http.Request, n id.Node)
}

// Logs keeps what tasks print.
type Logs interface {
	AppendLogs(ctx context.Context, n id.Node, task id.NodeTask, r agentwire.LogsRequest) (agentwire.LogsResponse, error)
}

// Registry answers requests of nodes for manifests and blobs of the platform's registry.
type Registry interface {
	ServeNode(w http.ResponseWriter, r *http.Request, n id.Node) error
}

// Settings are chosen by operators.
type Settings struct {
	TrustDomain    string
	Environment    string
	CertificateTTL time.Duration
	// ShutdownTimeout bounds how long requests in flight are waited for.
	ShutdownTimeout time.Duration
	// BootstrapRate and BootstrapBurst bound how often one address may call without
	// a certificate. Zero means 50 a second and 500 at once, so that racks behind one
	// address can come up together.
	BootstrapRate  float64
	BootstrapBurst int
}

// Config holds everything that a gateway is made of.
type Config struct {
	DB       *postgres.DB
	Nodes    Nodes
	Contacts Contacts
	Tasks    Tasks
	Signer   Signer
	Terminal Terminal // nil: there are no terminals here
	Logs     Logs     // nil: nothing that prints is run here
	Registry Registry // nil: the platform has none
	Trust    *Trust
	Renderer *Renderer
	Packages *Packages
	// Backends make credentials, by type.
	Backends map[string]Backend
	Settings Settings
	Logger   *slog.Logger
	// Clock is time.Now unless a test says otherwise.
	Clock func() time.Time
}

// Gateway is the node-facing listener.
type Gateway struct {
	db       *postgres.DB
	nodes    Nodes
	contacts Contacts
	tasks    Tasks
	signer   Signer
	terminal Terminal
	logs     Logs
	registry Registry
	trust    *Trust
	renderer *Renderer
	packages *Packages
	backends map[string]Backend
	settings Settings
	logger   *slog.Logger
	clock    func() time.Time

	meter   meter
	handler http.Handler
	// leaving ends held polls when the listener shuts down.
	leaving context.Context //nolint:containedctx // it is the life of the listener, not of a call
	leave   context.CancelFunc
}

// New makes a gateway. Nothing is connected before Serve.
func New(cfg Config) *Gateway {
	g := &Gateway{
		db: cfg.DB, nodes: cfg.Nodes, contacts: cfg.Contacts, tasks: cfg.Tasks, signer: cfg.Signer, terminal: cfg.Terminal,
		logs: cfg.Logs, registry: cfg.Registry,
		trust: cfg.Trust, renderer: cfg.Renderer, packages: cfg.Packages, backends: cfg.Backends,
		settings: cfg.Settings, logger: cfg.Logger, clock: cfg.Clock,
	}
	if g.logger == nil {
		g.logger = slog.Default()
	}
	if g.clock == nil {
		g.clock = time.Now
	}
	if g.settings.ShutdownTimeout <= 0 {
		g.settings.ShutdownTimeout = 20 * time.Second
	}
	g.leaving, g.leave = context.WithCancel(context.Background())
	g.meter = newMeter(g.settings, g.clock)
	g.handler = g.routes()
	return g
}
