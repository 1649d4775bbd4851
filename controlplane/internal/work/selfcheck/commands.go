package selfcheck

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/work/selfcheck/internal/selfcheckdb"
)

// Commands changes self-checks. No other code does.
type Commands struct{ DB *postgres.DB }

// Request records the request for a check. A workflow carries it out.
func (c Commands) Request(ctx context.Context) (Check, error) {
	var check Check
	err := c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := selfcheckdb.New(tx).Insert(ctx, selfcheckdb.InsertParams{
			ID: id.New[id.SelfCheck](), RequestedBy: auth.From(ctx).ID, CorrelationID: telemetry.Correlation(ctx),
		})
		if err != nil {
			return fmt.Errorf("insert self-check: %w", err)
		}
		if check, err = fromRow(row); err != nil {
			return err
		}
		if err := record(ctx, tx, "self_check.request", check.ID, nil); err != nil {
			return err
		}
		if err := announce(ctx, tx, eventwire.SelfCheckRequested, check); err != nil {
			return err
		}
		return outbox.StartWorkflow(ctx, tx, outbox.WorkflowStart{
			Type: workflowType, ID: WorkflowID(check.ID), Queue: queue, Input: Input{ID: check.ID},
		})
	})
	return check, err
}

// Cancel stops a check. If no worker has begun it, it ends at once. The
// workflow of a running check owns it and ends it.
func (c Commands) Cancel(ctx context.Context, check id.SelfCheck, reason string) (Check, error) {
	var now Check
	err := c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if now, err = lock(ctx, tx, check); err != nil {
			return err
		}
		if _, err := Lifecycle.Next(now.Status, Cancel); err != nil {
			return err
		}
		if err := record(ctx, tx, "self_check.cancel", check,
			map[string]any{"reason": reason, "prior_status": now.Status}); err != nil {
			return err
		}
		if now.Status == Pending {
			now, err = move(ctx, tx, now, Cancel, nil)
			return err
		}
		return outbox.CancelWorkflow(ctx, tx, WorkflowID(check))
	})
	return now, err
}

// begin marks a check as begun. It returns whether there is anything to do: a
// check that was cancelled meanwhile is left alone.
func (c Commands) begin(ctx context.Context, check id.SelfCheck) (proceed bool, err error) {
	err = c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now, err := lock(ctx, tx, check)
		if err != nil {
			return err
		}
		proceed = now.Status == Pending || now.Status == Running // running: this activity is being repeated
		if now.Status == Pending {
			_, err = move(ctx, tx, now, Start, nil)
		}
		return err
	})
	return proceed, err
}

// waitFor records which step a check is at. It refuses a step of a check that
// does not run, because whoever reaches Temporal can ask for one.
func (c Commands) waitFor(ctx context.Context, check id.SelfCheck, step string) error {
	changed, err := selfcheckdb.New(c.DB).SetWaitingFor(ctx, selfcheckdb.SetWaitingForParams{ID: check, WaitingFor: step})
	if err != nil {
		return fmt.Errorf("note step %s of self-check %s: %w", step, check, err)
	}
	if changed == 0 {
		return fault.New(fault.Conflict, "self_check_not_running", "self-check %s does not run: step %s is not carried out",
			check, step)
	}
	return nil
}

func (c Commands) finish(ctx context.Context, check id.SelfCheck, event Event, done []Step) error {
	return c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now, err := lock(ctx, tx, check)
		if err != nil {
			return err
		}
		if s, _ := Lifecycle.State(now.Status); s.Terminal {
			return nil // this activity is being repeated
		}
		now, err = move(ctx, tx, now, event, append(now.handedOver(), done...))
		if err != nil {
			return err
		}
		return announce(ctx, tx, eventwire.SelfCheckFinished, now)
	})
}

// move is the only function that changes the status of a check.
func move(ctx context.Context, tx pgx.Tx, check Check, event Event, done []Step) (Check, error) {
	next, err := Lifecycle.Next(check.Status, event)
	if err != nil {
		return check, err
	}
	if done == nil {
		done = []Step{}
	}
	encoded, err := json.Marshal(done)
	if err != nil {
		return check, fmt.Errorf("encode steps: %w", err)
	}
	state, _ := Lifecycle.State(next)
	err = selfcheckdb.New(tx).Move(ctx, selfcheckdb.MoveParams{
		ID: check.ID, Status: string(next), Steps: encoded, Begins: event == Start, Finished: state.Terminal,
	})
	if err != nil {
		return check, fmt.Errorf("move self-check %s to %s: %w", check.ID, next, err)
	}
	return lock(ctx, tx, check.ID)
}

func record(ctx context.Context, tx pgx.Tx, action string, check id.SelfCheck, metadata map[string]any) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "self_check", TargetID: check.String(), Result: audit.Success, Metadata: metadata,
	})
}

func announce(ctx context.Context, tx pgx.Tx, event eventwire.Type, c Check) error {
	return outbox.Append(ctx, tx, outbox.Event{
		Type: event, AggregateKind: aggregate, AggregateID: c.ID.String(),
		Payload: eventwire.SelfCheck{SelfCheckID: c.ID.String(), Status: string(c.Status), RequestedBy: c.RequestedBy},
	})
}

const aggregate = "self_check"

var errNotDelivered = fault.New(fault.Unavailable, "event_not_delivered",
	"the event of this check has not reached NATS").
	WithRemedy("check that NATS is up and that a process with role relay is running; see: gpuaas system status")
