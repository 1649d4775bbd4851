package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
	"gpuaas/controlplane/internal/engine/postgres"
)

// DeadLetters lets an operator handle messages that failed for good.
type DeadLetters struct{ db *postgres.DB }

// NewDeadLetters works on the outbox of a database.
func NewDeadLetters(db *postgres.DB) *DeadLetters { return &DeadLetters{db: db} }

// List reads failed messages before a sequence number, newest first. 0 begins
// at the newest. Those that are about what the caller may not see are left out.
func (d *DeadLetters) List(ctx context.Context, before int64, limit int32) ([]Entry, error) {
	p := outboxdb.ListFailedParams{PageSize: limit, Hidden: hiddenFrom(auth.From(ctx))}
	if before > 0 {
		p.Before = &before
	}
	rows, err := outboxdb.New(d.db).ListFailed(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list failed outbox events: %w", err)
	}
	entries := make([]Entry, len(rows))
	for i, r := range rows {
		entries[i] = entryOf(r)
	}
	return entries, nil
}

// Requeue gives a failed message all its attempts again. Later messages of its
// aggregate may have been delivered already.
func (d *DeadLetters) Requeue(ctx context.Context, event id.Event) (Entry, error) {
	return d.decide(ctx, event, Requeue, "",
		func(ctx context.Context, tx pgx.Tx, seq int64, to Status) (outboxdb.OutboxEvent, error) {
			row, err := outboxdb.New(tx).Requeue(ctx, outboxdb.RequeueParams{Seq: seq, Status: string(to)})
			if err != nil {
				return row, err
			}
			return row, postgres.Notify(ctx, tx, channelOf(row.Destination), "")
		})
}

// Discard decides that a failed message is never delivered.
func (d *DeadLetters) Discard(ctx context.Context, event id.Event, reason string) (Entry, error) {
	if reason == "" {
		return Entry{}, fault.New(fault.Invalid, "reason_required", "an event is discarded for a reason").
			WithFields(fault.Field{Path: "reason", Message: "must not be empty"})
	}
	return d.decide(ctx, event, Discard, reason,
		func(ctx context.Context, tx pgx.Tx, seq int64, to Status) (outboxdb.OutboxEvent, error) {
			return outboxdb.New(tx).Discard(ctx, outboxdb.DiscardParams{Seq: seq, Status: string(to)})
		})
}

type decision func(ctx context.Context, tx pgx.Tx, seq int64, to Status) (outboxdb.OutboxEvent, error)

func (d *DeadLetters) decide(ctx context.Context, event id.Event, what Transition, reason string, change decision) (
	Entry, error,
) {
	var entry Entry
	err := d.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := outboxdb.New(tx)
		row, err := q.LockEvent(ctx, event)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && !seesAs(auth.From(ctx), eventwire.Type(row.EventType)) {
			return fault.New(fault.NotFound, "outbox_event_not_found", "there is no outbox event %s", event)
		}
		if err != nil {
			return fmt.Errorf("lock outbox event: %w", err)
		}
		to, err := Lifecycle.Next(Status(row.Status), what)
		if err != nil {
			return err
		}
		attempts, lastError := row.AttemptCount, row.LastError
		if row, err = change(ctx, tx, row.Seq, to); err != nil {
			return fmt.Errorf("%s outbox event: %w", what, err)
		}
		entry = entryOf(row)
		return audit.Record(ctx, tx, audit.Entry{
			Action: "outbox." + string(what), TargetKind: "outbox_event", TargetID: event.String(), Org: row.OrgID,
			Result: audit.Success, Reason: reason,
			Metadata: map[string]any{
				"event_type": row.EventType, "aggregate_kind": row.AggregateKind, "aggregate_id": row.AggregateID,
				"attempts": attempts, "last_error": lastError,
			},
		})
	})
	return entry, err
}
