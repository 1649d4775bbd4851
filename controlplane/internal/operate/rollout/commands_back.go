package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/rollout/internal/rolloutdb"
)

// A node that goes back waits for its turn first: as few at once go back as go forward.
// It has no deadline until it is given the order.

func (m Member) waits() bool { return m.Outcome == GoingBack && m.DeadlineAt == nil }

func (m Member) waitsToGoBack(why string) Member {
	m.Outcome, m.Detail, m.DeadlineAt, m.FinishedAt = GoingBack, why, nil, nil
	return m
}

// waiting is a node that waits for its turn to go back.
type waiting struct {
	Member
	reports string // the version that it runs
	offline bool
}

func newWaiting(m Member, row rolloutdb.LiveRow) waiting {
	return waiting{m, row.ReportedAgentVersion, node.Status(row.NodeStatus) == node.Offline}
}

// markBack lets the nodes of a wave and of later ones wait for their turn to go back
// that have the version. Those that the update is still running on follow when they
// have it, and those that another rollout has by now are that one's.
func markBack(ctx context.Context, q *rolloutdb.Queries, r Rollout, wave int32, why string) error {
	if err := q.MarkBack(ctx, rolloutdb.MarkBackParams{
		RolloutID: r.ID, FromWave: &wave, Version: r.Version, Detail: why,
	}); err != nil {
		return fmt.Errorf("mark nodes to send back: %w", err)
	}
	return nil
}

// lookAtVersions asks which of the versions that nodes had they may be given again.
func (l *look) lookAtVersions(ctx context.Context, of id.Rollout) error {
	versions, err := rolloutdb.New(l.s.DB).VersionsBefore(ctx, of)
	if err != nil {
		return fmt.Errorf("read versions before the rollout: %w", err)
	}
	l.given = map[string]error{}
	for _, v := range versions {
		refused := l.s.Giveable(ctx, v)
		if kind := fault.KindOf(refused); refused != nil && kind != fault.Conflict && kind != fault.NotFound {
			return refused
		}
		l.given[v] = refused
	}
	return nil
}

// goBack gives as many nodes the version back that they had as may be under way at
// once; those that cannot be reached come last.
func (l *look) goBack(ctx context.Context, all []waiting, busy int32) error {
	slices.SortStableFunc(all, func(a, b waiting) int { return yes(a.offline) - yes(b.offline) })
	room := min(l.r.Plan.Parallel, l.r.Plan.MaxUnavailable) - busy
	for _, w := range all {
		after := w.Member
		refused, looked := l.given[w.From]
		switch {
		case w.reports == w.From:
			after = after.ended(Returned, l.now, "it runs %s again; it went back because: %s", w.From, w.Detail)
		case refused != nil:
			after = backFailed(after, l.now,
				fmt.Sprintf("it keeps %s, because it may not be given %s: %v", w.reports, w.From, refused))
			l.stuck = append(l.stuck, after)
		case looked && room > 0:
			room--
			var err error
			if after, err = l.sendBack(ctx, after); err != nil {
				return err
			}
		}
		if after != w.Member {
			if err := l.keepMember(ctx, after); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendBack gives a node the version back that it had.
func (l *look) sendBack(ctx context.Context, m Member) (Member, error) {
	task, err := l.order(ctx, m, agentwire.SelfUpdateParams{Action: "rollback"}, "back-"+m.Task.String())
	if kind := fault.KindOf(err); err != nil && (kind == fault.Conflict || kind == fault.NotFound) {
		return backFailed(m, l.now, fmt.Sprintf("it takes no task: %v", err)), nil
	}
	if err != nil {
		return m, err
	}
	deadline := l.now.Add(l.r.Plan.node())
	m.Task, m.DeadlineAt = task, &deadline
	return m, nil
}

// sayStuck tells whoever reads why the rollout stands that nodes keep the version.
func (l *look) sayStuck() {
	if len(l.stuck) == 0 || l.r.Status == Running {
		return
	}
	first := l.stuck[0]
	said := fmt.Sprintf("nodes keep %s, because %s may not be given: %v; give them another release: "+
		"gpuaas agent rollout start VERSION", l.r.Version, first.From, l.given[first.From])
	if strings.Contains(l.r.PausedBecause, said) {
		return
	}
	if l.r.PausedBecause != "" {
		said = "; " + said
	}
	l.r.PausedBecause += said
}

// takeBack cancels what a node was told and has not done, so that it does not do it when
// nobody expects it any more.
func (l *look) takeBack(ctx context.Context, tx pgx.Tx, m Member, why string) error {
	return l.s.Tasks.Withdraw(ctx, tx, m.Node, workflowID(l.r.ID), why)
}

// recall takes the orders back that no node has fetched. Their nodes have not begun.
// A node that has fetched its order comes to its end.
func (l *look) recall(ctx context.Context, why string) error {
	rows, err := l.q.Unfetched(ctx, l.r.ID)
	if err != nil {
		return fmt.Errorf("read orders that nobody fetched: %w", err)
	}
	for _, row := range rows {
		m := memberFrom(row)
		if err := l.takeBack(ctx, l.tx, m, why); err != nil {
			return err
		}
		status, err := l.q.TaskStatus(ctx, m.Task)
		if err != nil {
			return fmt.Errorf("read order of node: %w", err)
		}
		if agenttask.Status(status) != agenttask.Cancelled {
			continue // the node was faster
		}
		m.Outcome, m.Detail, m.From, m.StartedAt, m.DeadlineAt = Pending, why, "", nil, nil
		if err := l.keepMember(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
