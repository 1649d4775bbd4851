package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
	"gpuaas/controlplane/internal/engine/postgres"
)

// AheadConfig says how work is done ahead of its workflow. Zero values mean the
// defaults.
type AheadConfig struct {
	DB     *postgres.DB
	Logger *slog.Logger
	Places int           // how many work at a time; who only waits for a node needs none; 16
	Most   int           // how many may be under way; what comes beyond is left to workflows; 512
	Lease  time.Duration // when the workflow starts of work whose process has died; 15 s
	// Patience is how long work may take before it is left to its workflow; ten minutes.
	// For a place it waits for two leases.
	Patience time.Duration
}

// Ahead does in this process, right after the transaction that asks for it, what a
// workflow would do, and starts the workflow only where that was not enough: most
// work takes milliseconds, and a workflow costs more than the work itself.
//
// The start of the workflow is in the outbox from the beginning, like a message that
// waits for its second attempt. It is put off as long as this process is at work,
// and deleted when nothing is left to do. A process that dies leaves it behind, and
// the workflow does the rest. So what is done ahead must be what the workflow does
// first, and must bear being repeated and being done by both at once.
type Ahead struct {
	cfg    AheadConfig
	places chan struct{}
	woken  chan struct{}

	mu    sync.Mutex
	works context.Context            // of Run; nil: nothing is done ahead
	under map[id.Event]bool          // what is under way
	done  []id.Event                 // needs no workflow
	left  map[id.Event]time.Duration // needs its workflow after so long
	group sync.WaitGroup             // of what is under way
}

// NewAhead makes it. Until Run runs, all is left to workflows.
func NewAhead(cfg AheadConfig) *Ahead {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Places <= 0 {
		cfg.Places = 16
	}
	if cfg.Most <= 0 {
		cfg.Most = 512
	}
	if cfg.Lease <= 0 {
		cfg.Lease = 15 * time.Second
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 10 * time.Minute
	}
	return &Ahead{
		cfg: cfg, places: make(chan struct{}, cfg.Places), woken: make(chan struct{}, 1), under: map[id.Event]bool{},
		left: map[id.Event]time.Duration{},
	}
}

// Errand is work that is done ahead of its workflow.
type Errand func(ctx context.Context) (Rest, error)

// Rest is what an errand leaves to its workflow.
type Rest struct {
	Done bool          // nothing
	Wait time.Duration // the workflow must not begin before
}

// Start adds the start of a workflow to the caller's transaction, as StartWorkflow
// does, and does the errand once it has committed. A nil Ahead only starts workflows.
func (a *Ahead) Start(ctx context.Context, tx pgx.Tx, start WorkflowStart, do Errand) error {
	if !a.ready() {
		return StartWorkflow(ctx, tx, start)
	}
	if start.Type == "" || start.ID == "" || start.Queue == "" {
		return fault.New(fault.Internal, "workflow_start_incomplete", "a workflow start needs type, id and queue")
	}
	body, err := json.Marshal(start)
	if err != nil {
		return fmt.Errorf("encode start of workflow %s: %w", start.Type, err)
	}
	hash, m := aggregateHash(workflowKind, start.ID), Message{
		ID: id.New[id.Event](), CorrelationID: correlationOf(ctx), TraceParent: traceParent(ctx),
	}
	if err := outboxdb.New(tx).InsertAhead(ctx, outboxdb.InsertAheadParams{
		Key: int64(hash), ID: m.ID, Destination: DestinationTemporal, Partition: int16(hash % partitions), //nolint:gosec // any bits
		AggregateKind: workflowKind, AggregateID: start.ID, EventType: start.Type, Envelope: body,
		CorrelationID: m.CorrelationID, TraceParent: m.TraceParent, LeaseSeconds: a.cfg.Lease.Seconds(),
	}); err != nil {
		return fmt.Errorf("append %s to outbox: %w", start.Type, err)
	}
	postgres.AfterCommit(ctx, func() { a.take(m, start.ID, do) })
	return nil
}

// Running reports whether errands are done.
func (a *Ahead) Running() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.works != nil && a.works.Err() == nil
}

// ready reports whether somebody would do one more errand now.
func (a *Ahead) ready() bool {
	if a == nil || !a.Running() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.under) < a.cfg.Most
}

