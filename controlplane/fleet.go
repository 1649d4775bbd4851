package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agentgateway"
	"gpuaas/controlplane/internal/fleet/agentrelease"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/signer"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/fleet/terminal"
	"gpuaas/controlplane/internal/operate/resolver"
	"gpuaas/controlplane/internal/rent/allocation"
)

// fleet is everything about nodes: the inventory, their tasks, and the listener
// for their agents.
type fleet struct {
	cfg       NodesConfig
	logger    *slog.Logger
	skus      *sku.Service
	nodes     *node.Service
	signers   *signer.Service
	tasks     agenttask.Commands
	queue     *agenttask.Queue
	trust     *agentgateway.Trust
	gateway   *agentgateway.Gateway
	terminals *terminal.Service
	renderer  *agentgateway.Renderer
	packages  *agentgateway.Packages
	releases  *agentrelease.Service
	// doubt asks for a look at the machine of a node. It is set once the rest
	// exists.
	doubt func(ctx context.Context, tx pgx.Tx, n id.Node, reason string) error
	// hostKeys tells a tenant that its node shows other host keys. It is set once
	// the rest exists.
	hostKeys func(ctx context.Context, tx pgx.Tx, n id.Node, keys node.HostKeys) error
	// cameBack looks at a node that has just reported, for the rollouts that it failed in
	// without a word. It is set once the rest exists.
	cameBack func(ctx context.Context, n id.Node) error
	// rent tends what tenants rent. It is set once the rest exists.
	rent func(ctx context.Context) error
	// registry answers nodes that read from the platform's registry. It is set once the rest
	// exists; nil: there is none.
	registry agentgateway.Registry
	// logs keeps what tasks print. It is set once the rest exists.
	logs agentgateway.Logs
}

// AppendLogs implements agentgateway.Logs.
func (f *fleet) AppendLogs(ctx context.Context, n id.Node, task id.NodeTask, r agentwire.LogsRequest) (
	agentwire.LogsResponse, error,
) {
	return f.logs.AppendLogs(ctx, n, task, r)
}

// ServeNode implements agentgateway.Registry.
func (f *fleet) ServeNode(w http.ResponseWriter, r *http.Request, n id.Node) error {
	if f.registry == nil {
		return fault.New(fault.NotFound, "registry_missing", "the platform has no registry of its own").
			WithRemedy("set registry.url on the control plane, or fetch from another registry")
	}
	return f.registry.ServeNode(w, r, n)
}

func newFleet(
	cfg Config, version string, db *postgres.DB, engine identities, holders terminal.Holders,
	backends map[string]agentgateway.Backend,
	logger *slog.Logger,
) *fleet {
	f := &fleet{cfg: cfg.Nodes, logger: logger, skus: sku.New(db)}
	trust := agentgateway.NewTrust(agentgateway.TrustConfig{
		PKI: engine, Names: cfg.Nodes.names(), Logger: logger,
		Bundle: func(ctx context.Context, listenerCA string) (string, error) {
			b, err := f.signers.Bundle(ctx, listenerCA)
			return b.PEM, err
		},
		CertFile: cfg.Nodes.TLS.CertFile, KeyFile: cfg.Nodes.TLS.KeyFile, CAFile: cfg.Nodes.TLS.CAFile,
		FormerCAFile: cfg.Nodes.FormerCAFile,
	})
	f.trust = trust
	f.renderer = agentgateway.NewRenderer(cfg.Nodes.URL, trust)
	f.nodes = node.New(node.Config{
		DB: db, PKI: engine, Bootstrap: f.renderer, Logger: logger,
		Settings:  node.Settings{OfflineAfter: cfg.Nodes.OfflineAfter},
		Listening: trust.Ready, OnRevoked: f.revoked,
		OnDoubt: func(ctx context.Context, tx pgx.Tx, n id.Node, reason string) error {
			return f.doubt(ctx, tx, n, reason)
		},
		OnHostKeys: func(ctx context.Context, tx pgx.Tx, n id.Node, keys node.HostKeys) error {
			return f.hostKeys(ctx, tx, n, keys)
		},
		OnReport: func(ctx context.Context, n id.Node, generation int64, c agentwire.Capabilities) error {
			// A node that cannot be given it, because it is fenced for example, may
			// still say what it is.
			if err := (resolver.Delivery{Tasks: f.tasks}).Reported(ctx, n, generation, c); err != nil {
				logger.WarnContext(ctx, "resolver configuration not given", "node_id", n, "error", err)
			}
			if err := f.cameBack(ctx, n); err != nil {
				logger.WarnContext(ctx, "node that may have to go back not looked at", "node_id", n, "error", err)
			}
			return nil
		},
	})
	f.signers = signer.New(signer.Config{
		DB: db, Keys: engine, Fleet: f.nodes, Distribute: f.distribute,
		Listening: trust.Fits, Logger: logger,
	})
	f.releases = agentrelease.New(agentrelease.Config{DB: db, Keys: cfg.Nodes.releaseKeys(), ControlPlane: version})
	f.packages = agentgateway.NewPackages(agentgateway.PackagesConfig{
		Folder: cfg.Nodes.AgentFolder, Version: cfg.Nodes.AgentVersion, Trust: trust, Signer: f.signers, Releases: f.releases,
	})
	f.tasks = agenttask.Commands{
		DB:        db,
		Preparers: map[string]agenttask.Prepare{agentwire.TypeSelfUpdate: f.packages.Prepare},
	}
	f.queue = agenttask.New(agenttask.QueueConfig{DB: db, Signer: f.signers, Logger: logger})
	f.terminals = terminal.New(terminal.Config{
		DB: db, Tasks: f.tasks, Holders: holders, Visits: allocation.Visits{DB: db}, Logger: logger,
		Settings: terminal.Settings{
			GatewayURL: cmp.Or(cfg.Nodes.TerminalURL, cfg.Nodes.URL), IdleLimit: cfg.Terminals.IdleLimit,
			TotalLimit: cfg.Terminals.TotalLimit,
		},
	})
	f.gateway = agentgateway.New(agentgateway.Config{
		DB: db, Nodes: f.nodes, Contacts: f.nodes.Contacts(), Tasks: f.queue, Signer: f.signers, Terminal: f.terminals,
		Logs: f, Registry: f, Trust: trust, Renderer: f.renderer, Packages: f.packages, Backends: backends, Logger: logger,
		Settings: agentgateway.Settings{
			TrustDomain: cfg.Nodes.TrustDomain, Environment: cfg.Nodes.EnvironmentName,
			BootstrapRate: float64(cfg.Nodes.NewcomerRate), BootstrapBurst: 10 * cfg.Nodes.NewcomerRate,
			CertificateTTL: cfg.Nodes.CertificateTTL, ShutdownTimeout: cfg.Limits.ShutdownTimeout,
		},
	})
	return f
}

