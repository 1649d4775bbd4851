package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
)

// reconciler is who acts on jobs because of what was observed.
var reconciler = auth.System("reconciliation")

// Notice writes into the ledger of a job what somebody else observed about its
// machine or node, unless the ledger says so already: the same sighting twice in
// a row is noted once, and so are two that take turns while nothing happens. The
// row is left as it is: a stage that runs is neither stopped nor superseded.
func (r *Runner[R, W]) Notice(ctx context.Context, job, seen string, details map[string]any) error {
	seen = bounded(strings.TrimSpace(seen))
	encoded, err := EncodeDetails(details)
	if err != nil {
		return err
	}
	return r.db.InTx(auth.With(ctx, reconciler), func(ctx context.Context, tx pgx.Tx) error {
		row, err := r.store.Lock(ctx, tx, job)
		if err != nil {
			return err
		}
		j := r.family.common(row)
		if j.CompletedAt != nil {
			return nil
		}
		if noticed, err := r.store.Noticed(ctx, tx, job, seen); err != nil || noticed {
			return err
		}
		told := Event{
			Epoch: j.Epoch, Stage: r.family.doingStage(j), Attempt: j.Attempt, Status: Observation, Message: seen,
			Details: encoded, OccurredAt: r.now(),
		}
		if err := r.store.Note(ctx, tx, j.ID, told); err != nil {
			return fmt.Errorf("write observation into ledger: %w", err)
		}
		if err := r.hooks.Announce(ctx, tx, row, Announcement{Kind: AnnounceStage, Event: told}); err != nil {
			return err
		}
		return r.nudge(ctx, tx, row)
	})
}

// nudge wakes a stage that does not itself watch what it waits for. It uses the
// signal that the stage waits for anyway, because the operators' signal would
// stop a running stage and start it again. A parked job needs no signal: its
// row has not changed.
func (r *Runner[R, W]) nudge(ctx context.Context, tx pgx.Tx, row R) error {
	j := r.family.common(row)
	stage, _ := r.family.stageOf(row, r.family.under(j))
	if j.Phase != Working || stage.Nudge == "" {
		return nil
	}
	start := r.Start(row)
	return outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{
		WorkflowID: j.WorkflowID, Name: stage.Nudge,
		Start: &start,
	})
}

// Prove checks, without changing anything, whether a parked job has reached its
// goal, and returns nil if that is not proven. It leaves what it finds out in
// the work.
type Prove[R Row, W Extended] func(ctx context.Context, row R, w W) (*Proof, error)

// Reconcile ends a parked job whose goal is proven reached by what is observed
// now, with all that belongs to reaching it. Otherwise nothing changes: also when
// the row has changed since it was looked at, or the inventory disagrees.
func (r *Runner[R, W]) Reconcile(ctx context.Context, job string, prove Prove[R, W]) (reached bool, err error) {
	ctx = auth.With(ctx, reconciler)
	return r.proven(ctx, job, prove, func(ctx context.Context, tx pgx.Tx, before R, w W, p Proof) error {
		return r.reached(ctx, tx, before, w, p)
	})
}

// LeadOn lets a parked job go on from what is observed now, when that proves that
// what it was waiting for has happened after all: for goals that take more than
// can be observed. A job that has been led on, and is parked again, is left to
// operators.
func (r *Runner[R, W]) LeadOn(ctx context.Context, job string, prove Prove[R, W]) (led bool, err error) {
	ctx = auth.With(ctx, reconciler)
	events, err := r.store.Latest(ctx, job, recentEvents)
	if err != nil || ledBefore(events) {
		return false, err
	}
	return r.proven(ctx, job, prove, func(ctx context.Context, tx pgx.Tx, before R, w W, p Proof) error {
		adopting := r.family.Life.Having(AdoptsObserved)
		if len(adopting) == 0 {
			return fault.New(fault.Internal, "nothing_adopts", "no action of a %s adopts what is observed", r.family.Noun)
		}
		_, err := r.ActIn(ctx, tx, before, adopting[0], p.Said, Besides[R]{
			Verb: "reconcile", Metadata: p.Details,
			Within: func(_ context.Context, _ pgx.Tx, _ R, a *Acted[R]) error {
				a.Row = r.hooks.Learn(a.Row, w)
				return nil
			},
		})
		return err
	})
}

// Wake lets a parked job go on from its last safe stage, because the signal came
// that tells that what it was waiting for has happened. A job that is not parked
// for that any more is left as it is.
func (r *Runner[R, W]) Wake(ctx context.Context, job string) error {
	return r.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := r.store.Lock(ctx, tx, job)
		if err != nil {
			return err
		}
		code, goesOn := CodeNamed(r.family.common(row).ErrorCode), r.family.Life.Having(GoesOnSafely)
		if !r.provable(row) || code.WakesOn == "" || len(goesOn) == 0 {
			return nil
		}
		_, err = r.ActIn(ctx, tx, row, goesOn[0], "what it was waiting for has happened", Besides[R]{
			Verb: "wake", Workflow: true, Metadata: map[string]any{"signal": code.WakesOn, "error_code": code.Name},
		})
		return err
	})
}

