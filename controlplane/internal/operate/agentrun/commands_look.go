package agentrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/agentrun/internal/agentrundb"
)

// How long until the next look: while something happens that nobody tells the workflow,
// and while it waits for somebody.
const (
	paceBusy = 10 * time.Second
	paceWait = 30 * time.Second
	paceIdle = time.Hour
)

// look is one look at a run, in one transaction.
type look struct {
	s      *Service
	tx     pgx.Tx
	q      *agentrundb.Queries
	r      Run
	n      node.Node
	now    time.Time
	update json.RawMessage // signed parameters of the update; nil: none is wanted
	refuse error           // why the version may not be given any more
}

// Look looks at a run once, and does what is due. It says when to look again.
func (s *Service) Look(ctx context.Context, of id.AgentRun) (done bool, wait time.Duration, err error) {
	r, err := found(agentrundb.New(s.DB).Run(ctx, of))
	switch {
	case fault.KindOf(err) == fault.NotFound || err == nil && r.Status.Over():
		return true, 0, nil
	case err != nil:
		return false, 0, err
	case r.Status == Parked:
		return false, paceIdle, nil
	}
	ctx = auth.With(telemetry.WithCorrelation(ctx, r.Correlation), auth.System("agent run"))
	l := look{s: s, now: s.Clock()}
	if l.update, l.refuse, err = s.signed(ctx, r); err != nil {
		return false, 0, err
	}
	err = s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return l.once(ctx, tx, of) })
	if err == nil && l.r.Status == Reimaging && l.r.Reinstalls.IsZero() {
		err = l.reinstall(ctx)
	}
	switch {
	case err != nil:
		return false, 0, err
	case l.r.Status == Parked:
		return false, paceIdle, nil
	case l.r.Status == Delivering || l.r.Status == Verifying:
		return false, paceBusy, nil
	}
	return l.r.Status.Over(), paceWait, nil
}

// signed completes the update before anything is locked. A version that no node may be
// given any more is no error, but a reason to park.
func (s *Service) signed(ctx context.Context, r Run) (params json.RawMessage, refused, err error) {
	if r.Target == "" || r.Status == Verifying || r.Status == Delivering {
		return nil, nil, nil
	}
	params, err = s.update(ctx, r.Node, r.Target)
	if final(err) {
		return nil, err, nil
	}
	return params, nil, err
}

// final says of an error that asking again does not help.
func final(err error) bool {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.NotFound, fault.Invalid, fault.Forbidden:
		return err != nil
	default:
		return false
	}
}

func (l *look) once(ctx context.Context, tx pgx.Tx, of id.AgentRun) (err error) {
	l.tx, l.q = tx, agentrundb.New(tx)
	if l.r, err = found(l.q.LockRun(ctx, of)); err != nil || l.r.Status.Over() || l.r.Status == Parked {
		return err
	}
	l.n, err = node.Get(ctx, tx, l.r.Node)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		l.n.Status = node.Deleted
	case err != nil:
		return err
	}
	before := l.r
	if l.r, err = l.next(ctx); err != nil {
		return err
	}
	if l.r == before {
		return nil
	}
	changed := l.r.Status != before.Status
	if changed && l.r.Status == Verifying { // schedulable again is part of the proof
		if err := letBack(ctx, tx, l.r); err != nil {
			return err
		}
	}
	if l.r, err = save(ctx, l.q, l.r); err != nil || !changed {
		return err
	}
	return record(ctx, tx, l.r, string(l.r.Status), l.r.Reason)
}

// next is how the run stands after what is known now.
func (l *look) next(ctx context.Context) (Run, error) {
	r := l.r
	if out := l.n.Status.Is(node.Out) || l.n.Status == node.Deleted; out && r.Status != Reimaging {
		return r.parked(l.now, Problem{codeLeft, fmt.Sprintf("node %s is %s now", r.Hostname, l.n.Status), endIt(r)})
	}
	switch r.Status {
	case Waiting:
		return l.waiting(ctx)
	case Delivering:
		return l.delivering(ctx)
	case AwaitingOperator:
		return l.awaiting(ctx)
	case Reimaging:
		return l.reimaging(ctx)
	case Verifying:
		return l.verifying(ctx)
	case Parked, Succeeded, Cancelled:
	}
	return r, nil
}

