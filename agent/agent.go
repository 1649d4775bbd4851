// Package agent makes a server part of the fleet. It polls the control plane
// for signed tasks, verifies each, carries it out with the handler that is
// compiled in for its type, and reports. It decides nothing itself.
//
// What it promises:
//   - A task is carried out once, whatever is killed, delivered twice or
//     delivered out of order; see package journal.
//   - Nothing is carried out that the control plane did not sign for this node,
//     and every refusal is reported.
//   - It goes on by itself after any outage, and says what is wrong meanwhile.
package agent

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gpuaas/agent/internal/config"
	"gpuaas/agent/internal/enroll"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/journal"
	"gpuaas/agent/internal/operation"
	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/terminal"
	"gpuaas/agent/internal/transport"
	"gpuaas/agent/internal/update"
	"gpuaas/contract/agentwire"
)

// ErrRestart is returned by Run when the agent must be started again, for
// example after it has updated itself.
var ErrRestart = errors.New("the agent must be started anew")

// closeTime is how long running tasks may take to stop when the agent ends.
const closeTime = 20 * time.Second

// Options say where the agent works and which build it is.
type Options struct {
	// HostRoot stands for / on this machine. It is empty for the machine
	// itself.
	HostRoot string
	// ConfigPath is the environment file. Empty means the usual place.
	ConfigPath string
	Build      agentwire.Build
	Log        *slog.Logger

	// Tests replace these.
	handlers func(*Agent) map[string]task.Handler
	hook     func(point string)
	renewal  time.Duration // of leases
	pollWait time.Duration
	trial    time.Duration // of a new version
	trust    time.Duration // pause between unprompted looks at what to trust
	hostKeys time.Duration // pause between looks at the host keys
}

// Agent is one running agent.
type Agent struct {
	operations *operation.Runner // nil in tests that bring their own handlers
	o          Options
	config     config.Config
	store      enroll.Store
	lock       *lock
	identity   atomic.Pointer[enroll.Identity]
	trust      *enroll.Trust
	journal    *journal.Journal
	client     *transport.Client
	executor   *executor
	results    *outgoing
	machine    inspect.Machine
	updates    *update.Store
	sessions   *terminal.Sessions
	health     *health
	notify     notifier
	started    time.Time
	news       chan struct{} // something to report
	doubts     chan struct{} // the control plane may use keys that this node does not trust yet
	owed       chan struct{} // a renewal that a version on trial has not proven yet
	renewing   sync.Mutex
	end        context.CancelCauseFunc
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.renewal == 0 {
		o.renewal = agentwire.Lease / 3
	}
	if o.pollWait == 0 {
		o.pollWait = agentwire.DefaultWaitSeconds * time.Second
	}
	if o.trial == 0 {
		o.trial = update.TrialPeriod
	}
	if o.trust == 0 {
		o.trust = trustRest
	}
	if o.hostKeys == 0 {
		o.hostKeys = lookAtAddresses
	}
	if o.handlers == nil {
		o.handlers = (*Agent).compiledIn
	}
	return o
}

// Run runs the agent until the context ends. It returns an error if the agent
// cannot work, or ErrRestart.
func Run(ctx context.Context, o Options) error {
	a, err := open(o.withDefaults())
	if err != nil {
		return err
	}
	defer a.close()
	return a.run(ctx)
}

// open prepares what the agent needs. It changes nothing outside the agent's
// state.
func open(o Options) (_ *Agent, err error) {
	a := &Agent{
		o: o, started: time.Now(), news: make(chan struct{}, 1), doubts: make(chan struct{}, 1), owed: make(chan struct{}, 1),
		notify: systemd(),
	}
	if a.config, err = config.Load(o.HostRoot, o.ConfigPath); err != nil {
		return nil, err
	}
	a.store = enroll.NewStore(a.config)
	if a.lock, err = acquire(a.config.Lock()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.lock.release()
		}
	}()
	identity, err := a.store.Load()
	if err != nil {
		return nil, err
	}
	a.identity.Store(identity)
	roots, err := a.store.Roots()
	if err != nil {
		return nil, err
	}
	instance, err := a.store.Instance()
	if err != nil {
		return nil, err
	}
	if a.trust, err = a.store.OpenTrust(identity.Domain); err != nil {
		return nil, err
	}
	if a.journal, err = journal.Open(a.config.Journal(), identity.Node, time.Now); err != nil {
		return nil, err
	}
	if err := a.journal.RaiseGeneration(identity.Generation); err != nil {
		o.Log.Error("generation not written down", "error", err)
	}
	host := hostexec.Host{Root: a.config.Root}
	a.updates = update.New(host, o.Build.Version, time.Now)
	a.machine = inspect.Machine{Host: host, GPUs: gpuHelper(host)}
	a.client = transport.New(transport.Options{
		Base: a.config.API, Roots: roots, Node: identity.Node, Version: o.Build.Version, Instance: instance,
		Session:     rand.Text(),
		Certificate: func() *tls.Certificate { return a.identity.Load().Certificate }, Trust: a.introduce, Now: time.Now,
	})
	a.assemble()
	return a, nil
}

