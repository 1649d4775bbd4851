package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oapi-codegen/runtime/types"

	"gpuaas/contract/apiclient"
)

// The states of allocations.
const (
	requested     = "requested"
	provisioning  = "provisioning"
	releasing     = "releasing"
	released      = "released"
	failed        = "failed"
	releaseFailed = "release_failed"
)

// rental is what a run about an allocation knows besides.
type rental struct {
	now     apiclient.AllocationView // as it was last seen
	cleanup types.UUID               // the operation that cleans up after it; zero: none was seen
	nodes   []types.UUID             // of the case, in the order in which they are let
}

// label is the label that only the nodes of a case have. Tenants may ask by public ones only.
func (r *run) label() map[string]string { return map[string]string{"public/case": r.hostname} }

// moveIn gets the token of somebody who may rent for the project of the tenants, and
// nothing else.
func (w *World) moveIn(ctx context.Context, address string) error {
	project, err := w.home(ctx)
	if err != nil {
		return err
	}
	account, err := w.api.CreateServiceAccountWithResponse(ctx, project, &apiclient.CreateServiceAccountParams{},
		apiclient.IdentityNewServiceAccountBody{Name: "ci", Role: apiclient.IdentityNewServiceAccountBodyRoleProjectMember})
	if _, err := apiclient.Read(account, err); err != nil {
		return fmt.Errorf("make service account: %w", err)
	}
	token, err := w.api.CreateServiceAccountTokenWithResponse(ctx, project, account.JSON.ServiceAccountId,
		&apiclient.CreateServiceAccountTokenParams{}, apiclient.IdentityNewTokenBody{Name: "rent"})
	if _, err := apiclient.Read(token, err); err != nil {
		return fmt.Errorf("make token: %w", err)
	}
	w.keep("token of the tenant", token.JSON.Token)
	w.tenant, err = apiclient.New(apiclient.Config{URL: address, Token: token.JSON.Token, UserAgent: "gpuaas sim faults"})
	return err
}

// furnishRental makes the machines of a case nodes, and, if the case is about the
// release, rents one of them.
func (r *run) furnishRental(ctx context.Context) error {
	if err := r.undisturbed(ctx, r.onboard); err != nil {
		return err
	}
	first := r.node
	r.rental.nodes = append(r.rental.nodes, first)
	if r.wish.spare {
		own, ownBMC := r.hostname, r.bmc
		label := r.label()
		r.hostname, r.bmc = r.world.machine(false)
		err := r.undisturbed(ctx, func(ctx context.Context) error { return r.bring(ctx, label) })
		r.rental.nodes = append(r.rental.nodes, r.node)
		r.hostname, r.bmc, r.node = own, ownBMC, first
		if err != nil {
			return err
		}
	}
	if r.Mode != releaseMode {
		return nil
	}
	if err := r.rent(ctx); err != nil {
		return err
	}
	return r.rentalBecomes(ctx, active)
}

// rent asks for a node of the case.
func (r *run) rent(ctx context.Context) error {
	r.world.Trap.asking.RLock() // nobody asks about the allocation before it is known here
	defer r.world.Trap.asking.RUnlock()
	made, err := r.order(ctx)
	if err != nil {
		return fmt.Errorf("ask for an allocation: %w", err)
	}
	r.job, r.doing = made.AllocationId, Allocation
	r.world.Trap.set(r.job.String(), r)
	return nil
}

func (r *run) order(ctx context.Context) (*apiclient.AllocationMade, error) {
	label := r.label()
	made, err := r.world.tenant.CreateAllocationWithResponse(ctx, r.world.project, &apiclient.CreateAllocationParams{},
		apiclient.AllocationAskBody{Sku: sku, NodeLabels: &label})
	if _, err := apiclient.Read(made, err); err != nil {
		return nil, err
	}
	return made.JSON, nil
}