func endIt(r Run) string {
	return "end the run: gpuaas node agent cancel " + r.Hostname
}

func retry(r Run) string {
	return "then: gpuaas node agent retry " + r.Hostname
}

// waiting begins when the node is idle.
func (l *look) waiting(ctx context.Context) (Run, error) {
	r := l.r
	if !r.Reinstalls.IsZero() { // what keeps it busy may be its own decommission
		return l.follow(ctx)
	}
	busy, err := l.taken(ctx)
	switch {
	case err != nil:
		return r, err
	case busy != "" && r.late(l.now):
		return r.neverIdle(l.now, busy)
	case busy != "":
		r.Detail = busy
		return r, nil
	case l.refuse != nil:
		return r.parked(l.now, problemOf(l.refuse))
	}
	return l.begin(ctx)
}

// taken says what keeps the run off its node; empty: nothing does.
func (l *look) taken(ctx context.Context) (string, error) {
	busy, err := l.s.busy(ctx, l.q, l.n, l.r)
	if busy != "" || err != nil {
		return busy, err
	}
	in, err := l.q.InRollout(ctx, l.r.Node)
	if err != nil {
		return "", fmt.Errorf("look for rollout of node: %w", err)
	}
	if in != "" {
		return "it waits until rollout " + in + " is done with the node", nil
	}
	return "", nil
}

func (r Run) neverIdle(now time.Time, busy string) (Run, error) {
	return r.parked(now, Problem{codeNeverIdle, "the node was never idle: " + busy, "end what keeps it busy, " + retry(r)})
}

// follow goes on with the decommission of before a retry. A machine is reinstalled twice
// only if the first time ended otherwise.
func (l *look) follow(ctx context.Context) (Run, error) {
	r := l.r
	job, err := l.q.Decommission(ctx, r.Reinstalls.String())
	switch {
	case err != nil:
		return r, fmt.Errorf("read decommission of agent run: %w", err)
	case job.CompletedAt == nil || job.Status == "completed" || job.Status == "reconciled":
		return r.entered(Reimage, l.now, patienceReimage, "decommission %s is %s", r.Reinstalls, job.Status)
	}
	r.Reinstalls, r.Detail = id.Decommission{}, "it begins again, because the decommission ended as "+job.Status
	return r, nil
}

// begin does what the table says for the node as it is now.
func (l *look) begin(ctx context.Context) (Run, error) {
	r := l.r
	rule, err := ruleOf(r.Scenario, r.Mode)
	if err != nil {
		return r, err
	}
	rule = rule.on(l.n, l.now).again(l.n, r.Target)
	if rule.Way == BySelfUpdate && r.Target == "" {
		return r.parked(l.now, Problem{
			codeNoVersion, "no version that may be given was known when the run began",
			"begin another one with a target version, and " + endIt(r),
		})
	}
	r.Task = id.NodeTask{}
	r.Way, r.Brokered, r.Generation, r.Certified = rule.Way, rule.Brokered, l.n.Generation, certified(l.n, l.now)
	switch rule.Way {
	case ByDecommission:
		return r.entered(Reimage, l.now, patienceReimage, "a decommission is asked for that reinstalls the machine")
	case ByOperator:
		return r.entered(HandOver, l.now, patienceOperator, "%s", awaits)
	case BySelfUpdate:
	}
	return l.deliver(ctx, r)
}

// deliver tells the agent to install the version.
func (l *look) deliver(ctx context.Context, r Run) (Run, error) {
	if l.refuse != nil {
		return r.parked(l.now, problemOf(l.refuse))
	}
	after, err := r.entered(Deliver, l.now, patienceTask, "its agent was told to install %s", r.Target)
	if err != nil {
		return r, err
	}
	task, err := l.s.Tasks.Enqueue(ctx, l.tx, agenttask.Request{
		Node: r.Node, Type: agentwire.TypeSelfUpdate, Params: l.update, Patience: patienceTask,
		IdempotencyKey: fmt.Sprintf("%s/update-%d", workflowID(r.ID), r.Attempt),
		AwaitWorkflow:  workflowID(r.ID), AwaitSignal: signalName, Reason: r.owner() + ": " + r.Reason,
	})
	if final(err) {
		return r.parked(l.now, problemOf(err))
	}
	after.Task = task.ID
	return after, err
}

