package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation/internal/operationdb"
	"gpuaas/controlplane/internal/operate/policy"
	"gpuaas/controlplane/internal/rent/allocation"
)

// atOnce is how many targets one transaction hands out: the locks on their nodes and
// allocations last until it has committed.
const atOnce = 32

// patience is how long a node may take to fetch its work.
const patience = 15 * time.Minute

// handOutMore gives as many nodes their work as the limits of the run allow. It answers
// the run as it is then, and whether it changed anything; there may be more to do. The
// caller holds the run, and has counted its targets: nobody else changes them meanwhile.
func (s *Service) handOutMore(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition) (
	Operation, bool, error,
) {
	if !o.hasRoom() {
		return o, false, nil
	}
	e, err := policy.Get(ctx, tx, policy.Owner(o.Owner), o.Ref.Type)
	if err != nil {
		return o, false, err
	}
	o.Limits = o.Limits.within(e)
	if !o.hasRoom() {
		return o, false, nil
	}
	if o, err = started(ctx, tx, o); err != nil {
		return o, false, err
	}
	if refused, err := s.stillAllowed(ctx, tx, o, d, e); err != nil || refused.Code != "" {
		if err = s.refuseAll(ctx, tx, o, refused, err); err != nil {
			return o, false, err
		}
		all, err := counted(ctx, tx, []Operation{o}) // some were skipped, and some failed
		if err != nil {
			return o, false, err
		}
		return all[0], true, nil
	}
	return o, true, s.handOutWave(ctx, tx, o, d)
}

// handOutFirst gives the first nodes of a new run their work. Its request has just been
// asked about in the same transaction: policies and rights are not asked again.
func (s *Service) handOutFirst(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition) (Operation,
	error,
) {
	if !o.hasRoom() {
		return o, nil
	}
	o, err := started(ctx, tx, o)
	if err != nil {
		return o, err
	}
	return o, s.handOutWave(ctx, tx, o, d)
}

// room is how many more targets may be handed out.
func (o Operation) room() int32 {
	return o.Limits.wave(o.Counts[TargetSucceeded]) - o.Counts[TargetRunning]
}

func (o Operation) hasRoom() bool { return o.room() > 0 && o.Counts[TargetWaiting] > 0 }

// started is a run that has begun, as far as policies narrow it today.
func started(ctx context.Context, tx pgx.Tx, o Operation) (Operation, error) {
	if o.Status != Queued {
		return o, nil
	}
	now, err := moved(ctx, tx, o, Start, "", "")
	now.Limits, now.Counts = o.Limits, o.Counts
	return now, err
}

// handOutWave hands out the next targets, or refuses those that must not go on. It keeps
// the counts of the run up to date.
func (s *Service) handOutWave(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition) error {
	q := operationdb.New(tx)
	next, err := targetsFrom(q.Next(ctx, operationdb.NextParams{OperationID: o.ID, Limit: min(o.room(), atOnce)}))
	if err != nil {
		return err
	}
	for _, t := range next {
		becomes := TargetRunning
		refused, err := s.handOut(ctx, tx, o, d, t, false)
		if err != nil {
			return err
		}
		if refused.Code != "" {
			becomes = t.refused()
			if err := q.EndTarget(ctx, operationdb.EndTargetParams{
				ID: t.ID, Status: string(becomes), StepIndex: t.StepIndex, ErrorCode: refused.Code,
				ErrorClass: refused.Class, ErrorMessage: refused.Message, ErrorRemedy: refused.Remedy,
			}); err != nil {
				return fmt.Errorf("refuse target %s: %w", t.ID, err)
			}
		}
		o.Counts[TargetWaiting]--
		o.Counts[becomes]++
	}
	return nil
}

// refused is the state of a target that must not have its steps. One that had begun is
// not done, and must not vanish among those that were never touched.
func (t Target) refused() TargetStatus {
	if t.Attempt > 0 {
		return TargetFailed
	}
	return TargetSkipped
}

