package job

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
)

// Besides holds what a family does along with an action of an operator.
type Besides[R Row] struct {
	// Within, if set, runs in the transaction of the action before the row
	// changes. It may refuse the action, or change its effect on the row, such
	// as the stage to go on with.
	Within func(ctx context.Context, tx pgx.Tx, before R, a *Acted[R]) error
	// Done says, for an action that is already under way, whether this part of
	// it was done too. If nil, it was.
	Done func(before R) bool
	// Metadata goes into the audit log and the ledger.
	Metadata map[string]any
	// Verb is the name in the audit log; if empty, the name of the action.
	Verb string
	// Workflow says that the workflow of the job acts itself and reads the row
	// afterwards. A signal would stop the stage that it runs by then.
	Workflow bool
}

// Act does what an operator decided: one transaction on the row, which is the
// judge of what is legal. Whatever runs for the job is superseded by it; its
// workflow is told, and started if there is none. Doing the same again while it
// is being done changes nothing, but tells the workflow once more: one that was
// lost comes back.
func (r *Runner[R, W]) Act(ctx context.Context, job string, action Trigger, reason string, besides ...Besides[R]) (R,
	error,
) {
	var after R
	reason, err := stated(reason)
	if err != nil {
		return after, err
	}
	err = r.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, err := r.store.Lock(ctx, tx, job)
		if err != nil {
			return err
		}
		if after = before; r.doing(before, action, besides) {
			if before.Common().CompletedAt != nil {
				return nil
			}
			return r.Tell(ctx, tx, before)
		}
		after, err = r.ActIn(ctx, tx, before, action, reason, besides...)
		return err
	})
	return after, err
}

// stated is a reason without the space around it; an action needs one.
func stated(reason string) (string, error) {
	if reason = strings.TrimSpace(reason); reason == "" {
		return "", fault.New(fault.Invalid, "reason_missing", "an action needs a reason, which goes into the audit log")
	}
	return reason, nil
}

// doing says whether an action, and what goes with it, was taken already.
func (r *Runner[R, W]) doing(before R, action Trigger, besides []Besides[R]) bool {
	for _, b := range besides {
		if b.Done != nil && !b.Done(before) {
			return false
		}
	}
	j := r.family.common(before)
	switch j.Phase {
	case Over:
		return j.Action == action || r.family.Life.endsBy(j.Status, action)
	case Working, Undoing:
		return j.Action == action
	case Parked:
		return j.Action == action && r.family.Life.EffectOf(action) == Stops
	case Waiting:
	}
	return false
}

// named is what an action is called where it is more than the action itself.
func named[R Row](action Trigger, besides []Besides[R]) Trigger {
	for _, b := range besides {
		if b.Verb != "" {
			return Trigger(b.Verb)
		}
	}
	return action
}

// ActIn is Act within a transaction that has locked the row.
func (r *Runner[R, W]) ActIn(ctx context.Context, tx pgx.Tx, before R, action Trigger, reason string,
	besides ...Besides[R],
) (R, error) {
	if !slices.Contains(r.family.LegalActions(before), action) {
		return before, r.family.NotAllowed(before, named(action, besides))
	}
	j := r.family.common(before)
	status, stage := r.family.TargetOf(before, action)
	a := r.change(before, action, status, stage)
	planned := a.Stage
	if err := r.consent(ctx, tx, before, &a, besides); err != nil {
		return before, err
	}
	if a.Stage != planned {
		stage = a.Stage
	}
	after, err := r.store.Act(ctx, tx, a)
	if err != nil {
		return before, err
	}
	countMove(ctx, r.family.Noun, j, after.Common())
	verb := string(action)
	entry := map[string]any{
		"action": action, "prior_status": j.Status, "prior_stage": j.Stage, "target_status": status, "target_stage": stage,
		"epoch": after.Common().Epoch, "workflow_run_id": j.WorkflowRunID, "hostname": j.Subject, "workflow_id": j.WorkflowID,
	}
	for _, b := range besides {
		maps.Copy(entry, b.Metadata)
		if b.Verb != "" {
			verb = b.Verb
		}
	}
	if err := r.family.Audit(ctx, tx, verb, after, reason, entry); err != nil {
		return before, err
	}
	if err := r.tellAction(ctx, tx, after, stage, reason, entry); err != nil {
		return before, err
	}
	if !slices.ContainsFunc(besides, func(b Besides[R]) bool { return b.Workflow }) {
		if err := r.Tell(ctx, tx, after); err != nil {
			return before, err
		}
	}
	if freed := j.HoldsPlace() || j.Phase == Waiting; freed && !r.family.common(after).HoldsPlace() {
		return after, r.store.HandOn(ctx, tx, after.Common(), r.now()) // also in place of one that was passed over meanwhile
	}
	return after, nil
}

