package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gpuaas/console"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/lifecycle"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/health"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/certificate"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/fleet/signer"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/fleet/terminal"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/balance"
	"gpuaas/controlplane/internal/money/budget"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/payment"
	"gpuaas/controlplane/internal/money/statement"
	"gpuaas/controlplane/internal/operate/agentrun"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/depot"
	"gpuaas/controlplane/internal/operate/operation"
	"gpuaas/controlplane/internal/operate/policy"
	"gpuaas/controlplane/internal/operate/rollout"
	"gpuaas/controlplane/internal/people/identity"
	"gpuaas/controlplane/internal/people/sshkey"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance"
	"gpuaas/controlplane/internal/rent/quota"
	"gpuaas/controlplane/internal/rent/rentalsettings"
	"gpuaas/controlplane/internal/rent/reservation"
	"gpuaas/controlplane/internal/rent/webhook"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/pruning"
	"gpuaas/controlplane/internal/work/reconciliation"
	"gpuaas/controlplane/internal/work/selfcheck"
	"gpuaas/controlplane/internal/work/system"
)

// parts is everything that a process is made of. Nothing connects when it is
// made.
type parts struct {
	cfg             Config
	opts            Options
	logger          *slog.Logger
	telemetry       *telemetry.Telemetry
	db              *postgres.DB
	temporal        *durable.Client
	nats            *outbox.NATS
	ahead           *outbox.Ahead
	secrets         identities
	identity        *identity.Service
	regions         *site.MAAS
	sites           *site.Service
	fleet           *fleet
	bringup         *bringup.Bringup
	certificates    *certificate.Service
	jobs            []kind
	decommissions   *decommission.Service
	allocations     *allocation.Service
	maintenances    *maintenance.Service
	quotas          *quota.Service
	accounts        *account.Service
	balances        *balance.Service
	budgets         *budget.Service
	statements      *statement.Service
	reservations    *reservation.Service
	artifacts       *artifact.Service
	depot           *depot.Service
	webhooks        *webhook.Service
	operations      *operation.Service
	rollouts        *rollout.Service
	agentRuns       *agentrun.Service
	policies        *policy.Service
	reconciliations *reconciliation.Service
	pruning         *pruning.Service
	monitor         *health.Monitor
	api             *httpapi.API
	prepared        atomic.Bool
}

func newParts(cfg Config, opts Options, tel *telemetry.Telemetry) (*parts, error) {
	p := &parts{cfg: cfg, opts: opts, logger: tel.Logger, telemetry: tel}
	oidcSecret, err := fileSecret(cfg.OIDC.ClientSecretFile)
	if err != nil {
		return nil, err
	}
	if p.db, err = postgres.Open(postgres.Config{URL: cfg.Postgres.URL, MaxConns: int32(cfg.Postgres.MaxConns)}); err != nil { //nolint:gosec // validated
		return nil, err
	}
	p.ahead = outbox.NewAhead(outbox.AheadConfig{DB: p.db, Logger: p.logger})
	if p.temporal, err = durable.Open(durable.Config(cfg.Temporal), p.logger); err != nil {
		return nil, err
	}
	if p.nats, err = outbox.ConnectNATS(outbox.NATSConfig{
		URL: cfg.NATS.URL, TokenFile: cfg.NATS.TokenFile, CredentialsFile: cfg.NATS.CredentialsFile, CAFile: cfg.NATS.CAFile,
		Prefix: cfg.NATS.SubjectPrefix, Replicas: cfg.NATS.Replicas, Logger: p.logger,
	}); err != nil {
		return nil, err
	}
	if p.secrets, err = openIdentities(cfg); err != nil {
		return nil, err
	}
	p.identity = identity.New(identity.Config{
		DB: p.db, Logger: p.logger, OIDC: cfg.OIDC.identity(oidcSecret), Follow: allocation.Keyrings{},
	})
	p.regions = &site.MAAS{DB: p.db, Loopback: cfg.Sites.onLoopback}
	p.sites = site.New(site.Config{DB: p.db, Secrets: p.secrets, Regions: p.regions})
	p.fleet = newFleet(cfg, opts.Version, p.db, p.secrets, p.identity, p.backends(), p.logger)
	p.certificates = certificate.New(certificate.Config{
		DB: p.db, Engine: p.secrets, Issuer: cfg.Nodes.EnvironmentName,
		Logger: p.logger,
	})
	p.bringup, err = p.newBringup()
	if err != nil {
		return nil, err
	}
	if err := p.newJobs(); err != nil {
		return nil, err
	}
	p.newReconciliation()
	p.newRent()
	p.newRuns()
	p.pruning = p.newPruning()
	p.monitor = health.NewMonitor(p.dependencies()...)
	p.monitor.Insecure = cfg.insecure()
	proxies, err := cfg.proxies()
	if err != nil {
		return nil, err
	}
	p.api = p.newAPI(proxies)
	return p, p.observe()
}

