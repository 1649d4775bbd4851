package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/rollout/internal/rolloutdb"
)

// How long until the next look: while nodes are in flight, and while nothing happens
// that nobody tells the workflow.
const (
	paceBusy = 5 * time.Second
	paceIdle = time.Hour
)

// A node is given some time beyond its bake to be schedulable again, and beyond its
// task to report.
const (
	graceAfterBake = 5 * time.Minute
	graceToReport  = 5 * time.Minute
	nearTheEnd     = 2 * time.Minute // of its bake, in which an agent must be heard
)

// look is one look at a rollout, in one transaction.
type look struct {
	s      *Service
	tx     pgx.Tx
	q      *rolloutdb.Queries
	r      Rollout
	now    time.Time
	update json.RawMessage  // parameters of the update
	given  map[string]error // why nodes may not be given the versions that they had; nil: they may
	opens  *time.Time       // when nodes may be begun with; nil: now
	last   string           // what failed last
	stuck  []Member         // nodes that may not go back
}

// Drive looks at a rollout once, and does what is due. It says when to look again.
func (s *Service) Drive(ctx context.Context, of id.Rollout) (done bool, wait time.Duration, err error) {
	r, err := s.Get(ctx, of)
	if err != nil || r.Status.Over() {
		return fault.KindOf(err) == fault.NotFound || err == nil, 0, ignoreMissing(err)
	}
	l := look{s: s, now: s.Clock()}
	refused, err := l.prepare(ctx, r)
	if err == nil {
		err = l.lookAtVersions(ctx, of)
	}
	if err != nil {
		return false, 0, err
	}
	err = s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		l.tx, l.q, l.last, l.stuck = tx, rolloutdb.New(tx), "", nil
		if l.r, err = lock(ctx, l.q, of); err != nil || l.r.Status.Over() {
			return err
		}
		if l.opens, err = l.r.opensAt(l.now); err != nil {
			return err
		}
		if err := l.inFlight(ctx); err != nil {
			return err
		}
		if l.r.Status == Running && l.update == nil && refused == nil {
			return nil // somebody resumed it meanwhile: the next look has its update
		}
		return l.decide(ctx, refused)
	})
	switch {
	case err != nil:
		return false, 0, err
	case l.r.Status.Over():
		return true, 0, nil
	case l.r.number(Updating, Baking, GoingBack) > 0:
		return false, paceBusy, nil
	case l.r.Status == Paused:
		return false, paceIdle, nil
	case l.opens != nil:
		return false, min(paceIdle, max(paceBusy, l.opens.Sub(l.now))), nil
	}
	return false, paceBusy, nil
}

