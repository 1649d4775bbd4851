package allocation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
)

// Activities are what the workflows of allocations call. Each may be repeated.
type Activities struct{ *Service }

// RegisterWorker adds the workflows and activities to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	w.RegisterWorkflowWithOptions(Provision, workflow.RegisterOptions{Name: provisionType})
	w.RegisterWorkflowWithOptions(Leave, workflow.RegisterOptions{Name: releaseType})
	a := &Activities{s}
	w.RegisterActivity(a.BeginProvisioning)
	w.RegisterActivity(a.AskNode)
	w.RegisterActivity(a.SettleProvisioning)
	w.RegisterActivity(a.RequestCleanup)
	w.RegisterWorkflowWithOptions(ReviewKeys, workflow.RegisterOptions{Name: reviewType})
	w.RegisterWorkflowWithOptions(ChangeKeys, workflow.RegisterOptions{Name: keysType})
	w.RegisterActivity(a.ReviewKeys)
	w.RegisterActivity(a.ChangeKeysOnNode)
}

// BeginProvisioning takes an allocation up. It returns the number of its placement,
// or zero where nothing is left to do: an agent that is there needs milliseconds for
// its errands, while every further activity costs the engines more than that. What
// does not go well at once, the workflow takes up errand by errand.
func (a *Activities) BeginProvisioning(ctx context.Context, of id.Allocation) (placement int32, err error) {
	err = a.at(ctx, of, StageBegin, func(ctx context.Context) error {
		placement, err = a.begin(ctx, of)
		return err
	})
	if err != nil || placement == 0 {
		return placement, err
	}
	for _, what := range errands {
		answer, err := a.AskNode(ctx, Errand{ID: of, What: what, Placement: placement})
		if err != nil {
			a.logger.WarnContext(ctx, "a node could not be asked at once; the workflow asks it again", "allocation_id", of,
				"errand", what, "error", err)
			return placement, nil
		}
		if answer.Signal != "" || answer.Failure.Code != "" {
			return placement, nil
		}
	}
	return a.SettleProvisioning(ctx, of, placement, Trouble{})
}

// SettleProvisioning records how the errands on one node went. It returns the number
// of the next placement, or zero where the allocation is active or has failed.
func (a *Activities) SettleProvisioning(ctx context.Context, of id.Allocation, placement int32, t Trouble) (next int32,
	err error,
) {
	err = a.at(ctx, of, StageSettle, func(ctx context.Context) error {
		next, err = a.settle(ctx, of, placement, t)
		return err
	})
	return next, err
}

// RequestCleanup asks for the cleaning of the node of an allocation that has ended,
// or has one that stopped go on.
func (a *Activities) RequestCleanup(ctx context.Context, of id.Allocation) error {
	return a.at(ctx, of, StageCleanup, func(ctx context.Context) error { return a.requestCleanup(ctx, of) })
}

// lingers is how long an activity waits itself for a task that it has just given:
// an agent that is there is quick, and every signal to a workflow costs more than a
// few looks.
const lingers = 2 * time.Second

// AskNode gives the node of an allocation a task, unless it has it already, and says
// how it stands.
func (a *Activities) AskNode(ctx context.Context, e Errand) (answer Answer, err error) {
	err = a.at(ctx, e.ID, stageOf[e.What], func(ctx context.Context) error {
		answer, err = a.ask(ctx, e)
		return err
	})
	return answer, err
}

var stageOf = map[string]Stage{errandProbe: StageProbe, errandAccount: StageAccount}

func (a *Activities) ask(ctx context.Context, e Errand) (Answer, error) {
	var task agenttask.Task
	var of Allocation
	err := a.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		var n node.Node
		if of, n, err = hold(ctx, tx, e.ID); err != nil {
			return err
		}
		if of.Status != Provisioning || of.Placements != e.Placement || of.cancelled() {
			return fault.New(fault.Conflict, CodeCancelled, "allocation %s does not need its node any more", e.ID)
		}
		if why := outOfService(n); why != "" {
			return fault.New(fault.Conflict, codeNotReady, "%s", why).WithRemedy("ask again; an operator has the node")
		}
		if task, err = a.tasks.Enqueue(ctx, tx, of.request(e, n.TakesHandover())); err != nil {
			return err
		}
		return wait(ctx, tx, of, waitsFor[e.What])
	})
	if fault.KindOf(err) == fault.Conflict || fault.KindOf(err) == fault.NotFound {
		f, _ := fault.As(err)
		return Answer{Failure: Failure{Code: f.Code, Reason: f.Message, Remedy: f.Remedy}}, nil
	}
	if err != nil {
		return Answer{}, err
	}
	if task, err = agenttask.Linger(ctx, a.tasks, task, lingers); err != nil {
		return Answer{}, err
	}
	if !task.Status.Ended() {
		return a.later(ctx, of, task)
	}
	judged := of.judged(e.What, task, a.gate)
	if slices.Contains(uidRefused, judged.Code) {
		return a.retake(ctx, e, of.UID, judged)
	}
	return Answer{Failure: judged}, nil
}