// refused lets somebody else ask for the node, who must not get it.
func (r *run) refused(ctx context.Context) error {
	_, err := r.order(ctx)
	if refusal := (*apiclient.Problem)(nil); errors.As(err, &refusal) && refusal.Code == "sku_unavailable" {
		return nil
	}
	if err == nil {
		err = errors.New("a node was let that is being cleaned")
	}
	return err
}

// leave gives the allocation back.
func (r *run) leave(ctx context.Context) error {
	_, err := apiclient.Read(r.world.tenant.ReleaseAllocationFlatWithResponse(ctx, r.job,
		&apiclient.ReleaseAllocationFlatParams{}, apiclient.AllocationLeaveBody{}))
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// seize acts as an operator who has an operation on the node, whoever is there.
func (r *run) seize(ctx context.Context, mode string) error {
	told := true
	if mode == retireMode {
		made, err := r.world.api.RetireNodeWithResponse(ctx, r.node, &apiclient.RetireNodeParams{},
			apiclient.DecommissionReasonBody{Reason: "it is needed elsewhere", EndAllocation: &told})
		_, err = apiclient.Read(made, err)
		return err
	}
	made, err := r.world.api.DecommissionNodeWithResponse(ctx, r.node, &apiclient.DecommissionNodeParams{},
		apiclient.DecommissionNewBody{
			Mode: apiclient.DecommissionNewBodyMode(mode), Reason: "it is needed elsewhere", EndAllocation: &told,
		})
	_, err = apiclient.Read(made, err)
	return err
}

// giveUp acts as an administrator who gives an allocation up.
func (r *run) giveUp(ctx context.Context) error {
	_, err := apiclient.Read(r.world.api.ForceCleanupAllocationWithResponse(ctx, r.job,
		&apiclient.ForceCleanupAllocationParams{},
		apiclient.AllocationCleanupBody{Reason: "it is stuck", RuntimeVerifiedAbsent: true}))
	if err != nil {
		return fmt.Errorf("force-cleanup: %w", err)
	}
	return nil
}

// lookAtRental reads the allocation in the form of a job: an allocation whose cleanup
// stopped is parked, and one that failed has ended when nothing of it is left.
func (r *run) lookAtRental(ctx context.Context) (*standing, error) {
	answer, err := r.world.tenant.GetAllocationFlatWithResponse(ctx, r.job)
	if _, err := apiclient.Read(answer, err); err != nil {
		return nil, fmt.Errorf("read allocation: %w", err)
	}
	a := *answer.JSON
	r.rental.now = a
	v := &standing{Status: string(a.Status), Node: a.NodeId}
	v.Explanation.Summary = fmt.Sprintf("the allocation is %s: %s%s%s", a.Status, text(a.WaitingFor),
		text(a.FailureReason), text(a.ReleaseFailedReason))
	if a.CleanupId != nil && *a.CleanupId != r.rental.cleanup {
		r.rental.cleanup = *a.CleanupId
		r.world.Trap.set(a.CleanupId.String(), r)
	}
	switch {
	case v.Status == released, v.Status == active && r.Mode == provisionMode:
		v.Status = completed
	case v.Status == failed:
		left, err := r.claims(ctx)
		if err != nil {
			return nil, err
		}
		if left == 0 {
			v.Status = completed
			return v, nil
		}
	}
	if (v.Status == releaseFailed || v.Status == failed) && r.rental.cleanup != (types.UUID{}) {
		return r.explained(ctx, v)
	}
	return v, nil
}

const (
	completed = "completed"
	retryable = "failed_retryable"
)

// explained adds why the cleanup is parked, if it is.
func (r *run) explained(ctx context.Context, v *standing) (*standing, error) {
	cleanup, err := r.world.view(ctx, Decommission, r.rental.cleanup)
	if err != nil {
		return nil, err
	}
	if !parked(cleanup.Status) {
		return v, nil
	}
	v.Status, v.Stage, v.Explanation = retryable, cleanup.Stage, cleanup.Explanation
	return v, nil
}

// claims counts the claims that allocations have on nodes of the case.
func (r *run) claims(ctx context.Context) (int, error) {
	nodes := make([]string, len(r.rental.nodes))
	for i, n := range r.rental.nodes {
		nodes[i] = n.String()
	}
	return r.world.Claims(ctx, nodes)
}

// rentalLook is how often an allocation is looked at.
const rentalLook = 150 * time.Millisecond

// rentalBecomes waits until the allocation has a status.
func (r *run) rentalBecomes(ctx context.Context, status string) error {
	return r.await(ctx, "the allocation to be "+status, func(ctx context.Context) (bool, error) {
		_, err := r.lookAtRental(ctx)
		return string(r.rental.now.Status) == status, err
	})
}

// await looks again and again until something is so.
func (r *run) await(ctx context.Context, what string, is func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(rentalLook)
	defer tick.Stop()
	for {
		if so, err := is(ctx); so || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: it is %s and waits for %q", what, r.rental.now.Status, text(r.rental.now.WaitingFor))
		}
	}
}