func (l *look) delivering(ctx context.Context) (Run, error) {
	r := l.r
	task, err := l.q.Task(ctx, r.Task)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // old tasks are pruned
		return r, fmt.Errorf("read task of agent run: %w", err)
	}
	switch status := agenttask.Status(task.Status); {
	case err == nil && status == agenttask.Succeeded:
		return r.entered(Verify, l.now, patienceProof, "the update succeeded; the node must prove it")
	case err != nil || status.Ended():
		p := Problem{task.ErrorCode, task.ErrorMessage, "read the log of the agent (journalctl -u gpuaas-node-agent), " + retry(r)}
		if p.Code == "" {
			p.Code = codeUnreached
			p.Message = "the order to the agent ended as " + cmp.Or(string(status), "one that is not kept any more")
		}
		return r.parked(l.now, p)
	case r.late(l.now):
		if err := l.s.Tasks.Withdraw(ctx, l.tx, r.Node, workflowID(r.ID), "the agent did not answer in time"); err != nil {
			return r, err
		}
		return r.parked(l.now, Problem{
			codeTaskLate, "the agent did not say in time how the update ended", "see whether the node is heard, " + retry(r),
		})
	}
	return r, nil
}

// awaiting goes on when the node shows that somebody acted.
func (l *look) awaiting(ctx context.Context) (Run, error) {
	r := l.r
	acted := r.enrolled(l.n, l.now) || r.Scenario != CertificateRepair && r.Target != "" && r.Target != r.From &&
		l.n.ReportedAgentVersion == r.Target
	switch {
	case acted:
		return l.arrived(ctx)
	case r.late(l.now):
		return r.parked(l.now, Problem{codeNobodyDid, "nothing was heard from the machine", r.bootstrap() + "; " + retry(r)})
	}
	busy, err := l.taken(ctx) // it may have been rented since
	if r.Detail = awaits; busy != "" {
		r.Detail = busy
	}
	return r, err
}

// arrived goes on with a node that has an agent again: what came with its installation
// may not be the version that is meant.
func (l *look) arrived(ctx context.Context) (Run, error) {
	r := l.r
	path, _ := l.n.UpdatePath(l.now)
	heard := l.n.LastContactAt != nil && l.n.LastContactAt.After(r.PhaseAt)
	if r.Target == "" || l.n.ReportedAgentVersion == r.Target {
		return r.entered(Verify, l.now, patienceProof, "the node enrolled; it must prove that it is well")
	}
	if path != node.PathInPlace || l.n.Status != node.Active || !heard { // it has just enrolled
		r.Detail = fmt.Sprintf("the node has an agent again of version %s, and is %s", l.n.ReportedAgentVersion, l.n.Status)
		if r.late(l.now) {
			return r.parked(l.now, Problem{
				codeUnproven, r.Detail, "see the node: gpuaas node show " + r.Hostname + "; " + retry(r),
			})
		}
		return r, nil
	}
	busy, err := l.taken(ctx)
	switch {
	case err != nil:
		return r, err
	case busy != "" && r.late(l.now):
		return r.neverIdle(l.now, busy)
	case busy != "":
		r.Detail = busy
		return r, nil
	}
	return l.deliver(ctx, r)
}

