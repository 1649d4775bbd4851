package agenttask

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/propagation"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
	"gpuaas/controlplane/internal/fleet/node"
)

// Prepare completes the parameters of a task that an operator asks for. For an
// update it adds the digest and signature of the package, for example.
type Prepare func(ctx context.Context, node id.Node, params json.RawMessage) (json.RawMessage, error)

// Commands lets the control plane ask nodes to do things.
type Commands struct {
	DB *postgres.DB
	// Preparers completes the parameters of these types. Only requests of
	// operators pass through it.
	Preparers map[string]Prepare
	// Clock is time.Now except in tests.
	Clock func() time.Time
}

func (c Commands) now() time.Time {
	if c.Clock != nil {
		return c.Clock()
	}
	return time.Now()
}

const aggregate = "node_task"

// Enqueue adds a task to the caller's transaction. If an earlier request with
// the same key asked for the same, Enqueue returns its task.
func (c Commands) Enqueue(ctx context.Context, tx pgx.Tx, r Request) (Task, error) {
	if err := r.owned(ctx, tx); err != nil {
		return Task{}, err
	}
	spec, params, err := checked(r.Type, r.Params)
	if err != nil {
		return Task{}, err
	}
	own := r.window()
	spec = r.adapted(spec)
	q := agenttaskdb.New(tx)
	generation, err := target(ctx, q, r.Node, r.Type)
	if err != nil {
		return Task{}, err
	}
	row, err := q.Insert(ctx, agenttaskdb.InsertParams{
		ID: id.New[id.NodeTask](), NodeID: r.Node, Type: r.Type, Params: params, ConcurrencyClass: string(spec.Class),
		Generation: generation, MaxAttempts: int32(spec.Attempts), //nolint:gosec // a small number of the catalog
		DeadlineAt:     c.deadline(spec),
		IdempotencyKey: r.IdempotencyKey, AwaitWorkflowID: r.AwaitWorkflow, RequestedBy: auth.From(ctx).ID, Reason: r.Reason,
		CorrelationID: correlation(ctx), TraceParent: traceParent(ctx), WindowSeconds: own, AwaitSignal: r.AwaitSignal,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return repeated(ctx, q, r, params)
	}
	if err != nil {
		return Task{}, fmt.Errorf("insert task %s for node %s: %w", r.Type, r.Node, err)
	}
	t, err := fromRow(row)
	if err != nil {
		return Task{}, err
	}
	if t.opens() {
		if err := t.announced(ctx, tx); err != nil {
			return Task{}, err
		}
	}
	if err := record(ctx, tx, "node_task.create", t, audit.Success, r.Reason, nil); err != nil {
		return Task{}, err
	}
	if err := announce(ctx, tx, eventwire.NodeTaskQueued, t); err != nil {
		return Task{}, err
	}
	return t, postgres.Notify(ctx, tx, channel, r.Node.String())
}

// adapted is the declaration of the type with what the request decides itself.
func (r Request) adapted(spec agentwire.Spec) agentwire.Spec {
	spec.Class = cmp.Or(r.Class, spec.Class)
	spec.Window, spec.Patience = cmp.Or(r.Window, spec.Window), cmp.Or(r.Patience, spec.Patience)
	return spec
}

// window is how many seconds an attempt may take; nil: as many as the type says.
func (r Request) window() *int32 {
	if r.Window == 0 {
		return nil
	}
	seconds := int32(r.Window / time.Second) //nolint:gosec // the database refuses more than a day
	return &seconds
}

// spec is the declaration of the type of a task. Tasks of a type that was taken
// away since do nothing.
func (t Task) spec() agentwire.Spec {
	spec, _ := agentwire.Lookup(t.Type)
	return spec
}

// announced refuses to let anybody in while an operation holds the node, and
// taints the node unless its type waits for the end of the task (KeptOut).
func (t Task) announced(ctx context.Context, tx pgx.Tx) error {
	if len(t.spec().KeptOut) > 0 {
		return node.Free(ctx, tx, t.Node)
	}
	return node.LetIn(ctx, tx, t.Node, t.givesRoot(), t.entry())
}

// provenOut reports whether it is proven that a task let nobody in. An earlier
// attempt that nobody heard of again may have.
func (t Task) provenOut(e ending) bool {
	codes := t.spec().KeptOut
	return len(codes) > 0 && t.Status == Failed && t.Attempt == 1 && (e.refused || slices.Contains(codes, e.err.Code))
}

// givesRoot says how a task gives somebody root. It is empty if the task does
// not.
func (t Task) givesRoot() node.RootCause {
	spec, known := agentwire.Lookup(t.Type)
	switch {
	case !known || !spec.GivesRoot(t.Params):
		return ""
	case t.Type == agentwire.TypeOperationRun:
		return node.RootByOperation
	}
	return node.RootBySudo
}

// opens reports whether a task gives a tenant access to the node: an account, a
// terminal, or steps of their own choice that root carries out.
func (t Task) opens() bool { return t.spec().LetsIn || t.givesRoot() != "" }

func (t Task) entry() string {
	if t.Type == agentwire.TypeOperationRun {
		return fmt.Sprintf("task %s (%s) changes the node as root for a tenant", t.ID, t.Type)
	}
	return fmt.Sprintf("task %s (%s) lets a tenant in", t.ID, t.Type)
}

// deadline is when it is too late for a task: the longest time that the node
// may take to fetch it, plus the time of one attempt.
func (c Commands) deadline(spec agentwire.Spec) time.Time {
	return c.now().Add(spec.Patience + spec.Window)
}

// EnqueueForFleet gives every node in the fleet the same task, in one
// statement, and returns how many got one. A node that has a task with this key
// keeps that one. There is no event per node; whatever caused the change
// publishes its own.
func (c Commands) EnqueueForFleet(ctx context.Context, tx pgx.Tx, r Request) (int, error) {
	if err := r.owned(ctx, tx); err != nil {
		return 0, err
	}
	spec, encoded, err := checked(r.Type, r.Params)
	if err != nil {
		return 0, err
	}
	q := agenttaskdb.New(tx)
	n, err := q.InsertForFleet(ctx, agenttaskdb.InsertForFleetParams{
		Type: r.Type, Params: encoded, ConcurrencyClass: string(spec.Class),
		MaxAttempts: int32(spec.Attempts), //nolint:gosec // a small number of the catalog
		DeadlineAt:  c.deadline(spec), IdempotencyKey: r.IdempotencyKey, RequestedBy: auth.From(ctx).ID,
		CorrelationID: correlation(ctx), TraceParent: traceParent(ctx),
	})
	if err != nil {
		return 0, fmt.Errorf("insert task %s for the fleet: %w", r.Type, err)
	}
	err = audit.Record(ctx, tx, audit.Entry{
		Action: "node_task.create_for_fleet", TargetKind: "node_task", TargetID: r.IdempotencyKey, Result: audit.Success,
		Metadata: map[string]any{"type": r.Type, "nodes": n},
	})
	if err != nil || n == 0 {
		return int(n), err
	}
	return int(n), postgres.Notify(ctx, tx, channel, everyNode)
}

// Cancel stops a task. If no node has it, the task ends at once. Otherwise the
// agent is told with its next sign of life, and reports how far it came.
func (c Commands) Cancel(ctx context.Context, task id.NodeTask, reason string) (Task, error) {
	var t Task
	err := c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		t, err = c.cancel(ctx, tx, task, reason)
		return err
	})
	return t, err
}