func ignoreMissing(err error) error {
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// prepare signs the update before anything is locked. A version that no node may be
// given any more is no error, but a reason to pause.
func (l *look) prepare(ctx context.Context, r Rollout) (refused error, err error) {
	if r.Status != Running {
		return nil, nil
	}
	asked, err := encoded(agentwire.SelfUpdateParams{Action: "update", Version: r.Version})
	if err != nil {
		return nil, err
	}
	l.update, err = l.s.Prepare(ctx, id.Node{}, asked)
	if kind := fault.KindOf(err); err != nil && (kind == fault.Conflict || kind == fault.NotFound) {
		return err, nil
	}
	return nil, err
}

// inFlight looks at the nodes that something happens to.
func (l *look) inFlight(ctx context.Context) error {
	rows, err := l.q.Live(ctx, l.r.ID)
	if err != nil {
		return fmt.Errorf("read nodes in flight: %w", err)
	}
	var waiting []waiting
	busy := int32(0) // nodes that an order is under way to
	for _, row := range rows {
		before := memberFrom(row.AgentRolloutTarget)
		after := l.next(before, row)
		if after.Outcome == Failed && !agenttask.Status(row.TaskStatus).Ended() {
			if err := l.takeBack(ctx, l.tx, before, after.Detail); err != nil {
				return err
			}
		}
		if after.Outcome == Failed && before.Outcome != GoingBack && row.ReportedAgentVersion != before.From &&
			row.TaskCode != updateRolledBack {
			after = after.waitsToGoBack(after.Detail)
		}
		if after.Outcome == Baking && before.Outcome == Updating && l.r.backs() {
			after = after.waitsToGoBack("the rollout goes back")
		}
		if after.Failures > before.Failures {
			l.last = after.Hostname + ": " + after.Detail
		}
		if after != before {
			if err := errors.Join(l.keepMember(ctx, after), l.tell(ctx, before, after)); err != nil {
				return err
			}
		}
		switch {
		case after.waits():
			waiting = append(waiting, newWaiting(after, row))
		case after.Outcome == Updating || after.Outcome == GoingBack:
			busy++
		}
	}
	if err := l.goBack(ctx, waiting, busy); err != nil {
		return err
	}
	return l.recount(ctx)
}

// updateRolledBack is what an agent says that went back by itself. One that is told to
// go back once more would end with the version before that.
const updateRolledBack = "update_rolled_back"

// backs reports whether nodes that have just got the version give it back.
func (r Rollout) backs() bool {
	return r.PausedCode == goingBack || r.PausedCode == pausedFailures && r.Plan.GoBack != backNobody
}

// next is how far a node has come.
func (l *look) next(m Member, row rolloutdb.LiveRow) Member {
	late := m.DeadlineAt != nil && l.now.After(*m.DeadlineAt)
	status := node.Status(row.NodeStatus)
	if status.Is(node.Out) || status == node.Deleted {
		return m.ended(Excluded, l.now, "it left the fleet meanwhile: it is %s", row.NodeStatus)
	}
	if m.Outcome != GoingBack && status != node.Active && status != node.Offline && status != node.Quarantined {
		return m.ended(Excluded, l.now, "it is %s now, so it is not known whether the update works on it", row.NodeStatus)
	}
	if m.Outcome == Updating {
		return l.updating(m, row, late)
	}
	if m.Outcome == Baking {
		return l.baking(m, row, late)
	}
	if m.waits() {
		return m
	}
	switch task := agenttask.Status(row.TaskStatus); {
	case task == agenttask.Succeeded && row.ReportedAgentVersion == m.From:
		return m.ended(Returned, l.now, "it runs %s again; it went back because: %s", row.ReportedAgentVersion, m.Detail)
	case task.Ended() && task != agenttask.Succeeded:
		return backFailed(m, l.now, row.TaskCode+": "+row.TaskMessage)
	case late:
		return backFailed(m, l.now, "it did not report the version before in time").wentSilent()
	}
	return m
}

// backFailed ends the way back of a node that still runs the version. Its failure was
// counted already.
func backFailed(m Member, now time.Time, why string) Member {
	was := m.Failures
	m = m.ended(Failed, now, "it could not be sent back: %s", why)
	m.Failures = max(was, 1)
	return m
}

func (l *look) updating(m Member, row rolloutdb.LiveRow, late bool) Member {
	task := agenttask.Status(row.TaskStatus)
	switch {
	case task == agenttask.Succeeded && row.ReportedAgentVersion == l.r.Version:
		until := l.now.Add(l.r.Plan.bake())
		deadline := until.Add(graceAfterBake)
		m.Outcome, m.Detail, m.BakeUntil, m.DeadlineAt = Baking, "it runs the version, and is watched", &until, &deadline
		return m
	case task.Ended() && task != agenttask.Succeeded:
		return m.ended(Failed, l.now, "its update ended as %s: %s %s", row.TaskStatus, row.TaskCode, row.TaskMessage)
	case late && task == agenttask.Succeeded:
		return m.ended(Failed, l.now, "its update succeeded, but it reports version %s", row.ReportedAgentVersion)
	case late:
		return m.ended(Failed, l.now, "its agent did not report before the deadline").wentSilent()
	case task == agenttask.Succeeded && m.Detail != waitsForReport:
		deadline := l.now.Add(graceToReport)
		if m.DeadlineAt != nil && m.DeadlineAt.Before(deadline) {
			deadline = *m.DeadlineAt
		}
		m.Detail, m.DeadlineAt = waitsForReport, &deadline
	}
	return m
}

const waitsForReport = "its update succeeded, and it has not reported the version yet"

func (l *look) order(ctx context.Context, m Member, params any, what string) (id.NodeTask, error) {
	task, err := l.s.Tasks.Enqueue(ctx, l.tx, agenttask.Request{
		Node: m.Node, Type: agentwire.TypeSelfUpdate, Params: params, Patience: l.r.Plan.node(),
		IdempotencyKey: workflowID(l.r.ID) + "/" + what,
		AwaitWorkflow:  workflowID(l.r.ID), AwaitSignal: signalName, Reason: "rollout of the agent " + l.r.Version,
	})
	return task.ID, err
}

// decide pauses, begins, goes on to the next wave, or ends.
func (l *look) decide(ctx context.Context, refused error) error {
	before := l.r
	event := eventwire.AgentUpgradeChanged
	failures, canaries := l.r.failures()
	fresh := failures - int64(l.r.Forgiven)
	switch {
	case l.r.Status == Returning:
		if l.r.number(Updating, Baking, GoingBack) == 0 {
			l.r.Status, l.r.FinishedAt, event = Aborted, &l.now, eventwire.AgentRollbackCompleted
		}
	case l.r.Status != Running:
	case fresh > int64(l.r.Plan.MaxFailures) || fresh > 0 && canaries > 0 && l.r.Wave == 0:
		event = eventwire.AgentUpgradeFailed
		if err := l.stop(ctx, failures); err != nil {
			return err
		}
	case refused != nil:
		l.r.Status, l.r.PausedCode, l.r.PausedBecause = Paused, pausedRefused, refused.Error()
	default:
		if err := l.advance(ctx); err != nil {
			return err
		}
		if l.r.Status == Completed {
			event = eventwire.AgentUpgradeCompleted
		}
	}
	if before.Status == Running && l.r.Status == Paused {
		if err := l.recall(ctx, "its order was taken back, because the rollout was paused"); err != nil {
			return err
		}
		if err := l.recount(ctx); err != nil {
			return err
		}
	}
	l.sayStuck()
	quiet := l.r.Status == before.Status && l.r.Wave == before.Wave
	if quiet && l.r.PausedBecause == before.PausedBecause {
		return nil
	}
	counts := l.r.Counts
	kept, err := keep(ctx, l.q, l.r)
	if err != nil {
		return err
	}
	l.r, l.r.Counts = kept, counts
	if quiet {
		return nil
	}
	return announce(ctx, l.tx, event, l.r)
}

// stop pauses a rollout that does harm, and sends back whom the plan says.
func (l *look) stop(ctx context.Context, failures int64) error {
	// Whoever resumes has read of these failures, and of no later ones.
	l.r.Status, l.r.PausedCode, l.r.Forgiven = Paused, pausedFailures, int32(failures) //nolint:gosec // a few a node
	l.r.PausedBecause = fmt.Sprintf("%d nodes failed up to wave %d", failures, l.r.Wave)
	if failures == 1 {
		l.r.PausedBecause = fmt.Sprintf("a node failed in wave %d", l.r.Wave)
	}
	if l.last != "" {
		l.r.PausedBecause += "; the last one was " + l.last
	}
	wave := l.r.Wave
	switch l.r.Plan.GoBack {
	case backNobody:
		return nil
	case backAll:
		wave = 0
	}
	if err := markBack(ctx, l.q, l.r, wave, "too many nodes failed"); err != nil {
		return err
	}
	return l.recount(ctx)
}

// advance begins with nodes of the wave, and goes on when all have their outcome.
func (l *look) advance(ctx context.Context) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	if err := l.recount(ctx); err != nil {
		return err
	}
	for _, c := range l.r.Counts {
		open := c.Outcome == Pending || c.Outcome == Updating || c.Outcome == Baking || c.Outcome == GoingBack
		if open && c.Wave <= l.r.Wave {
			return nil
		}
	}
	switch next := l.r.Wave + 1; {
	case next >= l.r.Waves:
		l.r.Status, l.r.FinishedAt = Completed, &l.now
	case l.r.Wave == 0 && l.r.ApprovedWave < next && !l.r.proven():
		l.r.Status, l.r.PausedCode = Paused, pausedApproval
		l.r.PausedBecause = "no canary has proven the version; somebody must approve wave 1"
	case l.r.Plan.Approve && l.r.ApprovedWave < next:
		l.r.Status, l.r.PausedCode = Paused, pausedApproval
		l.r.PausedBecause = fmt.Sprintf("wave %d is done; somebody must approve wave %d", l.r.Wave, next)
	default:
		l.r.Wave = next
	}
	return nil
}

