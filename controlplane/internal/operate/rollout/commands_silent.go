package rollout

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/operate/rollout/internal/rolloutdb"
)

// A node that fails without a word may have taken the version all the same. When it is
// heard again with it, it is sent back, even if its rollout is over by then.

func (m Member) wentSilent() Member {
	m.Silent = true
	return m
}

// CameBack looks at a node that has just reported. It costs one query for a node that
// was never silent.
func (s *Service) CameBack(ctx context.Context, of id.Node) error {
	ctx = auth.With(ctx, auth.System("rollout"))
	rollouts, err := rolloutdb.New(s.DB).Silent(ctx, of)
	if err != nil {
		return fmt.Errorf("read rollouts of silent node: %w", err)
	}
	for _, r := range rollouts {
		if err := s.cameBack(ctx, r, of); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) cameBack(ctx context.Context, of id.Rollout, node id.Node) error {
	r, err := s.Get(ctx, of)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := rolloutdb.New(tx)
		if r, err = lock(ctx, q, of); err != nil {
			return err
		}
		row, err := q.LockTarget(ctx, rolloutdb.LockTargetParams{RolloutID: of, NodeID: node})
		if err != nil {
			return fmt.Errorf("lock node of rollout: %w", err)
		}
		m := memberFrom(row)
		if !m.Silent || m.Outcome != Failed {
			return nil // another report was faster
		}
		m.Silent = false
		l := look{s: s, tx: tx, q: q, r: r, now: s.Clock()}
		if !r.Status.Over() {
			if err := l.keepMember(ctx, m.waitsToGoBack("it came back with the version after its failure")); err != nil {
				return err
			}
			return outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{
				WorkflowID: workflowID(of), Name: signalName, Start: start(of),
			})
		}
		return l.sendBackLate(ctx, m)
	})
}

// sendBackLate gives a node of a rollout that is over the version back that it had.
// Nobody waits for it: the node shows what it runs.
func (l *look) sendBackLate(ctx context.Context, m Member) error {
	refused := l.s.Giveable(ctx, m.From)
	if kind := fault.KindOf(refused); refused != nil && kind != fault.Conflict && kind != fault.NotFound {
		return refused
	}
	if refused != nil {
		m.Detail = fmt.Sprintf("it came back with %s and keeps it, because it may not be given %s: %v", l.r.Version, m.From,
			refused)
		return l.keepMember(ctx, m)
	}
	after, err := l.sendBack(ctx, m)
	if err != nil {
		return err
	}
	if after.Task != m.Task {
		after.Outcome, after.DeadlineAt = Failed, nil
		after.Detail = "it came back with the version after the rollout, and was told to go back to " + m.From
	}
	return l.keepMember(ctx, after)
}
