package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/operate/rollout/internal/rolloutdb"
)

type reads = rolloutdb.Queries

// Codes of what a rollout is paused for.
const (
	pausedByOperator = "paused_by_operator"
	pausedFailures   = "too_many_failures"
	pausedApproval   = "awaits_approval"
	pausedRefused    = "release_refused"
	goingBack        = "going_back"
)

// Pause begins with no further node. Orders that no node has fetched are taken back;
// nodes in flight come to their end.
func (s *Service) Pause(ctx context.Context, of id.Rollout, reason string) (Rollout, error) {
	return s.act(ctx, of, "agent_rollout.pause", reason, func(ctx context.Context, tx pgx.Tx, q *reads, r *Rollout) error {
		if r.Status != Running {
			return notNow(*r, "pause")
		}
		l := look{s: s, tx: tx, q: q, r: *r, now: s.Clock()}
		if err := l.recall(ctx, "its order was taken back, because the rollout was paused"); err != nil {
			return err
		}
		r.Status, r.PausedCode, r.PausedBecause = Paused, pausedByOperator, "somebody paused it: "+reason
		return nil
	})
}

// Resume goes on. The failures that it was paused for do not pause it again.
func (s *Service) Resume(ctx context.Context, of id.Rollout, reason string) (Rollout, error) {
	return s.act(ctx, of, "agent_rollout.resume", reason, func(_ context.Context, _ pgx.Tx, _ *reads, r *Rollout) error {
		if r.Status != Paused || r.PausedCode == pausedApproval {
			return notNow(*r, "resume")
		}
		r.Status, r.PausedCode, r.PausedBecause = Running, "", ""
		return nil
	})
}

// Approve lets the next wave begin.
func (s *Service) Approve(ctx context.Context, of id.Rollout, reason string) (Rollout, error) {
	return s.act(ctx, of, "agent_rollout.approve", reason, func(_ context.Context, _ pgx.Tx, _ *reads, r *Rollout) error {
		if r.Status != Paused || r.PausedCode != pausedApproval {
			return notNow(*r, "approve")
		}
		r.Status, r.PausedCode, r.PausedBecause, r.ApprovedWave = Running, "", "", r.Wave+1
		return nil
	})
}

// Abort ends a rollout. Nodes keep what they have, or all go back.
func (s *Service) Abort(ctx context.Context, of id.Rollout, back bool, reason string) (Rollout, error) {
	return s.act(ctx, of, "agent_rollout.abort", reason, func(ctx context.Context, tx pgx.Tx, q *reads, r *Rollout) error {
		if r.Status.Over() {
			return notNow(*r, "abort")
		}
		l := look{s: s, tx: tx, q: q, r: *r, now: s.Clock()}
		if err := l.recall(ctx, "its order was taken back, because the rollout was aborted"); err != nil {
			return err
		}
		if err := q.EndPending(ctx, rolloutdb.EndPendingParams{
			RolloutID: r.ID, Detail: "the rollout was aborted before it came to this node",
		}); err != nil {
			return fmt.Errorf("end what has not begun: %w", err)
		}
		r.Status, r.PausedCode, r.PausedBecause = Returning, "", "somebody aborted it: "+reason
		if !back {
			return nil
		}
		r.PausedCode = goingBack
		return markBack(ctx, q, *r, 0, "the rollout was aborted")
	})
}

func notNow(r Rollout, what string) error {
	f := fault.New(fault.Conflict, "agent_rollout_wrong_status", "a rollout that is %s cannot be told to %s", r.Status,
		what)
	if r.PausedCode == pausedApproval {
		return f.WithRemedy("it waits for approval: gpuaas agent rollout approve %s", r.ID)
	}
	return f.WithRemedy("see how it stands: gpuaas agent rollout show %s", r.ID)
}

// act changes a rollout, and tells its workflow.
func (s *Service) act(ctx context.Context, of id.Rollout, action, reason string,
	change func(ctx context.Context, tx pgx.Tx, q *rolloutdb.Queries, r *Rollout) error,
) (Rollout, error) {
	err := s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := rolloutdb.New(tx)
		r, err := lock(ctx, q, of)
		if err != nil {
			return err
		}
		if err := change(ctx, tx, q, &r); err != nil {
			return err
		}
		if r, err = keep(ctx, q, r); err != nil {
			return err
		}
		if err := record(ctx, tx, action, r, reason); err != nil {
			return err
		}
		if err := announce(ctx, tx, eventwire.AgentUpgradeChanged, r); err != nil {
			return err
		}
		return outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{
			WorkflowID: workflowID(of), Name: signalName, Start: start(of),
		})
	})
	if err != nil {
		return Rollout{}, err
	}
	return s.Get(ctx, of)
}

// lock reads a rollout with what is counted, and keeps others from changing it.
func lock(ctx context.Context, q *rolloutdb.Queries, of id.Rollout) (Rollout, error) {
	row, err := q.LockRollout(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return Rollout{}, missing()
	}
	if err != nil {
		return Rollout{}, fmt.Errorf("lock rollout: %w", err)
	}
	return counted(ctx, q, row)
}

func keep(ctx context.Context, q *rolloutdb.Queries, r Rollout) (Rollout, error) {
	row, err := q.SetRollout(ctx, rolloutdb.SetRolloutParams{
		ID: r.ID, Status: string(r.Status), Wave: r.Wave, PausedBecause: r.PausedBecause, PausedCode: r.PausedCode,
		Forgiven: r.Forgiven, ApprovedWave: r.ApprovedWave, FinishedAt: r.FinishedAt,
	})
	if err != nil {
		return Rollout{}, fmt.Errorf("keep rollout: %w", err)
	}
	return from(row)
}