// interruptRental takes the allocation away from a stage that is about to act.
func (r *run) interruptRental(ctx context.Context) error {
	defer close(r.letGo)
	err := r.await(ctx, "the stage to be reached", func(ctx context.Context) (bool, error) {
		select {
		case <-r.reached:
			return true, nil
		default:
			_, err := r.lookAtRental(ctx) // the cleanup waits until it is known here
			return false, err
		}
	})
	if err != nil {
		return err
	}
	switch {
	case r.Mode == provisionMode:
		return r.giveUp(ctx)
	case r.Stage == askCleanup:
		return r.seize(ctx, retireMode)
	}
	r.acted(ctx)
	return r.actOnCleanup(ctx, markManual, "somebody is working on the machine")
}

// The ways on from a cleanup that stopped, besides those of the cleanup itself.
const (
	byTenant        = "release"
	byAdministrator = "force_release"
)

// recoverRental fixes what went wrong and has the cleanup go on: the tenant asks
// again, an administrator forces it, or an operator takes the action that the cleanup
// recommends.
func (r *run) recoverRental(ctx context.Context, v *standing) (Stop, error) {
	e := v.Explanation
	stop := Stop{Stage: v.Stage, Class: e.FailureClass, Code: e.ErrorCode}
	if r.actions >= mostActions {
		return stop, fmt.Errorf("%d actions did not resolve it: %s", mostActions, e.Summary)
	}
	ways := []string{byAdministrator}
	if string(r.rental.now.Status) == releaseFailed { // one that failed has nothing to release
		ways = append(ways, byTenant)
	}
	if len(e.Actions) > 0 {
		ways = append(ways, e.Actions[0].Action)
	}
	stop.Action = ways[r.rng.IntN(len(ways))]
	if !r.isMended() {
		if err := r.repair(ctx); err != nil {
			return stop, err
		}
	}
	r.actions++
	var err error
	switch stop.Action {
	case byTenant:
		err = r.leave(ctx)
	case byAdministrator:
		_, err = apiclient.Read(r.world.api.ForceReleaseAllocationWithResponse(ctx, r.job,
			&apiclient.ForceReleaseAllocationParams{}, apiclient.AllocationForceBody{Reason: "a simulated fault was put right"}))
	default:
		err = r.actOnCleanup(ctx, stop.Action, "a simulated fault was put right")
	}
	if err != nil {
		return stop, fmt.Errorf("%s: %w", stop.Action, err)
	}
	// A request is recorded first and carried out then.
	return stop, r.await(ctx, "the cleanup to go on", func(ctx context.Context) (bool, error) {
		v, err := r.lookAtRental(ctx)
		return err == nil && v.Status != retryable, err
	})
}

func (r *run) actOnCleanup(ctx context.Context, action, reason string) error {
	do, known := verbs[Decommission][action]
	if !known {
		return fmt.Errorf("the action %s does not lead on", action)
	}
	_, err := apiclient.Read(do(ctx, r.world.api, r.rental.cleanup, reason))
	return err
}