// stillAllowed asks policy and rights again: both may have changed since the request.
func (s *Service) stillAllowed(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition,
	e policy.Effective,
) (Trouble, error) {
	v, denied := s.decided(ctx, tx, o, d, e, o.answersFor())
	if err := noteDecision(ctx, tx, o, v); err != nil {
		return Trouble{}, err
	}
	if denied != nil {
		return troubleOf(denied, agentwire.FailurePolicy), nil
	}
	if s.members == nil || o.Owner.platform() && o.Trigger != ByAdmin {
		return Trouble{}, nil
	}
	right, where := auth.OperationRun, "in the project"
	if o.Owner.platform() {
		right, where = auth.OperationRunOnFleet, "on the fleet"
	}
	may, err := s.members.StillMay(ctx, tx, o.answersFor(), right, o.on())
	if err != nil || may {
		return Trouble{}, err
	}
	return Trouble{
		Code: "insufficient_permissions", Class: agentwire.FailurePolicy,
		Message: "whoever asked for it, or resumed it, may not run operations " + where + " any more",
		Remedy:  "somebody who may has to run it again: gpuaas operation again " + o.ID.String(),
	}, nil
}

// decided asks policies about a run that goes on for somebody. Its targets are counted.
func (s *Service) decided(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition, e policy.Effective,
	caller string,
) (policy.Verdict, error) {
	r, err := s.policyRequest(ctx, tx, d, o.Inputs, o.Owner)
	if err != nil {
		return policy.Verdict{}, err
	}
	r.Caller, r.TargetKind, r.OnlyPlan = caller, o.TargetKind, o.OnlyPlan
	r.Targets, r.Concurrency = int(total(o.Counts)), int(o.Limits.MaxConcurrency)
	return policy.Check(ctx, tx, e, r, s.decider)
}

// noteDecision keeps what the policy document decided, if that is news.
func noteDecision(ctx context.Context, tx pgx.Tx, o Operation, v policy.Verdict) error {
	n := len(o.Decisions)
	if v.Document == "" || n > 0 && o.Decisions[n-1].Same(v) {
		return nil
	}
	raw, err := json.Marshal([]policy.Verdict{v})
	if err != nil {
		return fmt.Errorf("encode decision: %w", err)
	}
	if err := operationdb.New(tx).Decided(ctx, operationdb.DecidedParams{ID: o.ID, Decision: raw}); err != nil {
		return fmt.Errorf("note what the policy decided about operation %s: %w", o.ID, err)
	}
	return nil
}

// refuseAll refuses all targets that wait.
func (s *Service) refuseAll(ctx context.Context, tx pgx.Tx, o Operation, why Trouble, err error) error {
	if err != nil {
		return err
	}
	if err := operationdb.New(tx).RefuseWaiting(ctx, operationdb.RefuseWaitingParams{
		OperationID: o.ID, ErrorCode: why.Code, ErrorClass: why.Class, ErrorMessage: why.Message, ErrorRemedy: why.Remedy,
	}); err != nil {
		return fmt.Errorf("refuse targets of operation %s: %w", o.ID, err)
	}
	return nil
}

func total(counts map[TargetStatus]int32) (n int32) {
	for _, of := range counts {
		n += of
	}
	return n
}

// handOut gives a node the steps of a target, or says why it must not have them. It
// locks the node, and the allocation through which a project reaches it: whoever ends
// the allocation then finds the task.
func (s *Service) handOut(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition, t Target, look bool) (
	Trouble, error,
) {
	if err := held(ctx, tx, t); err != nil {
		return Trouble{}, err
	}
	found, err := places(ctx, tx, id.Project{}, Selector{Nodes: []id.Node{t.Node}}, 1)
	if err != nil {
		return Trouble{}, err
	}
	if len(found) == 0 {
		return Trouble{
			Code: "node_gone", Class: agentwire.FailurePermanent, Message: "the node has left the fleet",
		}, nil
	}
	at := found[0]
	if !t.Allocation.IsZero() && at.Allocation != t.Allocation {
		at.InUse = false // the project may have it again, but by another allocation
	}
	if why := at.unfit(d, o.Owner); len(why) > 0 {
		return why[0], nil
	}
	if why, err := s.stillUsable(ctx, tx, o, at); err != nil || why.Code != "" {
		return why, err
	}
	if asRoot(o.Owner, d, o.OnlyPlan || look) {
		rules, err := rootRules(ctx, tx, o.Owner, true)
		if why := at.rootless(rules); err != nil || why.Code != "" {
			return why, err
		}
	}
	all, err := d.Resolve(o.Inputs, at.target(o.Owner))
	if err != nil {
		return troubleOf(err, agentwire.FailurePermanent), nil
	}
	params, err := s.params(ctx, tx, o, t, all)
	if err != nil {
		return Trouble{}, err
	}
	params.Plan = o.OnlyPlan || look
	task, err := s.tasks.Enqueue(ctx, tx, request(o, t, params, look))
	if fault.KindOf(err) == fault.Conflict || fault.KindOf(err) == fault.Invalid {
		return troubleOf(err, agentwire.FailurePermanent), nil
	}
	if err != nil {
		return Trouble{}, err
	}
	if err := operationdb.New(tx).HandOut(ctx, operationdb.HandOutParams{
		ID: t.ID, TaskID: task.ID, Probing: look,
	}); err != nil {
		return Trouble{}, fmt.Errorf("note that target %s was handed out: %w", t.ID, err)
	}
	return Trouble{}, nil
}

