package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
)

// Append adds events to the caller's transaction. They are published if and
// only if it commits. Call it late in the transaction, because until this one
// ends other transactions that touch the same aggregates wait.
func Append(ctx context.Context, tx pgx.Tx, events ...Event) error {
	rows := make([]outboxdb.InsertParams, len(events))
	correlation := correlationOf(ctx)
	for i, e := range events {
		if err := e.validate(); err != nil {
			return err
		}
		eventID := e.ID
		if eventID.IsZero() {
			eventID = id.New[id.Event]()
		}
		body, err := e.envelope(eventID, correlation, time.Now())
		if err != nil {
			return err
		}
		rows[i] = outboxdb.InsertParams{
			ID: eventID, Destination: DestinationNATS, AggregateKind: e.AggregateKind, AggregateID: e.AggregateID,
			EventType: string(e.Type), Envelope: body, OrgID: e.Org, ProjectID: e.Project, CorrelationID: correlation,
		}
	}
	return insert(ctx, tx, DestinationNATS, rows)
}

// StartWorkflow adds the start of a workflow to the caller's transaction. Once
// it has committed, the workflow starts, however long Temporal is away.
func StartWorkflow(ctx context.Context, tx pgx.Tx, start WorkflowStart) error {
	if start.Type == "" || start.ID == "" || start.Queue == "" {
		return fault.New(fault.Internal, "workflow_start_incomplete", "a workflow start needs type, id and queue")
	}
	body, err := json.Marshal(start)
	if err != nil {
		return fmt.Errorf("encode start of workflow %s: %w", start.Type, err)
	}
	return insert(ctx, tx, DestinationTemporal, []outboxdb.InsertParams{{
		ID: id.New[id.Event](), Destination: DestinationTemporal, AggregateKind: workflowKind, AggregateID: start.ID,
		EventType: start.Type, Envelope: body, CorrelationID: correlationOf(ctx),
	}})
}

// CancelWorkflow adds the request that a workflow stop to the caller's
// transaction. It reaches Temporal after the start of that workflow, never
// before.
func CancelWorkflow(ctx context.Context, tx pgx.Tx, workflowID string) error {
	body, err := json.Marshal(WorkflowCancel{ID: workflowID})
	if err != nil {
		return fmt.Errorf("encode cancellation of workflow %s: %w", workflowID, err)
	}
	return insert(ctx, tx, DestinationTemporal, []outboxdb.InsertParams{{
		ID: id.New[id.Event](), Destination: DestinationTemporal, AggregateKind: workflowKind, AggregateID: workflowID,
		EventType: WorkflowCancelType, Envelope: body, CorrelationID: correlationOf(ctx),
	}})
}

// SignalWorkflow adds a signal to the caller's transaction. Once it has
// committed, the workflow gets the signal, however long Temporal is away. The
// signal may come more than once, and never before the start of its workflow.
func SignalWorkflow(ctx context.Context, tx pgx.Tx, signal WorkflowSignal) error {
	if signal.WorkflowID == "" || signal.Name == "" {
		return fault.New(fault.Internal, "workflow_signal_incomplete", "a workflow signal needs a workflow and a name")
	}
	body, err := json.Marshal(signal)
	if err != nil {
		return fmt.Errorf("encode signal %s of workflow %s: %w", signal.Name, signal.WorkflowID, err)
	}
	return insert(ctx, tx, DestinationTemporal, []outboxdb.InsertParams{{
		ID: id.New[id.Event](), Destination: DestinationTemporal, AggregateKind: workflowKind, AggregateID: signal.WorkflowID,
		EventType: WorkflowSignalType, Envelope: body, CorrelationID: correlationOf(ctx),
	}})
}

// workflowKind is the kind of aggregate of messages for Temporal.
const workflowKind = "workflow"

func insert(ctx context.Context, tx pgx.Tx, destination string, rows []outboxdb.InsertParams) error {
	if len(rows) == 0 {
		return nil
	}
	q := outboxdb.New(tx)
	keys := make([]int64, len(rows))
	for i, row := range rows {
		keys[i] = int64(aggregateHash(row.AggregateKind, row.AggregateID)) //nolint:gosec // a lock key is 64 bits of any sign
	}
	trace := traceParent(ctx)
	for i, row := range rows {
		rows[i].Partition = int16(aggregateHash(row.AggregateKind, row.AggregateID) % partitions)
		rows[i].TraceParent = trace
	}
	if err := insertRows(ctx, q, keys, rows); err != nil {
		return err
	}
	return postgres.Notify(ctx, tx, channelOf(destination), "")
}

// insertRows locks the aggregates and inserts the rows. Most appends are of one row,
// and one statement.
func insertRows(ctx context.Context, q *outboxdb.Queries, keys []int64, rows []outboxdb.InsertParams) error {
	if len(rows) == 1 {
		r := rows[0]
		if err := q.InsertInTurn(ctx, outboxdb.InsertInTurnParams{
			Key: keys[0], ID: r.ID, Destination: r.Destination, Partition: r.Partition, AggregateKind: r.AggregateKind,
			AggregateID: r.AggregateID, EventType: r.EventType, Envelope: r.Envelope, OrgID: r.OrgID, ProjectID: r.ProjectID,
			CorrelationID: r.CorrelationID, TraceParent: r.TraceParent,
		}); err != nil {
			return fmt.Errorf("append %s to outbox: %w", r.EventType, err)
		}
		return nil
	}
	slices.Sort(keys) // all appends lock in one order, so that two cannot wait for each other
	if err := q.Lock(ctx, slices.Compact(keys)); err != nil {
		return fmt.Errorf("lock aggregates of outbox events: %w", err)
	}
	for _, row := range rows {
		if err := q.Insert(ctx, row); err != nil {
			return fmt.Errorf("append %s to outbox: %w", row.EventType, err)
		}
	}
	return nil
}

// channelOf returns the PostgreSQL channel for new messages of a destination.
// Each has its own, so that a busy one does not wake the relays of another.
func channelOf(destination string) string { return "outbox_" + destination }

// correlationOf is never empty, so that whatever a message causes can be found,
// even if it began without a correlation id.
func correlationOf(ctx context.Context) string {
	if c := telemetry.Correlation(ctx); c != "" {
		return c
	}
	return id.NewString()
}