func (c Commands) cancel(ctx context.Context, tx pgx.Tx, task id.NodeTask, reason string) (Task, error) {
	q := agenttaskdb.New(tx)
	row, err := q.Held(ctx, task)
	t, err := found(row.NodeTask, err, task)
	if err != nil {
		return t, err
	}
	if _, err := Lifecycle.Next(t.Status, Cancel); err != nil {
		return t, err
	}
	if t.CancelRequested && t.Status == Dispatched {
		return t, nil // its node is being told already
	}
	if err := record(ctx, tx, "node_task.cancel", t, audit.Success, reason,
		map[string]any{"prior_status": t.Status}); err != nil {
		return t, err
	}
	if t.Status == Queued {
		return finish(ctx, tx, t, c.now(), ending{
			event: Cancel,
			err:   agentwire.TaskError{Code: CodeCancelled, Message: reason},
		})
	}
	after, err := q.RequestCancel(ctx, task)
	return found(after, err, task)
}

// checked looks up the type and brings the parameters into the form that is
// signed. The class of the type it returns is the one of these parameters.
func checked(typ string, params any) (agentwire.Spec, json.RawMessage, error) {
	spec, known := agentwire.Lookup(typ)
	if !known {
		return spec, nil, fault.New(fault.Invalid, "node_task_type_unknown", "there is no task type %q", typ).
			WithRemedy("list them with: gpuaas node task types")
	}
	raw := []byte("{}")
	if params != nil {
		var err error
		if raw, err = json.Marshal(params); err != nil {
			return spec, nil, fmt.Errorf("encode parameters of %s: %w", typ, err)
		}
	}
	if bytes.Equal(raw, []byte("null")) {
		raw = []byte("{}")
	}
	decoded, err := spec.Decode(raw)
	if err == nil {
		spec.Class = spec.ClassFor(decoded)
	}
	if err == nil && hasNUL(raw) {
		err = errors.New("a NUL character cannot be stored")
	}
	if err != nil {
		return spec, nil, fault.New(fault.Invalid, "node_task_params_invalid", "parameters of %s: %v", typ, err).
			WithFields(fault.Field{Path: "body.params", Message: err.Error()})
	}
	canonical, err := agentwire.Canonical(raw)
	if err != nil {
		return spec, nil, fmt.Errorf("canonical parameters of %s: %w", typ, err)
	}
	return spec, canonical, nil
}