func (a *Agent) assemble() {
	log := a.o.Log.With("node_id", a.identity.Load().Node)
	a.o.Log = log
	a.health = newHealth(a.config.Status(), a.o.Build, log, a.notify)
	a.results = newOutgoing(a.client, a.journal, log)
	a.results.hook = a.o.hook
	a.executor = &executor{
		node: a.identity.Load().Node, build: a.o.Build, calls: a.client, journal: a.journal, verifiers: a.trust.Verifiers(),
		now: time.Now, skew: a.client.Skew, log: log, renewal: a.o.renewal, hook: a.o.hook, results: a.results,
		slot: make(chan struct{}, 1), running: map[string]*execution{},
		end: func(err error) { a.end(err) }, amendment: a.amendment, doubt: a.lookAtTrust,
	}
	a.executor.handlers = a.o.handlers(a)
	a.executor.handlers[agentwire.TypeHeartbeatCheck] = heartbeat{a}
	a.executor.handlers[agentwire.TypeUpdateVerifiers] = updateVerifiers{a}
}

func (a *Agent) close() {
	if err := a.journal.Close(); err != nil {
		a.o.Log.Error("close journal", "error", err)
	}
	a.lock.release()
}

func (a *Agent) run(ctx context.Context) error {
	ctx, a.end = context.WithCancelCause(ctx)
	defer a.end(nil)
	for _, d := range a.journal.Damage() {
		a.o.Log.Error("the task journal was damaged; the damaged file is kept beside it", "damage", d)
	}
	a.o.Log.Info("agent started", "version", a.o.Build.Version, "commit", a.o.Build.Commit, "control_plane",
		a.config.API.Host,
		"certificate_not_after", a.identity.Load().NotAfter.UTC().Format(time.RFC3339), "verifier_version",
		a.trust.Verifiers().Version())

	var beside sync.WaitGroup
	for _, work := range []func(context.Context){
		a.results.Run, a.keepIdentity, a.keepTrust, a.keepReported, a.keepHostKeys,
		a.keepBaseline, a.keepWatchdog, a.settleFirstBoot,
	} {
		beside.Go(func() { work(ctx) })
	}
	trial, err := a.beginTrial(ctx)
	if err != nil {
		a.o.Log.Error("record of the last update not read", "error", err)
	}
	if a.operations != nil {
		a.operations.Start(ctx, func(task string) bool {
			entry, known := a.journal.Lookup(task)
			return known && entry.Result == nil
		})
	}
	a.executor.Resume(ctx)
	a.notify.send("READY=1")
	a.poll(ctx, trial)

	a.notify.send("STOPPING=1")
	a.closeTerminals()
	a.executor.Close(closeTime)
	beside.Wait()
	a.health.stopped()
	return a.reason(context.Cause(ctx))
}

// reason returns nil if the agent was meant to end, and otherwise the cause.
func (a *Agent) reason(cause error) error {
	switch {
	case errors.Is(cause, task.ErrRestart), errors.Is(cause, errTrialFailed):
		a.o.Log.Info("agent ends to be started anew", "cause", cause)
		return fmt.Errorf("%w: %w", ErrRestart, cause)
	case errors.Is(cause, task.ErrStop):
		a.o.Log.Info("agent ends for good: it was removed from this machine")
	default:
		a.o.Log.Info("agent ends")
	}
	return nil
}

// Confine turns this process into a program that the agent starts confined, if
// it was started for that. The main program calls it first.
func Confine() { hostexec.Confine() }
