package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/operate/depot"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/selfcheck"
)

// Options is what a process gives the control plane besides its configuration.
type Options struct {
	Version string
	Log     io.Writer
	// Listener replaces the configured address. The control plane closes it.
	Listener net.Listener
	// NodeListener replaces nodes.listen in the same way.
	NodeListener net.Listener
	// KeepAdminToken is called on the very first start, with the only copy of
	// the first administrator's token. If it is nil, no administrator is made.
	KeepAdminToken func(Secret) error
	// Restored says which backup the database came from, on the first start after
	// a restore; RestoreNoted is called once that is recorded. Both may be nil.
	Restored     *Restored
	RestoreNoted func() error
	// Mischief makes stages of jobs go wrong. It may be nil.
	Mischief Mischief
	// Lab answers below /lab/ to those who manage sites: what a simulated data
	// centre offers to play with. It may be nil.
	Lab http.Handler
	// HurryRetries leaves no time between the attempts at a stage, and looks
	// often at what a stage waits for. It is for machines that take no time.
	HurryRetries bool
	// AdminToken reads the admin token that the operator keeps, once everything
	// has answered. Ready is told whether it works. It may be nil.
	AdminToken func() (Secret, error)
	// Ready is called once every service that the process needs has answered.
	Ready func(Announcement)
}

// Announcement is what a process says of itself once it is of use.
type Announcement struct {
	Address string
	Admin   AdminAccess
	// Listener says why no node can verify the node listener. Nil: nodes can.
	Listener error
}

// AdminAccess says whether the admin token that the operator keeps works.
type AdminAccess struct {
	Works bool
	Ends  time.Time // zero if it does not work
}

// Run does the configured roles until the context ends, then finishes what is
// in flight. If a dependency is not there yet or goes away, it waits.
func Run(ctx context.Context, cfg Config, opts Options) error {
	tel, err := telemetry.Start(ctx, telemetry.Config{
		LogFormat: cfg.Log.Format, LogLevel: cfg.Log.Level, OTLPEndpoint: cfg.OTLP.Endpoint, Version: opts.Version,
	}, opts.Log)
	if err != nil {
		return err
	}
	defer func() { _ = tel.Stop(context.WithoutCancel(ctx)) }()
	p, err := newParts(cfg, opts, tel)
	if err != nil {
		return err
	}
	defer p.close()
	for _, w := range cfg.Warnings() {
		p.logger.WarnContext(ctx, "the configuration should not stay as it is", "because", w)
	}
	listener := opts.Listener
	if listener == nil {
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen); err != nil {
			return fmt.Errorf("listen on %s: %w", cfg.Listen, err)
		}
	}
	return p.run(ctx, listener)
}

