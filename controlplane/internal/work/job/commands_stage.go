package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
)

// next reads the row and says what its workflow does now. A job that waits for
// its workflow starts here; begun is its table then.
func (r *Runner[R, W]) next(ctx context.Context, job, run string) (turn durable.Turn, begun Table, err error) {
	row, err := r.store.Get(ctx, job)
	if err != nil {
		return durable.Turn{}, nil, err
	}
	if j := r.family.common(row); j.Phase == Waiting {
		if row, err = r.start(ctx, j, run); err != nil {
			return durable.Turn{}, nil, err
		}
		begun = r.family.Table(row)
	}
	j := r.family.common(row)
	turn = durable.Turn{Do: durable.TurnEnd, Epoch: j.Epoch}
	switch j.Phase {
	case Working, Undoing:
		limits, err := r.hooks.Limits(ctx, row)
		if err != nil {
			return durable.Turn{}, nil, err
		}
		attempt, err := r.nextAttempt(ctx, j)
		if err != nil {
			return durable.Turn{}, nil, err
		}
		turn = r.family.Table(row).turnTo(r.family.under(j), attempt, j.Epoch, limits)
	case Parked:
		turn.Do = durable.TurnPark
		if r.provable(row) {
			turn.Signal = CodeNamed(j.ErrorCode).WakesOn
		}
	case Waiting, Over:
	}
	turn.Marks = statusMarks(j.Status, j.Stage)
	return turn, begun, nil
}

// nextAttempt is the number of the attempt that comes now. One whose worker died
// is taken up again as the same: only attempts that ended count.
func (r *Runner[R, W]) nextAttempt(ctx context.Context, j Job) (int, error) {
	unfinished, err := r.store.Unfinished(ctx, j.ID, j.Epoch, r.family.under(j))
	if err != nil {
		return 0, fmt.Errorf("read ledger of %s: %w", r.family.Noun, err)
	}
	if unfinished && j.Attempt > 0 {
		return j.Attempt, nil
	}
	return j.Attempt + 1, nil
}

func (r *Runner[R, W]) start(ctx context.Context, j Job, run string) (R, error) {
	var row R
	late := false
	status, err := r.family.Life.Table.Next(j.Status, TriggerStart)
	if err != nil {
		return row, err
	}
	err = r.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, err = r.store.Start(ctx, tx, Started{Job: j.ID, Run: run, Status: status, Now: r.now()})
		if late = errors.Is(err, pgx.ErrNoRows); late { // somebody else was faster
			return nil
		}
		if err != nil {
			return err
		}
		countMove(ctx, r.family.Noun, Job{}, row.Common())
		return r.hooks.Announce(ctx, tx, row, Announcement{Kind: AnnounceStarted, Event: Event{Stage: row.Common().Stage}})
	})
	if late && err == nil {
		return r.store.Get(ctx, j.ID)
	}
	return row, err
}

// begin takes a stage up. A run that the row does not expect is superseded.
func (r *Runner[R, W]) begin(ctx context.Context, call durable.StageCall, run string, chained bool) (attempt[R, W],
	error,
) {
	a := attempt[R, W]{call: call}
	unknown := fault.New(fault.Internal, "stage_unknown", "there is no stage %s", call.Stage)
	if !slices.Contains(r.stages, call.Stage) {
		return a, unknown
	}
	var err error
	a.row, err = r.store.Begin(ctx, Begun{
		Job: call.Job, Stage: call.Stage, Run: run, Attempt: call.Attempt, Epoch: call.Epoch, Chained: chained, Now: r.now(),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return a, r.superseded(call.Job)
	}
	if err != nil {
		return a, err
	}
	a.before, a.table = r.family.common(a.row), r.family.Table(a.row)
	var known bool
	if a.stage, known = a.table.Of(call.Stage); !known {
		return a, unknown
	}
	a.limits = Limits{}
	a.work, a.token = r.workOf(a)
	return a, nil
}

// equip reads the settings that the stage uses, as they are now.
func (r *Runner[R, W]) equip(ctx context.Context, a attempt[R, W]) error {
	limits, err := r.hooks.Equip(ctx, a.row, a.work)
	if err != nil {
		return err
	}
	maps.Copy(a.limits, limits)
	w := a.work.Common()
	if limit := limits.of(a.stage); limit > 0 {
		w.Deadline = w.Since.Add(limit)
	}
	return nil
}

func (r *Runner[R, W]) workOf(a attempt[R, W]) (W, *token) {
	j, w := a.before, r.work(a.row)
	mine, c := &token{of: j.UpdatedAt}, w.Common()
	c.Reset = a.stage.Name == StageCompensate && r.family.restarting(j)
	c.Fence = func(ctx context.Context) error { return r.fence(ctx, j, mine) }
	c.FenceIn = func(ctx context.Context, tx pgx.Tx) error { return r.fenceIn(ctx, tx, j, mine) }
	c.Save = func(ctx context.Context) error { return r.save(ctx, a.row, w, mine) }
	return w, mine
}

// work is the work of a job, as its row has it.
func (r *Runner[R, W]) work(row R) W {
	j := row.Common()
	w := Work{Kind: r.family.Noun, Job: j.ID, WorkflowID: j.WorkflowID, Epoch: j.Epoch, Attempt: j.Attempt, Since: r.now()}
	if j.StageStartedAt != nil {
		w.Since = *j.StageStartedAt
	}
	return r.hooks.Work(row, w)
}

// token is the time of the row's last change, made by the execution that holds
// the token. The execution holds it as long as nobody else has taken over the
// stage.
type token struct {
	mu sync.Mutex
	of time.Time
}

func (r *Runner[R, W]) fence(ctx context.Context, j Job, mine *token) error {
	mine.mu.Lock()
	defer mine.mu.Unlock()
	holds, err := r.store.Fence(ctx, j.ID, j.Epoch, mine.of)
	if err != nil {
		return fmt.Errorf("ask fence of %s: %w", r.family.Noun, err)
	}
	if !holds {
		return r.superseded(j.ID)
	}
	return nil
}

// fenceIn locks the row for the rest of the transaction if the token is still
// its own.
func (r *Runner[R, W]) fenceIn(ctx context.Context, tx pgx.Tx, j Job, mine *token) error {
	mine.mu.Lock()
	defer mine.mu.Unlock()
	row, err := r.store.Lock(ctx, tx, j.ID)
	if err != nil {
		return fmt.Errorf("ask fence of %s: %w", r.family.Noun, err)
	}
	now := r.family.common(row)
	runs := now.Phase == Working || now.Phase == Undoing
	if !runs || now.Epoch != j.Epoch || !now.UpdatedAt.Equal(mine.of) {
		return r.superseded(j.ID)
	}
	return nil
}

// save keeps what a stage has found out so far.
func (r *Runner[R, W]) save(ctx context.Context, row R, w W, mine *token) error {
	j := row.Common()
	mine.mu.Lock()
	defer mine.mu.Unlock()
	changed, err := r.store.Save(ctx, Saved[W]{Job: j.ID, Site: j.Site, Epoch: j.Epoch, Token: mine.of, Work: w})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r.superseded(j.ID)
	case err != nil:
		if claimed := r.hooks.Claimed(err, row, w); claimed != nil {
			return claimed
		}
		return fmt.Errorf("save %s: %w", r.family.Noun, err)
	}
	mine.of = changed
	return nil
}