// observe exports what is counted in the database: in workers only, since every
// process would say the same.
func (p *parts) observe() error {
	if !p.has(RoleWorker) {
		return nil
	}
	_, err := outbox.ObserveStats(p.db)
	return errors.Join(err, node.ObserveStats(p.db), agenttask.ObserveStats(p.db), p.reconciliations.ObserveStats(),
		p.fleetview().ObserveStats(), rollout.ObserveStats(p.db), agentrun.ObserveStats(p.db),
		job.ObserveStats(p.db), allocation.ObserveStats(p.db), balance.ObserveStats(p.db), statement.ObserveStats(p.db))
}

func fileSecret(file string) (Secret, error) {
	if file == "" {
		return Secret{}, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return Secret{}, fmt.Errorf("read secret: %w", err)
	}
	return NewSecret(strings.TrimSpace(string(b))), nil
}

// listenerDependency is the certificate of the node listener: not a service, and
// yet without it no node comes in.
const listenerDependency = "node_listener"

// dependencies are what the roles of this process cannot do without. The API
// alone needs only the database: whatever it is asked to do, it records. And
// nodes must be able to verify the listener that comes with it.
func (p *parts) dependencies() []health.Dependency {
	out := []health.Dependency{{Name: "postgres", Probe: func(ctx context.Context) error {
		if err := p.db.CheckSchema(ctx); err != nil {
			return err
		}
		return p.gate() // not ready while it does not serve
	}}}
	if p.has(RoleWorker) || p.has(RoleRelay) {
		out = append(out, health.Dependency{Name: "temporal", Probe: p.temporal.Check})
	}
	if p.has(RoleRelay) {
		out = append(out, health.Dependency{Name: "nats", Probe: p.nats.Check})
	}
	if p.has(RoleWorker) {
		out = append(out, health.Dependency{Name: "secrets", Probe: p.secrets.Check})
	}
	if p.has(RoleAPI) && p.fleet.hasListener(p.opts.NodeListener) {
		out = append(out, health.Dependency{Name: listenerDependency, Probe: p.fleet.trust.Check})
	}
	return out
}

// lifecycles are the tables of all nouns.
func (p *parts) lifecycles() []lifecycle.Description {
	return slices.Concat([]lifecycle.Description{node.Lifecycle.Describe()}, p.jobLifecycles(), []lifecycle.Description{
		selfcheck.Lifecycle.Describe(), outbox.Lifecycle.Describe(), identity.ServiceAccountLifecycle.Describe(),
		signer.Lifecycle.Describe(), agenttask.Lifecycle.Describe(), terminal.Lifecycle.Describe(),
		reconciliation.Lifecycle.Describe(), allocation.Lifecycle.Describe(), allocation.RequestLifecycle.Describe(),
		maintenance.Lifecycle.Describe(), definition.Lifecycle.Describe(), operation.Lifecycle.Describe(),
		operation.TargetLifecycle.Describe(), artifact.Lifecycle.Describe(), balance.Lifecycle.Describe(),
		agentrun.Lifecycle.Describe(),
	})
}

func (p *parts) newAPI(proxies []netip.Prefix) *httpapi.API {
	api := httpapi.New(httpapi.Config{
		Title: "gpuaas", Version: apiVersion, Description: description, Logger: p.logger, DB: p.db,
		Auth: p.identity, Projects: p.identity, Denials: audit.Denials{DB: p.db}, Gate: p.gate, TrustedProxies: proxies,
		ProxyHeader: p.cfg.ProxyHeader,
		Limits: httpapi.Limits{
			RequestsPerSecond: p.cfg.Limits.RequestsPerSecond, Burst: p.cfg.Limits.Burst,
			MaxBodyBytes: p.cfg.Limits.MaxBodyBytes, RequestTimeout: p.cfg.Limits.RequestTimeout,
			StreamsPerCaller: p.cfg.Limits.StreamsPerCaller, Streams: p.cfg.Limits.Streams,
		},
	})
	p.registerSystem(api)
	if p.has(RoleAPI) {
		p.registerSlices(api)
		api.Beyond("get-console", func(missing http.Handler) http.Handler { return console.Handler(p.logger, missing) })
	}
	return api
}