func (p *parts) run(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.serve(ctx, listener) })
	group.Go(func() error {
		if err := p.prepare(ctx); err != nil {
			return err
		}
		p.prepared.Store(true)
		if p.has(RoleAPI) {
			group.Go(func() error { return p.fleet.serve(ctx, p.opts.NodeListener) })
			group.Go(func() error { p.fleet.terminals.Run(ctx); return nil })
			group.Go(func() error { p.operations.Follow(ctx); return nil })
		}
		if p.has(RoleWorker) {
			group.Go(func() error { return p.keepFleet(ctx) })
			group.Go(func() error { p.keepPlaces(ctx); return nil })
			group.Go(func() error { p.keepReconciling(ctx); return nil })
			group.Go(func() error { p.keepPruning(ctx); return nil })
			group.Go(func() error { p.webhooks.Run(ctx); return nil })
			group.Go(func() error { p.ahead.Run(ctx); return nil })
			group.Go(func() error {
				return p.temporal.RunWorker(ctx, p.cfg.Limits.ShutdownTimeout, p.workflows()...)
			})
		}
		if p.has(RoleRelay) {
			group.Go(func() error { p.relay().Run(ctx); return nil })
		}
		if p.has(RoleWorker) || p.has(RoleRelay) {
			group.Go(func() error { p.markWorkflows(ctx); return nil })
		}
		group.Go(func() error { p.keepHouse(ctx); return nil })
		p.announce(ctx, listener.Addr().String())
		return nil
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (p *parts) has(r Role) bool { return slices.Contains(p.cfg.Roles, r) }

// serve answers HTTP, also while everything else is still being waited for: at
// night somebody must be able to ask what the process is waiting for.
func (p *parts) serve(ctx context.Context, listener net.Listener) error {
	server := httpapi.Server(p.handler(), listener.Addr().String())
	server.ErrorLog = slog.NewLogLogger(p.logger.Handler(), slog.LevelWarn)
	done := make(chan error, 1)
	go func() {
		<-ctx.Done()
		p.api.CloseStreams()
		if p.depot != nil {
			p.depot.Close()
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Limits.ShutdownTimeout)
		defer cancel()
		done <- server.Shutdown(grace)
	}()
	var err error
	if p.cfg.TLS.CertFile != "" {
		err = server.ServeTLS(listener, p.cfg.TLS.CertFile, p.cfg.TLS.KeyFile)
	} else {
		err = server.Serve(listener)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", listener.Addr(), err)
	}
	if err := <-done; err != nil {
		return fmt.Errorf("finish requests in flight: %w", err)
	}
	return nil
}

// handler is everything that the process answers.
func (p *parts) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", p.live)
	mux.HandleFunc("GET /readyz", p.ready)
	if p.opts.Lab != nil {
		mux.Handle("/lab/", p.api.Guarded("lab", auth.SiteManage, p.labAudited(http.StripPrefix("/lab", p.opts.Lab))))
	}
	if !p.has(RoleAPI) { // then there is no console either
		mux.Handle("GET /{$}", http.RedirectHandler("/docs", http.StatusSeeOther))
	}
	if p.depot != nil && p.has(RoleAPI) {
		mux.Handle("/v2/", depot.Tokened(p.api.Attended("registry", http.HandlerFunc(p.depot.ServePeople), p.depot.Refuse)))
	}
	mux.Handle("/", p.api.Handler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.Canonical(r) { // the mux would redirect the caller
			p.api.Handler().ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// prepare waits for the database, brings its schema forward and makes the first
// administrator, as configured.
func (p *parts) prepare(ctx context.Context) error {
	ctx = telemetry.WithCorrelation(ctx, id.NewString())
	return p.insist(ctx, "prepare database", func() error {
		if p.cfg.Postgres.MigrateOnStart {
			applied, err := postgres.Migrate(ctx, p.cfg.Postgres.MigrateURL)
			for _, a := range applied {
				p.logger.InfoContext(ctx, "migration applied", "version", a.Version, "name", a.Name)
			}
			if err != nil {
				return err
			}
		}
		if err := p.db.CheckSchema(ctx); err != nil {
			return err
		}
		if err := p.noteRestore(ctx); err != nil {
			return err
		}
		p.importBundles(ctx)
		if err := p.installDefinitions(ctx); err != nil {
			return err
		}
		if p.opts.KeepAdminToken == nil {
			return nil
		}
		_, _, err := p.identity.Bootstrap(ctx, p.opts.KeepAdminToken)
		return err
	})
}

func (p *parts) noteRestore(ctx context.Context) error {
	r := p.opts.Restored
	if r == nil {
		return nil
	}
	if err := p.fleet.nodes.NoteRestore(ctx, r.TakenAt, r.RestoredAt); err != nil {
		return err
	}
	p.logger.WarnContext(ctx, "restored from a backup", "taken_at", r.TakenAt, "restored_at", r.RestoredAt)
	return p.opts.RestoreNoted()
}

// importBundles brings bundles of sites that were files of workers into the
// database. A folder that cannot be read is tried again at the next start.
func (p *parts) importBundles(ctx context.Context) {
	if !p.has(RoleWorker) {
		return
	}
	done, err := p.sites.ImportBundles(ctx, p.cfg.Nodes.BundleFolder)
	for _, refused := range done.Refused {
		p.logger.WarnContext(ctx, "a file in nodes.bundle_folder is no bundle", "because", refused)
	}
	if err != nil {
		p.logger.ErrorContext(ctx, "bundles of sites could not be imported", "folder", p.cfg.Nodes.BundleFolder, "error", err)
	} else if done.Sites > 0 {
		p.logger.InfoContext(ctx, "bundles of sites imported", "sites", done.Sites, "bundles", done.Bundles)
	}
}

// announce says that the process is of use, once every service that it depends
// on has answered. A node listener that no node can verify does not hold it
// back: nobody but an operator, who reads the announcement, can change that.
func (p *parts) announce(ctx context.Context, address string) {
	err := p.insist(ctx, "reach all dependencies", func() error {
		for _, s := range p.monitor.States(ctx) {
			if !s.Up && s.Name != listenerDependency {
				return fmt.Errorf("%s: %s", s.Code, s.Message)
			}
		}
		return nil
	})
	if err != nil {
		return
	}
	p.logger.InfoContext(ctx, "ready", "address", address, "roles", p.cfg.Roles)
	if p.opts.Ready == nil {
		return
	}
	said := Announcement{Address: address, Admin: p.adminAccess(ctx)}
	if p.has(RoleAPI) && p.fleet.hasListener(p.opts.NodeListener) {
		said.Listener = p.fleet.trust.CheckNow(ctx)
	}
	p.opts.Ready(said)
}

// adminAccess says whether the admin token that the operator keeps works.
func (p *parts) adminAccess(ctx context.Context) (access AdminAccess) {
	if p.opts.AdminToken == nil {
		return access
	}
	token, err := p.opts.AdminToken()
	if err != nil {
		p.logger.WarnContext(ctx, "the admin token cannot be read", "error", err)
		return access
	}
	who, err := p.identity.Authenticate(ctx, token)
	if err != nil {
		p.logger.WarnContext(ctx, "the admin token that is kept does not work", "error", err)
		return access
	}
	return AdminAccess{Works: who.Platform == auth.PlatformAdmin, Ends: who.Expires}
}

// insist repeats what must work sooner or later, and logs why it waits.
func (p *parts) insist(ctx context.Context, what string, try func() error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := try()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		p.logger.WarnContext(ctx, "waiting", "for", what, "because", err, "retry_in", wait.String())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (p *parts) relay() *outbox.Relay {
	return outbox.NewRelay(outbox.RelayConfig{
		DB: p.db, Logger: p.logger,
		Destinations: map[string]outbox.Deliverer{
			outbox.DestinationNATS: p.nats, outbox.DestinationTemporal: durable.Intents{Client: p.temporal},
		},
	})
}

// markWorkflows lets operators find workflows in Temporal by their subject. If
// Temporal does not allow it, it is asked for a while, not for ever.
func (p *parts) markWorkflows(ctx context.Context) {
	for wait := time.Second; ; wait *= 2 {
		err := p.temporal.EnsureMarks(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if wait > time.Hour {
			p.logger.WarnContext(ctx, "workflows cannot be found by site or host in Temporal", "error", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (p *parts) workflows() []durable.Registration {
	out := []durable.Registration{
		selfcheck.Register(p.selfCheckActivities()), p.reconciliations.RegisterWorker,
		p.allocations.RegisterWorker, p.operations.RegisterWorker, p.rollouts.RegisterWorker, p.agentRuns.RegisterWorker,
		p.balances.RegisterWorker,
		p.statements.RegisterWorker,
	}
	for _, k := range p.jobs {
		out = append(out, k.RegisterWorker)
	}
	return out
}

// keepFleet makes the first key that signs tasks, then tends the fleet while
// the process runs.
func (p *parts) keepFleet(ctx context.Context) error {
	ctx = telemetry.WithCorrelation(ctx, id.NewString())
	if err := p.insist(ctx, "make the first task signer",
		func() error { return p.fleet.signers.Ensure(ctx) }); err != nil {
		return err
	}
	go p.allocations.Attend(ctx)
	p.fleet.tend(ctx)
	return nil
}

// keepPlaces hands out places of sites and batches that nobody gave back.
func (p *parts) keepPlaces(ctx context.Context) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := job.Tend(ctx, p.db, time.Now()); err != nil && ctx.Err() == nil {
			p.logger.WarnContext(ctx, "places of sites and batches could not be handed out", "error", err)
		}
	}
}

// keepHouse removes what is no longer needed, and warns of what ends soon.
func (p *parts) keepHouse(ctx context.Context) {
	for {
		if _, err := p.api.Sweep(ctx); err != nil && ctx.Err() == nil {
			p.logger.WarnContext(ctx, "old idempotency keys could not be removed", "error", err)
		}
		if p.has(RoleAPI) { // it may remove secrets of sites
			if err := p.sites.Tend(telemetry.WithCorrelation(ctx, id.NewString())); err != nil && ctx.Err() == nil {
				p.logger.WarnContext(ctx, "sites that were deleted have not left whole", "error", err)
			}
		}
		if _, err := (blob.Store{DB: p.db}).Sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.logger.WarnContext(ctx, "uploads and files that nobody needs could not be removed", "error", err)
		}
		if err := p.identity.AnnounceEndOfAccess(telemetry.WithCorrelation(ctx, id.NewString())); err != nil &&
			ctx.Err() == nil {
			p.logger.WarnContext(ctx, "it could not be told whether somebody can administer the platform for long", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Minute):
		}
	}
}