// begin starts as many nodes as may be in flight, if a window is open.
func (l *look) begin(ctx context.Context) error {
	if l.opens != nil {
		if err := l.recall(ctx, "its order was taken back, because the maintenance window closed"); err != nil {
			return err
		}
		if err := l.q.ForgetWaiting(ctx, l.r.ID); err != nil {
			return fmt.Errorf("let nodes wait for a window: %w", err)
		}
		return nil
	}
	failed := max(0, l.r.number(Failed)-int64(l.r.Forgiven)) // somebody has looked at the others
	room := min(int64(l.r.Plan.Parallel)-l.r.number(Updating),
		int64(l.r.Plan.MaxUnavailable)-l.r.number(Updating, GoingBack)-failed)
	const mostLooks = 1000
	rows, err := l.q.Startable(ctx, rolloutdb.StartableParams{
		RolloutID: l.r.ID, Wave: &l.r.Wave, Version: l.r.Version, Most: mostLooks, Now: l.now,
	})
	if err != nil {
		return fmt.Errorf("read nodes to begin with: %w", err)
	}
	for _, row := range rows {
		before := memberFrom(row.AgentRolloutTarget)
		after, free := l.ready(before, row)
		if free && room > 0 {
			if after, err = l.start(ctx, after, row); err != nil {
				return err
			}
			room--
		}
		if after != before {
			if err := l.keepMember(ctx, after); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *look) start(ctx context.Context, m Member, row rolloutdb.StartableRow) (Member, error) {
	m.From, m.WasSchedulable, m.StartedAt = row.ReportedAgentVersion, row.Schedulable, &l.now
	m.MemoryBefore = 0
	if row.Memory != nil {
		m.MemoryBefore = *row.Memory
	}
	what := "update"
	if !m.Task.IsZero() {
		what = "update-after-" + m.Task.String() // that one was taken back
	}
	task, err := l.order(ctx, m, l.update, what)
	if kind := fault.KindOf(err); err != nil && (kind == fault.Conflict || kind == fault.NotFound) {
		return m.ended(Excluded, l.now, "it takes no task: %v", err), nil
	}
	if err != nil {
		return m, err
	}
	deadline := l.now.Add(l.r.Plan.node())
	m.Outcome, m.Detail, m.Task, m.DeadlineAt = Updating, "", task, &deadline
	return m, nil
}

func (l *look) keepMember(ctx context.Context, m Member) error {
	if err := l.q.SetTarget(ctx, rolloutdb.SetTargetParams{
		RolloutID: l.r.ID, NodeID: m.Node, Status: string(m.Outcome), Detail: m.Detail, FromVersion: m.From,
		WasSchedulable: m.WasSchedulable, TaskID: m.Task, Failures: m.Failures, StartedAt: m.StartedAt,
		DeadlineAt: m.DeadlineAt, BakeUntil: m.BakeUntil, FinishedAt: m.FinishedAt,
		MemoryBefore: known(m.MemoryBefore), Silent: m.Silent,
	}); err != nil {
		return fmt.Errorf("keep node of rollout: %w", err)
	}
	return nil
}

func (l *look) recount(ctx context.Context) (err error) {
	l.r.Counts, err = countsOf(ctx, l.q, l.r.ID)
	return err
}