// reimaging follows the decommission.
func (l *look) reimaging(ctx context.Context) (Run, error) {
	r := l.r
	switch {
	case r.Reinstalls.IsZero() && r.late(l.now):
		return r.parked(l.now, Problem{
			codeReimage, "the decommission that reinstalls the machine could not be asked for",
			"see the system: gpuaas system status, " + retry(r),
		})
	case r.Reinstalls.IsZero():
		return r, nil
	}
	job, err := l.q.Decommission(ctx, r.Reinstalls.String())
	if err != nil {
		return r, fmt.Errorf("read decommission of agent run: %w", err)
	}
	switch {
	case job.CompletedAt != nil && (job.Status == "completed" || job.Status == "reconciled"):
		return l.arrived(ctx)
	case job.CompletedAt != nil:
		return r.parked(l.now, Problem{
			codeReimage, fmt.Sprintf("the decommission that reinstalls the machine ended as %s", job.Status),
			"read why: gpuaas decommission explain " + r.Reinstalls.String() + "; " + retry(r),
		})
	case r.late(l.now):
		return r.parked(l.now, Problem{
			codeReimage, fmt.Sprintf("the decommission that reinstalls the machine is still %s", job.Status),
			"read why: gpuaas decommission explain " + r.Reinstalls.String() + "; " + retry(r),
		})
	}
	r.Detail = "decommission " + r.Reinstalls.String() + " is " + job.Status
	return r, nil
}

// verifying ends when the node has proven everything.
func (l *look) verifying(ctx context.Context) (Run, error) {
	r := l.r
	lacks, err := l.lacks(ctx)
	switch {
	case err != nil:
		return r, err
	case lacks == "":
		next, err := Lifecycle.Next(r.Status, Succeed)
		r.Status, r.Detail, r.FinishedAt, r.DeadlineAt = next, "", &l.now, nil
		return r, err
	case r.late(l.now):
		return r.parked(l.now, Problem{codeUnproven, lacks, "see the node: gpuaas node show " + r.Hostname + "; " + retry(r)})
	}
	r.Detail = lacks
	return r, nil
}

// lacks says what the node has not proven yet; empty: it has proven everything.
func (l *look) lacks(ctx context.Context) (string, error) {
	r, n := l.r, l.n
	switch {
	case r.Target != "" && n.ReportedAgentVersion != r.Target:
		return fmt.Sprintf("it reports version %s, not %s", n.ReportedAgentVersion, r.Target), nil
	case n.Status != node.Active:
		return "the node is " + string(n.Status), nil
	case n.LastContactAt == nil || n.LastContactAt.Before(r.PhaseAt):
		return "its agent was not heard since", nil
	case !certified(n, l.now):
		return "it has no valid certificate", nil
	case r.Scenario == DriftReconcile && r.Target == n.WantedAgentVersion() && n.Drift(l.now) != node.InSync:
		return "its drift is " + string(n.Drift(l.now)), nil
	case r.Schedulable && !n.Schedulable:
		return "it is not schedulable again", nil
	}
	if r.Task.IsZero() || r.Target == r.From || n.AgentStartedAt == nil {
		return "", nil // it enrolled anew, runs what it ran, or renews nothing to prove that it can
	}
	renewed, err := l.q.Renewed(ctx, agentrundb.RenewedParams{NodeID: r.Node, Task: r.Task, Since: r.CreatedAt})
	if err != nil {
		return "", fmt.Errorf("read certificates of node: %w", err)
	}
	if !renewed {
		return "its agent has not renewed the certificate of the node since the update", nil
	}
	return "", nil
}

// reinstall asks for the decommission while it holds the run, so that nobody cancels it in
// between. Whoever was killed before the answer was kept asks again, and is told of the
// same one. One at a time asks, because it needs a second connection meanwhile.
func (l *look) reinstall(ctx context.Context) error {
	select {
	case l.s.asking <- struct{}{}:
		defer func() { <-l.s.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		q := agentrundb.New(tx)
		if l.r, err = found(q.LockRun(ctx, l.r.ID)); err != nil || l.r.Status != Reimaging || !l.r.Reinstalls.IsZero() {
			return err
		}
		job, err := l.s.Reinstall(ctx, l.r.Node, l.r.owner()+", asked for by "+l.r.ByName+": "+l.r.Reason)
		switch {
		case final(err):
			if l.r, err = l.r.parked(l.now, problemOf(err)); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			l.r.Reinstalls, l.r.Detail = job, "decommission "+job.String()+" reinstalls the machine"
		}
		if l.r, err = save(ctx, q, l.r); err != nil || l.r.Status != Parked {
			return err
		}
		return record(ctx, tx, l.r, string(l.r.Status), l.r.Reason)
	})
}