// take begins an errand. Where nobody does errands any more, the workflow starts
// when the lease is over.
func (a *Ahead) take(m Message, workflowID string, do Errand) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.works == nil || a.works.Err() != nil {
		return
	}
	a.under[m.ID] = true
	ctx := auth.With(m.Context(a.works), auth.System("workflow:"+workflowID))
	a.group.Go(func() {
		rest, err := a.carryOut(ctx, do)
		if err != nil && ctx.Err() == nil {
			a.cfg.Logger.WarnContext(ctx, "work was not done at once; its workflow goes on", "workflow_id", workflowID,
				"error", err)
		}
		a.ended(m.ID, rest)
	})
}

// carryOut does an errand when there is a place. What finds none in time, or takes long,
// is left to its workflow: other processes have places, too.
func (a *Ahead) carryOut(ctx context.Context, do Errand) (rest Rest, err error) {
	waited := time.NewTimer(2 * a.cfg.Lease)
	defer waited.Stop()
	select {
	case a.places <- struct{}{}:
	case <-waited.C:
		return Rest{}, nil
	case <-ctx.Done():
		return Rest{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	defer func() { <-a.places }()
	defer func() {
		if met := recover(); met != nil { // a worker of Temporal survives it, too
			a.cfg.Logger.ErrorContext(ctx, "work panicked", "panic", met, "stack", string(debug.Stack()))
			rest, err = Rest{}, fault.New(fault.Internal, "work_panicked", "the work met a defect of the control plane")
		}
	}()
	return do(context.WithValue(ctx, placesKey{}, a.places))
}

type placesKey struct{}

// Aside gives the place of an errand to others while it only waits. It takes one
// again with the function that it returns. Elsewhere it does nothing.
func Aside(ctx context.Context) (back func()) {
	places, ok := ctx.Value(placesKey{}).(chan struct{})
	if !ok {
		return func() {}
	}
	<-places
	return func() { places <- struct{}{} }
}

func (a *Ahead) ended(of id.Event, rest Rest) {
	a.mu.Lock()
	delete(a.under, of)
	if rest.Done {
		a.done = append(a.done, of)
	} else {
		a.left[of] = rest.Wait
	}
	a.mu.Unlock()
	select {
	case a.woken <- struct{}{}:
	default:
	}
}

// Run does errands until the context ends, and leaves the rest to workflows.
func (a *Ahead) Run(ctx context.Context) {
	a.mu.Lock()
	a.works = ctx
	a.mu.Unlock()
	renewals := time.NewTicker(a.cfg.Lease / 3)
	defer renewals.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-a.woken:
			a.settle(ctx)
		case <-renewals.C:
			a.renew(ctx)
		}
	}
	a.group.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	a.settle(last)
}

// settle deletes the starts that nobody needs any more, and lets the others be
// delivered. If that fails, they are delivered when their lease is over: a workflow
// that finds nothing to do ends.
func (a *Ahead) settle(ctx context.Context) {
	a.mu.Lock()
	done, left := texts(a.done), map[time.Duration][]id.Event{}
	for of, wait := range a.left {
		left[wait] = append(left[wait], of)
	}
	a.done = nil
	clear(a.left)
	a.mu.Unlock()
	q := outboxdb.New(a.cfg.DB)
	if len(done) > 0 {
		if err := q.Spare(ctx, done); err != nil {
			a.cfg.Logger.WarnContext(ctx, "workflows start that are not needed", "number", len(done), "error", err)
		}
	}
	for wait, of := range left {
		if err := q.PutOff(ctx, outboxdb.PutOffParams{Ids: texts(of), LeaseSeconds: wait.Seconds()}); err != nil {
			a.cfg.Logger.WarnContext(ctx, "workflows start only when their lease is over", "number", len(of), "error", err)
		}
	}
	if len(left) > 0 {
		a.cfg.DB.NotifySoon(channelOf(DestinationTemporal), "")
	}
}

// renew keeps the workflows away of what is under way.
func (a *Ahead) renew(ctx context.Context) {
	a.mu.Lock()
	under := texts(slices.Collect(maps.Keys(a.under)))
	a.mu.Unlock()
	if len(under) == 0 {
		return
	}
	err := outboxdb.New(a.cfg.DB).PutOff(ctx, outboxdb.PutOffParams{Ids: under, LeaseSeconds: a.cfg.Lease.Seconds()})
	if err != nil && ctx.Err() == nil {
		a.cfg.Logger.WarnContext(ctx, "workflows may start beside what is done already", "number", len(under), "error", err)
	}
}

func texts(of []id.Event) []string {
	out := make([]string, len(of))
	for i, one := range of {
		out[i] = one.String()
	}
	return out
}