var waitsFor = map[string]string{
	errandProbe: "the node to show that it is ready", errandAccount: "the account to be made on the node",
}

// request is the task that an errand is. tells says whether the agent takes what the
// tenant is to be told.
func (a Allocation) request(e Errand, tells bool) agenttask.Request {
	r := agenttask.Request{
		Node: a.Node, Owner: tenant{a.ID}, Reason: "allocation " + a.ID.String(),
		IdempotencyKey: fmt.Sprintf("%s/%d/%s", a.tasksOf(), e.Placement, e.What),
	}
	switch e.What {
	case errandProbe:
		r.Type = agentwire.TypeHealthProbe
	case errandAccount:
		r.IdempotencyKey += fmt.Sprintf("/uid %d", a.UID) // the node may refuse it, and gets another one
		p := a.account(tells)
		if tells {
			r.IdempotencyKey += "/until " + p.Handover.ExpiresAt // somebody may extend it meanwhile: then it is told again
		}
		r.Type, r.Params = agentwire.TypeProvisionUser, p
	}
	return r
}

// account is the account of an allocation, as its node shall have it. tells says whether
// the agent takes what the tenant is to be told.
func (a Allocation) account(tells bool) agentwire.ProvisionUserParams {
	keys := make([]string, len(a.Keys))
	for i, k := range a.Keys {
		keys[i] = k.PublicKey
	}
	p := agentwire.ProvisionUserParams{
		AllocationID: a.ID.String(), Username: a.Username, UID: int(a.UID), GID: int(a.UID), AuthorizedKeys: keys,
		Sudo: a.Access == RootAccess,
	}
	if tells {
		p.Handover = a.handover()
	}
	return p
}

// handover is what the tenant reads about the node at login.
func (a Allocation) handover() *agentwire.Handover {
	o := &agentwire.Handover{
		Project: a.Project.String(), Node: a.Hostname, SKU: a.SKU, GPUs: int(a.Terms.GPUsTotal),
	}
	if a.ExpiresAt != nil {
		o.ExpiresAt = a.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return o
}

// tenant owns the tasks that let somebody in on behalf of an allocation.
type tenant struct{ of id.Allocation }

// Owns implements agenttask.Owner: an allocation lets its tenant in while it is being
// provisioned, on its own node only.
func (t tenant) Owns(ctx context.Context, tx pgx.Tx, on id.Node, typ string) error {
	a, err := lock(ctx, tx, t.of)
	if err != nil {
		return err
	}
	if a.Node != on || a.Status != Provisioning || a.cancelled() {
		return fault.New(fault.Conflict, "allocation_state_conflict", "allocation %s does not ask for %s on this node", a.ID,
			typ)
	}
	return nil
}

// later says how long to wait for a task. One that its node does not fetch is
// cancelled.
func (a *Activities) later(ctx context.Context, of Allocation, t agenttask.Task) (Answer, error) {
	t, err := a.tasks.TellWhenEnded(ctx, t.ID, of.WorkflowID())
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Signal: agenttask.SignalName(t.ID), Most: time.Until(t.DeadlineAt.Add(agentwire.Lease))}
	if t.Status != agenttask.Queued {
		answer.Most = max(answer.Most, agentwire.Lease)
		return answer, nil
	}
	left := time.Until(t.CreatedAt.Add(a.patience))
	if left > 0 {
		answer.Most = min(answer.Most, left)
		return answer, nil
	}
	if _, err = a.tasks.Cancel(ctx, t.ID, "its node did not fetch it in time"); err != nil &&
		fault.KindOf(err) != fault.Conflict {
		return Answer{}, err
	}
	return Answer{Signal: agenttask.SignalName(t.ID), Most: time.Second}, nil // it has ended, or has just been fetched
}