// held locks the node of a target, and its allocation.
func held(ctx context.Context, tx pgx.Tx, t Target) error {
	if !t.Allocation.IsZero() {
		_, err := allocation.Hold(ctx, tx, t.Allocation)
		return err
	}
	_, err := node.Lock(ctx, tx, t.Node)
	return err
}

// params are what a node is told to do: the steps from where the target is, and what
// the steps before gave.
func (s *Service) params(ctx context.Context, tx pgx.Tx, o Operation, t Target, all []agentwire.OperationStep) (
	agentwire.OperationRunParams, error,
) {
	p := agentwire.OperationRunParams{
		OperationID: o.ID.String(), TargetID: t.ID.String(), Definition: o.Ref.String(), Digest: o.Digest,
		Begin: int(t.StepIndex), Steps: all, TraceParent: o.TraceParent,
		TimeoutSeconds: int(o.Limits.Timeout / time.Second),
	}
	if !t.Allocation.IsZero() {
		p.AllocationID = t.Allocation.String()
	}
	if t.StepIndex == 0 {
		return p, nil
	}
	done, err := operationdb.New(tx).StepsDone(ctx, t.ID)
	if err != nil {
		return p, fmt.Errorf("read outputs of target %s: %w", t.ID, err)
	}
	p.Steps, p.Begin = resumed(all, int(t.StepIndex))
	p.Earlier = map[string]json.RawMessage{}
	for _, d := range done {
		before := slices.ContainsFunc(p.Steps[:p.Begin], func(s agentwire.OperationStep) bool { return s.ID == d.StepID })
		if before && len(d.Output) > 0 {
			p.Earlier[d.StepID] = d.Output
		}
	}
	return p, nil
}

// request is the task of a target. What only looks may run beside anything.
func request(o Operation, t Target, p agentwire.OperationRunParams, look bool) agenttask.Request {
	r := agenttask.Request{
		Node: t.Node, Type: agentwire.TypeOperationRun, Params: p, Owner: owner{o, t},
		IdempotencyKey: fmt.Sprintf("%s/%s/%s/%d", tasksOf, o.ID, t.ID, t.Attempt+1),
		Reason:         "operation " + o.ID.String(), Class: p.TaskClass(),
		Window: o.Limits.Timeout + time.Minute, Patience: patience,
	}
	if look {
		r.IdempotencyKey = fmt.Sprintf("%s/%s/%s/%d/look", tasksOf, o.ID, t.ID, t.Attempt)
	}
	return r
}

// owner owns the tasks of a target. Whoever makes one holds the run in the transaction of
// the task, and has read the target there.
type owner struct {
	operation Operation
	target    Target
}

// Owns implements agenttask.Owner: a run that has not ended, and was not canceled, asks
// for its own targets' work, on their nodes only.
func (w owner) Owns(_ context.Context, _ pgx.Tx, on id.Node, typ string) error {
	o, t := w.operation, w.target
	if t.Operation != o.ID || t.Node != on || typ != agentwire.TypeOperationRun || o.Status.Ended() ||
		o.Cancel.At != nil || o.Approval.awaited() {
		return conflict(o, "does not ask for %s on this node", typ)
	}
	return nil
}