const description = "Turns racks of bare GPU servers into a dependable service. " +
	"Authorise with a bearer token: `gpuaas login` gets one, and the first start of a control plane makes one for its " +
	"administrator. " +
	"In a browser that is signed in to the console, its session is enough. " +
	"Errors are problem details with a stable `code`, a `remedy` and the `correlation_id` to quote. " +
	"Changes take an `Idempotency-Key`, updates need `If-Match`, lists continue with `next_cursor`."

// apiVersion is the version of the contract, not of the program.
const apiVersion = "1.0.0"

func (p *parts) registerSystem(api *httpapi.API) {
	roles := make([]string, len(p.cfg.Roles))
	for i, r := range p.cfg.Roles {
		roles[i] = string(r)
	}
	system.Source{
		Version: p.opts.Version, Roles: roles, Monitor: p.monitor, Metrics: p.telemetry.WriteMetrics,
		Lifecycles: p.lifecycles(),
		Outbox:     func(ctx context.Context) ([]outbox.DestinationStats, error) { return outbox.Stats(ctx, p.db) },
		Workers:    p.temporal.Queues, TemporalUI: p.cfg.Console.TemporalUIURL, Notices: p.notices,
	}.Register(api)
}

// notices are what operators should handle in time.
func (p *parts) notices(ctx context.Context) ([]system.Notice, error) {
	end, soon, err := p.identity.EndOfAccess(ctx)
	if err != nil || !soon {
		return nil, err
	}
	return []system.Notice{{
		Code: "admin_access_ends",
		Message: fmt.Sprintf("nobody can administer the platform after %s, when the token %q ends",
			end.At.UTC().Format(time.RFC3339), end.Token.Name),
		Remedy: "make a new token with gpuaas admin recover, or let an administrator sign in through the identity provider",
	}}, nil
}

func (p *parts) registerSlices(api *httpapi.API) {
	feed := outbox.NewFeed(p.nats)
	p.identity.Register(api)
	sshkey.New(p.db, allocation.Keyrings{}).Register(api)
	p.quotas.Register(api)
	p.accounts.Register(api)
	ledger.New(p.db).Register(api)
	p.balances.Register(api)
	p.budgets.Register(api)
	payment.New(p.db, p.secrets, nil).Register(api)
	p.statements.Register(api)
	rentalsettings.New(p.db).Register(api)
	p.reservations.Register(api)
	audit.Register(api, p.db)
	outbox.Register(api, outbox.NewDeadLetters(p.db), feed)
	p.selfChecks().RegisterAPI(api)
	p.sites.Register(api)
	p.fleet.skus.Register(api)
	price.New(p.db, p.cfg.Billing.PriceNotice).Register(api)
	p.fleet.nodes.Register(api)
	p.fleetview().Register(api)
	p.fleet.signers.Register(api)
	p.fleet.releases.Register(api)
	p.rollouts.Register(api)
	p.agentRuns.Register(api)
	p.fleet.tasks.RegisterAPI(api)
	p.fleet.terminals.Register(api)
	p.registerJobs(api, feed)
	p.certificates.Register(api)
	p.reconciliations.Register(api)
	p.pruning.Register(api)
	p.allocations.Register(api)
	p.maintenances.Register(api)
	p.webhooks.Register(api)
	p.registerOperations(api)
}

func (p *parts) selfChecks() selfcheck.Commands {
	return selfcheck.Commands{DB: p.db}
}

func (p *parts) selfCheckActivities() *selfcheck.Activities {
	return &selfcheck.Activities{Commands: p.selfChecks(), Secrets: p.secrets, Events: outbox.Deliveries{DB: p.db}}
}

// gate refuses requests until the database is prepared.
func (p *parts) gate() error {
	if p.prepared.Load() {
		return nil
	}
	return fault.New(fault.Unavailable, "starting", "the control plane is starting and waits for its database").
		WithRemedy("repeat the request in a moment; /readyz says what is missing")
}

func (p *parts) live(w http.ResponseWriter, r *http.Request) { health.Live(w, r) }

func (p *parts) ready(w http.ResponseWriter, r *http.Request) { p.monitor.Ready(w, r) }

func (p *parts) close() {
	p.bringup.Close()
	p.regions.Close()
	p.temporal.Close()
	p.nats.Close()
	p.db.Close()
}