func target(ctx context.Context, q *agenttaskdb.Queries, node id.Node, typ string) (generation int64, err error) {
	row, err := q.Target(ctx, agenttaskdb.TargetParams{NodeID: node, Type: typ})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, fault.New(fault.NotFound, "node_not_found", "there is no node %s",
			node).WithRemedy("list them with: gpuaas node list")
	case err != nil:
		return 0, fmt.Errorf("read node %s: %w", node, err)
	case row.Fenced:
		return 0, fault.New(fault.Conflict, agentwire.CodeNodeFenced, "node %s is %s: it cannot be given %s", node,
			row.Status, typ)
	}
	return row.Generation, nil
}

// repeated finds the task of an earlier request with the same key. If the task
// has not ended, the caller's workflow is signalled at its end, unless another
// workflow already waits for it.
func repeated(ctx context.Context, q *agenttaskdb.Queries, r Request, params json.RawMessage) (Task, error) {
	row, err := q.LockByKey(ctx, agenttaskdb.LockByKeyParams{NodeID: r.Node, IdempotencyKey: r.IdempotencyKey})
	if err != nil {
		return Task{}, fmt.Errorf("read task with key %q of node %s: %w", r.IdempotencyKey, r.Node, err)
	}
	t, err := fromRow(row)
	if err != nil {
		return Task{}, err
	}
	if t.Type != r.Type || !bytes.Equal(t.Params, params) {
		return Task{}, fault.New(fault.Conflict, "node_task_key_reused", "key %q of node %s stands for another task: %s",
			r.IdempotencyKey, r.Node, t.ID).
			WithRemedy("use a new key for a new task")
	}
	if r.AwaitWorkflow == "" || r.AwaitWorkflow == t.AwaitWorkflow || t.Status.Ended() {
		return t, nil
	}
	if t.AwaitWorkflow != "" {
		// Only one workflow is signalled. If this one took the task over, the
		// other would wait for ever.
		return Task{}, fault.New(fault.Conflict, "node_task_awaited",
			"task %s with key %q of node %s is awaited by workflow %s", t.ID, r.IdempotencyKey, r.Node, t.AwaitWorkflow).
			WithRemedy("ask again when the task has ended, or use a new key for a new task")
	}
	t.AwaitWorkflow = r.AwaitWorkflow
	if err := q.Await(ctx, agenttaskdb.AwaitParams{ID: t.ID, AwaitWorkflowID: t.AwaitWorkflow}); err != nil {
		return Task{}, fmt.Errorf("await task %s: %w", t.ID, err)
	}
	return t, nil
}

// everyNode is the payload of a notification for all nodes.
const everyNode = ""

func record(ctx context.Context, tx pgx.Tx, action string, t Task, result audit.Result, reason string,
	metadata map[string]any,
) error {
	all := map[string]any{"node_id": t.Node.String(), "type": t.Type, "attempt": t.Attempt}
	for k, v := range metadata {
		all[k] = v
	}
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: aggregate, TargetID: t.ID.String(), Result: result, Reason: reason, Metadata: all,
	})
}

func announce(ctx context.Context, tx pgx.Tx, event eventwire.Type, t Task) error {
	return outbox.Append(ctx, tx, outbox.Event{
		Type: event, AggregateKind: aggregate, AggregateID: t.ID.String(),
		Payload: eventwire.NodeTask{
			TaskID: t.ID.String(), NodeID: t.Node.String(), TaskType: t.Type, Status: string(t.Status), ErrorCode: t.Error.Code,
			Attempt: t.Attempt,
		},
	})
}

// correlation is never empty, because the agent reports under it.
func correlation(ctx context.Context) string {
	if c := telemetry.Correlation(ctx); c != "" {
		return c
	}
	return id.NewString()
}

func traceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[eventwire.HeaderTraceParent]
}