// consent lets the family refuse an action, or change what it makes of the row.
func (r *Runner[R, W]) consent(ctx context.Context, tx pgx.Tx, before R, a *Acted[R], besides []Besides[R]) error {
	if err := r.hooks.Acting(ctx, tx, before, a); err != nil {
		return err
	}
	for _, b := range besides {
		if b.Within == nil {
			continue
		}
		if err := b.Within(ctx, tx, before, a); err != nil {
			return err
		}
	}
	return nil
}

// change returns what an action changes in the row.
func (r *Runner[R, W]) change(before R, action Trigger, status Status, stage string) Acted[R] {
	j, now := r.family.common(before), r.now()
	a := Acted[R]{
		Job: j.ID, Row: before, Status: status, Stage: j.Stage, Action: action,
		Trouble: Trouble{Details: json.RawMessage("{}")},
	}
	if r.family.Life.EffectOf(action) == Stops {
		a.Trouble = Trouble{
			Class: codeMarked.Class, Code: codeMarked.Name, Message: "an operator stopped the automation",
			Remedy: codeMarked.Remedy, Details: json.RawMessage("{}"),
		}
		if j.Phase == Parked { // what went wrong stays known
			a.Trouble = Trouble{
				Class: j.FailureClass, Code: j.ErrorCode, Message: j.ErrorMessage, Remedy: j.ErrorRemedy,
				Details: j.ErrorDetails,
			}
		}
		a.Trouble.ParkedAt = &now
		return a
	}
	switch r.family.Life.PhaseOf(status) {
	case Over:
		a.CompletedAt = &now
	case Working:
		if r.family.Table(before).knows(stage) {
			a.Stage = stage
		}
	case Waiting, Undoing, Parked:
	}
	return a
}

// tellAction writes an action into the ledger, and tells readers of events of it.
func (r *Runner[R, W]) tellAction(ctx context.Context, tx pgx.Tx, after R, stage, reason string,
	entry map[string]any,
) error {
	j, who := r.family.common(after), auth.From(ctx)
	entry["actor"], entry["actor_name"], entry["actor_role"] = who.ID, who.Name, who.ActsAs(auth.Target{})
	details, err := EncodeDetails(entry)
	if err != nil {
		return err
	}
	told := Event{
		Epoch: j.Epoch, Stage: stage, Status: OperatorAction, Message: reason, Details: details,
		OccurredAt: r.now(),
	}
	if err := r.store.Note(ctx, tx, j.ID, told); err != nil {
		return fmt.Errorf("write action into ledger: %w", err)
	}
	kind := AnnounceStage
	if j.CompletedAt != nil {
		kind = AnnounceCancelled
	} else if j.Phase == Parked {
		kind = AnnounceManual
	}
	return r.hooks.Announce(ctx, tx, after, Announcement{Kind: kind, Event: told})
}

// Tell makes the workflow of a job look at its row; if there is none, and the
// job has not ended, it is started.
func (r *Runner[R, W]) Tell(ctx context.Context, tx pgx.Tx, row R) error {
	j := row.Common()
	signal := outbox.WorkflowSignal{WorkflowID: j.WorkflowID, Name: durable.ActSignal}
	if j.CompletedAt == nil {
		start := r.Start(row)
		signal.Start = &start
	}
	return outbox.SignalWorkflow(ctx, tx, signal)
}

// Audit writes who did what to a job.
func (f *Family[R]) Audit(ctx context.Context, tx pgx.Tx, verb string, r R, reason string,
	metadata map[string]any,
) error {
	j := r.Common()
	noted := map[string]any{"hostname": j.Subject, "workflow_id": j.WorkflowID}
	maps.Copy(noted, metadata)
	return audit.Record(ctx, tx, audit.Entry{
		Action: f.Noun + "." + verb, TargetKind: f.Noun, TargetID: j.ID, Result: audit.Success, Reason: reason,
		Metadata: noted,
	})
}