// ledBefore says whether the last to act on a job was reconciliation.
func ledBefore(events []Event) bool {
	for i := len(events) - 1; i >= 0; i-- {
		var by decision
		if events[i].Status == OperatorAction {
			return json.Unmarshal(events[i].Details, &by) == nil && by.Actor == reconciler.ID
		}
	}
	return false
}

// proven changes a parked job in one transaction, if it is proven to have come
// as far as it should, and is still as it was when that was looked at.
func (r *Runner[R, W]) proven(ctx context.Context, job string, prove Prove[R, W],
	change func(ctx context.Context, tx pgx.Tx, before R, w W, p Proof) error,
) (changed bool, err error) {
	before, err := r.store.Get(ctx, job)
	if err != nil || !r.provable(before) {
		return false, err
	}
	w := r.workToLook(before)
	if _, err := r.hooks.Equip(ctx, before, w); err != nil {
		return false, err
	}
	proof, err := prove(ctx, before, w)
	if err != nil || proof == nil {
		return false, err
	}
	err = r.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		changed = false
		now, err := r.store.Lock(ctx, tx, job)
		if err != nil || !now.Common().same(before.Common()) {
			return err
		}
		changed = true
		return change(ctx, tx, now, w, *proof)
	})
	if err == nil {
		return changed, nil
	}
	var refused *Failure
	if errors.As(err, &refused) || fault.KindOf(err) == fault.Conflict {
		r.logger.InfoContext(ctx, "job is not reconciled", r.family.Noun+"_id", job, "error", err)
		return false, nil
	}
	return false, err
}

// provable says whether a job may be ended by proof. One that was begun to be
// undone has another goal by now, and one that an operator stopped is left alone.
func (r *Runner[R, W]) provable(row R) bool {
	j := r.family.common(row)
	return j.Phase == Parked && !r.family.halfUndone(j) && r.family.Life.EffectOf(j.Action) != Stops
}

// same says whether nothing has happened to a job since.
func (j Job) same(before Job) bool {
	return j.Status == before.Status && j.Epoch == before.Epoch && j.UpdatedAt.Equal(before.UpdatedAt)
}

// workToLook is work with which nothing can be done: whatever asks before an
// effect is refused.
func (r *Runner[R, W]) workToLook(row R) W {
	w, of := r.work(row), row.Common().ID
	c := w.Common()
	c.Fence = func(context.Context) error { return r.superseded(of) }
	c.FenceIn = func(context.Context, pgx.Tx) error { return r.superseded(of) }
	c.Save = func(context.Context) error { return r.superseded(of) }
	c.Heartbeat = func() {}
	return w
}

// reached is the end of a job by proof: what the end of its last stage would have
// done, and who found out.
func (r *Runner[R, W]) reached(ctx context.Context, tx pgx.Tx, before R, w W, p Proof) error {
	j, at := before.Common(), r.now()
	status, err := r.family.Life.Table.Next(j.Status, TriggerReconcile)
	if err != nil {
		return err
	}
	details, err := EncodeDetails(p.Details)
	if err != nil {
		return err
	}
	a := r.change(before, "", status, j.Stage)
	a.Row, a.CompletedAt = r.hooks.Learn(a.Row, w), &at
	after, err := r.store.Act(ctx, tx, a)
	if err != nil {
		return err
	}
	countMove(ctx, r.family.Noun, j, after.Common())
	told := Event{
		Epoch: after.Common().Epoch, Stage: j.Stage, Attempt: j.Attempt, Status: Observation,
		Message: bounded("its goal is reached: " + p.Said), Details: details, OccurredAt: at,
	}
	err = r.hooks.Settle(ctx, tx, Settled[R, W]{
		Before: before, After: after, Stage: r.family.Table(before).last(),
		Work: w, Complete: true, Told: told,
	})
	if err != nil {
		return err
	}
	if err := r.store.Note(ctx, tx, j.ID, told); err != nil {
		return fmt.Errorf("write proof into ledger: %w", err)
	}
	noted := map[string]any{"prior_status": j.Status, "prior_stage": j.Stage, "target_status": status, "proof": p.Said}
	maps.Copy(noted, p.Details)
	if err := r.family.Audit(ctx, tx, "reconcile", after, "what was observed proves that its goal was reached",
		noted); err != nil {
		return err
	}
	if err := r.hooks.Announce(ctx, tx, after, Announcement{Kind: AnnounceCompleted, Event: told}); err != nil {
		return err
	}
	if err := r.Tell(ctx, tx, after); err != nil {
		return err
	}
	return r.store.HandOn(ctx, tx, after.Common(), r.now())
}