// record ends an attempt: the row, the ledger, what the family does besides, the
// event and, when the job gives its place back, whoever gets it, in one
// transaction.
func (r *Runner[R, W]) record(ctx context.Context, a attempt[R, W]) (durable.Turn, error) {
	v := r.judge(a)
	err := r.carryOut(ctx, a, v)
	var refused *Failure
	switch {
	case err == nil:
	case v.why == nil && errors.As(err, &refused): // what the attempt achieved does not do
		v = r.judgeFailure(a, refused)
		err = r.carryOut(ctx, a, v)
	default:
		if claimed := r.hooks.Claimed(err, a.row, a.work); claimed != nil {
			v = r.judgeFailure(a, claimed)
			err = r.carryOut(ctx, a, v)
		}
	}
	if fault.KindOf(err) == fault.Ambiguous { // repeating finds out; a result that was recorded supersedes
		err = fault.Wrap(err, fault.Unavailable, "stage_not_recorded", "the end of the stage may not have been recorded")
	}
	return v.turn, err
}

func (r *Runner[R, W]) carryOut(ctx context.Context, a attempt[R, W], v verdict) error {
	e, err := r.ended(a, v)
	if err != nil {
		return err
	}
	return r.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if v.anew {
			fresh, err := r.hooks.Anew(ctx, tx, a.row, a.work)
			if err != nil {
				return err
			}
			e.Work = fresh
		}
		after, err := r.store.End(ctx, tx, e)
		if errors.Is(err, pgx.ErrNoRows) {
			return r.superseded(a.before.ID)
		}
		if err != nil {
			return err
		}
		if err := r.settle(ctx, tx, a, v, after); err != nil {
			return err
		}
		r.measure(ctx, a, v, after.Common())
		if kind := v.announced(); kind != "" {
			if err := r.hooks.Announce(ctx, tx, after, Announcement{Kind: kind, Event: v.told}); err != nil {
				return err
			}
		}
		if !r.family.common(after).HoldsPlace() {
			return r.store.HandOn(ctx, tx, after.Common(), r.now())
		}
		return nil
	})
}

// settle lets the family add what belongs to the end of an attempt; one that
// only waits has not ended.
func (r *Runner[R, W]) settle(ctx context.Context, tx pgx.Tx, a attempt[R, W], v verdict, after R) error {
	if v.why == nil && a.result.Await != nil {
		return nil
	}
	return r.hooks.Settle(ctx, tx, Settled[R, W]{
		Before: a.row, After: after, Stage: a.call.Stage, Work: a.work, Result: a.result, Failure: v.why,
		Complete: v.complete, Told: v.told,
	})
}

// ended is a verdict as the row and the ledger have it.
func (r *Runner[R, W]) ended(a attempt[R, W], v verdict) (Ended[W], error) {
	now := r.now()
	e := Ended[W]{
		Job: a.before.ID, Site: a.before.Site, Epoch: a.call.Epoch, Token: a.token.of, Now: now, Work: a.work,
		Status: v.status, NextStage: v.stage,
		NextAttempt: v.attempts, SameStage: v.attempts > 0, Action: v.action, Adopted: v.adopted, Told: v.told,
	}
	e.Told.Attempt, e.Told.Message, e.Told.OccurredAt = a.call.Attempt, bounded(v.told.Message), now
	var details map[string]any
	if v.parks {
		e.Trouble = Trouble{
			Class: v.why.Class, Code: v.why.Code.String(), Message: bounded(v.why.Message), Remedy: bounded(v.why.Remedy),
			ParkedAt: &now,
		}
		details = v.why.Details
	}
	if r.family.Life.PhaseOf(v.status) == Over {
		e.CompletedAt = &now
	}
	var failures [2]error
	e.Trouble.Details, failures[0] = EncodeDetails(details)
	e.Told.Details, failures[1] = EncodeDetails(a.details(v))
	return e, errors.Join(failures[:]...)
}

// bounded keeps a text to what a person reads.
func bounded(text string) string {
	const most = 2000
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