// delivered returns the digests of the programs of an agent version, by name, or nil
// if they are not known here.
func (f *fleet) delivered(version string) map[string]string {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	programs, err := f.packages.Programs(ctx, version)
	if err != nil {
		f.logger.WarnContext(ctx, "programs of an agent version not read", "version", version, "error", err)
	}
	return programs
}

// released refuses a version that is no release, or that no node may be given.
func (f *fleet) released(ctx context.Context, version string) error {
	if _, err := f.releases.Get(ctx, version); err != nil {
		return err
	}
	return f.giveable(ctx, version)
}

// giveable refuses a version of the agent that no node may be given, released or not.
func (f *fleet) giveable(ctx context.Context, version string) error {
	_, err := f.releases.Digest(ctx, version)
	return err
}

// names returns the names by which nodes may reach this replica.
func (c NodesConfig) names() []string {
	names := append([]string{}, c.TLS.Names...)
	for _, address := range []string{c.URL, c.TerminalURL} {
		if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
			names = append(names, u.Hostname())
		}
	}
	return names
}

// distribute makes all nodes fetch what to trust. A node that is away learns of
// it with its next certificate.
func (f *fleet) distribute(ctx context.Context, tx pgx.Tx, set agentwire.VerifierSet, key string) error {
	_, err := f.tasks.EnqueueForFleet(ctx, tx, agenttask.Request{
		Type: agentwire.TypeUpdateVerifiers, Params: agentwire.UpdateVerifiersParams{Set: set},
		IdempotencyKey: key, Owner: signer.Publication{Set: set},
	})
	return err
}

// revoked ends what a node holds open after its identity was revoked.
func (f *fleet) revoked(ctx context.Context, tx pgx.Tx, n id.Node) error {
	return f.terminals.EndAll(ctx, tx, n)
}

// hasListener reports whether a process with role api answers nodes.
func (f *fleet) hasListener(given net.Listener) bool { return given != nil || f.cfg.Listen != "" }

// serve answers nodes, and keeps what they say of themselves.
func (f *fleet) serve(ctx context.Context, listener net.Listener) error {
	if !f.hasListener(listener) {
		return nil
	}
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", f.cfg.Listen); err != nil {
			return fmt.Errorf("listen for nodes on %s: %w", f.cfg.Listen, err)
		}
	}
	go f.nodes.Contacts().Run(ctx)
	go f.queue.Run(ctx)
	return f.gateway.Serve(ctx, listener)
}

// tendEvery is how often the fleet is checked: silence, leases, signers.
const tendEvery = 5 * time.Second

// loginsEvery is how often nodes with an open deploy login are looked for.
const loginsEvery = 10 * time.Minute

// everySo lets a step run at most once per pause.
func everySo(pause time.Duration, step func(context.Context) error) func(context.Context) error {
	var next time.Time
	return func(ctx context.Context) error {
		if time.Now().Before(next) {
			return nil
		}
		next = time.Now().Add(pause)
		return step(ctx)
	}
}

// tend does what the passing of time requires. Any number of replicas may run
// it; each step takes its own lock.
func (f *fleet) tend(ctx context.Context) {
	steps := map[string]func(context.Context) error{
		"nodes":   func(ctx context.Context) error { _, err := f.nodes.Sweep(ctx); return err },
		"tasks":   func(ctx context.Context) error { _, err := f.queue.Sweep(ctx); return err },
		"signers": f.signers.Tend,
		"rent":    f.rent,
		"logins":  everySo(loginsEvery, func(ctx context.Context) error { _, err := f.tasks.LockLogins(ctx); return err }),
	}
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	for {
		for name, step := range steps {
			if err := step(ctx); err != nil && ctx.Err() == nil {
				f.logger.WarnContext(ctx, "fleet could not be tended", "part", name, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
