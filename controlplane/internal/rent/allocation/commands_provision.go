package allocation

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// mostPlacements is on how many nodes an allocation is tried before it fails.
const mostPlacements = 2

func (s *Service) begin(ctx context.Context, of id.Allocation) (placement int32, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, _, err := hold(ctx, tx, of)
		if err != nil {
			return err
		}
		if a.Status == Requested {
			a, err = move(ctx, tx, a, Begin, waitsFor[errandProbe], "a worker took it up", nil)
		}
		if err == nil && a.Status == Provisioning { // also when this is repeated
			placement = a.Placements
		}
		return err
	})
	return placement, err
}

// wait records what an allocation waits for.
func wait(ctx context.Context, tx pgx.Tx, a Allocation, what string) error {
	if _, err := allocationdb.New(tx).SetWaiting(ctx,
		allocationdb.SetWaitingParams{ID: a.ID, WaitingFor: what}); err != nil {
		return fmt.Errorf("note what allocation %s waits for: %w", a.ID, err)
	}
	return nil
}

// judged says whether the node did what it was asked for.
func (a Allocation) judged(what string, t agenttask.Task, g gate) Failure {
	if err := t.Result().Err(); err != nil {
		f, _ := fault.As(err)
		return Failure{Code: f.Code, Reason: f.Message, Remedy: f.Remedy, Shown: t.Status == agenttask.Failed}
	}
	if what == errandAccount {
		return unusable(t)
	}
	f := g.unready(t.Output, a.Terms)
	f.Shown = f.Code != ""
	return f
}

// settle records how the errands on one node went.
func (s *Service) settle(ctx context.Context, of id.Allocation, placement int32, t Trouble) (next int32, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, n, err := hold(ctx, tx, of)
		if err != nil {
			return err
		}
		switch {
		case a.Status != Provisioning:
			return nil // this is being repeated, or somebody ended it
		case a.Placements != placement:
			next = a.Placements // this is being repeated
			return nil
		case a.cancelled():
			_, err = s.fail(ctx, tx, a, Failure{Code: CodeCancelled, Reason: "its end was asked for before it was active"})
			return err
		case t.Code == "" && outOfService(n) == "":
			if a, err = move(ctx, tx, a, Ready, "", "the tenant can use "+a.Hostname, nil); err == nil {
				_, err = s.dropKeys(ctx, tx, a) // some may be gone since it was asked for
			}
			return err
		case t.Code == "":
			t.Failure = notReady(outOfService(n))
		case t.Code != CodeCancelled && n.Access() == node.NoAccess:
			next, err = s.elsewhere(ctx, tx, a, n, t)
			return err
		}
		_, err = s.fail(ctx, tx, a, t.Failure)
		return err
	})
	return next, err
}

// outOfService says why a node must not be handed to a tenant whatever its agent says:
// somebody took it out of service since it was placed. It is empty if it may.
func outOfService(n node.Node) string {
	switch {
	case !n.Status.Is(node.Serving):
		return fmt.Sprintf("node %s is %s", n.Hostname, n.Status)
	case n.HoldReason != "" && !n.HeldUnclean: // the tenant's own account makes it unclean
		return fmt.Sprintf("node %s is held by an operator", n.Hostname)
	}
	return ""
}

// elsewhere takes a node out of service that showed that it is not ready, and places
// the allocation on another one, once. A node that gave no answer stays in service:
// the control plane may be what did not ask, and the silence of a node is judged
// elsewhere.
func (s *Service) elsewhere(ctx context.Context, tx pgx.Tx, a Allocation, n node.Node, t Trouble) (next int32,
	err error,
) {
	if t.Shown && outOfService(n) == "" {
		if _, err := node.Move(ctx, tx, n.ID, node.Quarantine, "it was not ready for a tenant: "+t.Reason); err != nil {
			return 0, err
		}
	}
	if a.Placements >= mostPlacements {
		_, err = s.fail(ctx, tx, a, t.Failure)
		return 0, err
	}
	if err := endClaims(ctx, tx, a, "nobody was let in: it was not ready"); err != nil {
		return 0, err
	}
	wish := a.Wish
	wish.Passed = append(wish.Passed, a.Node)
	again := Ask{Project: a.Project, SKU: a.SKU, Count: 1, Wish: wish, Access: a.Access}
	others, err := s.keepReserved(ctx, tx, a.Org, again)
	if err != nil {
		return 0, err
	}
	spots, err := s.place(ctx, allocationdb.New(tx), again, others)
	var none *short
	if errors.As(err, &none) {
		t.Reason += "; and there is no other node"
		_, err = s.fail(ctx, tx, a, t.Failure)
		return 0, err
	}
	if err != nil {
		return 0, err
	}
	return s.resettle(ctx, tx, a, spots[0], t)
}

// placeAgain is the event of the timeline that says that another node was taken.
const placeAgain = "place_again"

// resettle moves an allocation to a node that was claimed for it.
func (s *Service) resettle(ctx context.Context, tx pgx.Tx, a Allocation, at spot, t Trouble) (int32, error) {
	q := allocationdb.New(tx)
	if err := q.GiveClaim(ctx, allocationdb.GiveClaimParams{AllocationID: a.ID, NodeID: at.node}); err != nil {
		return 0, fmt.Errorf("claim node %s: %w", at.node, err)
	}
	uid, username, err := account(ctx, q, at.node)
	if err != nil {
		return 0, err
	}
	now, err := found(q.SetPlace(ctx, allocationdb.SetPlaceParams{
		ID: a.ID, NodeID: at.node, Hostname: at.hostname, Uid: uid, Username: username,
	}))
	if err != nil {
		return 0, err
	}
	return now.Placements, note(ctx, tx, now, placeAgain, fmt.Sprintf("%s was not ready (%s); placed on %s instead",
		a.Hostname, t.Reason, now.Hostname), map[string]any{"code": t.Code})
}

// requestCleanup has the node of an allocation cleaned: by a reimage where somebody
// had root, and by a soft reset otherwise. A cleaning that stopped goes on.
func (s *Service) requestCleanup(ctx context.Context, of id.Allocation) error {
	a, err := Get(ctx, s.db, of)
	if err != nil {
		return err
	}
	t, err := (Tenancies{}).Of(ctx, s.db, a.Node)
	if err != nil || t == nil || t.ID != a.ID { // it was cleaned meanwhile
		return err
	}
	if done, err := s.resume(ctx, a); err != nil || done {
		return s.stopped(ctx, a, err)
	}
	n, err := node.Get(ctx, s.db, a.Node)
	if err != nil {
		return err
	}
	r := a.cleanup(n)
	for range 5 { // the node may change while it is looked at
		if _, _, err = s.cleanups.Request(ctx, a.Node, r); fault.CodeOf(err) != decommission.CodePlanStale {
			break
		}
	}
	return s.stopped(ctx, a, err)
}

// cleanup is what has to be done to the node of an allocation after its end.
func (a Allocation) cleanup(n node.Node) decommission.Request {
	r := decommission.Request{Mode: decommission.SoftReset, Reason: "a tenant has left", CleanupOf: a.ID}
	if n.Root.Stands() {
		r.Mode = decommission.Reimage
	}
	return r
}

// resume has a cleanup go on that stopped. It is done where one is under way.
func (s *Service) resume(ctx context.Context, a Allocation) (done bool, err error) {
	if a.Cleanup.IsZero() {
		return false, nil
	}
	d, err := s.cleanups.Get(ctx, a.Cleanup)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return false, nil
	case err != nil:
		return false, err
	case d.Phase == job.Over:
		return false, nil // it was cancelled, or proved nothing
	case d.Phase == job.Parked && (d.ErrorCode == job.CodeMarked || a.Release.Cause == ByOperation):
		return true, fault.New(fault.Conflict, codeStoppedByOperator,
			"an operator stopped the cleaning of the node, or leads it").
			WithRemedy("an operator goes on with it: gpuaas decommission resume %s", d.ID)
	case d.Phase == job.Parked:
		_, err = s.cleanups.Act(ctx, a.Cleanup, onAgain(d), "the release of allocation "+a.ID.String()+" was asked for again")
		return true, err
	}
	return true, nil
}

// onAgain is how a cleanup goes on that stopped: from its beginning where what it has
// proven so far does not hold any more, and otherwise where it stopped.
func onAgain(d decommission.Decommission) job.Trigger {
	if job.CodeNamed(d.ErrorCode).Mends[bringup.Decommission] == job.Rerun {
		return job.Rerun
	}
	return job.Resume
}

// stopped parks an allocation whose node cannot be cleaned as things are. What may
// go away by itself is an error, and is tried again.
func (s *Service) stopped(ctx context.Context, a Allocation, why error) error {
	kind := fault.KindOf(why)
	if why == nil || kind != fault.Conflict && kind != fault.Invalid && kind != fault.NotFound ||
		fault.CodeOf(why) == decommission.CodePlanStale {
		return why
	}
	f, _ := fault.As(why)
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now, _, err := hold(ctx, tx, a.ID)
		if err != nil {
			return err
		}
		if t, err := (Tenancies{}).Of(ctx, tx, now.Node); err != nil || t == nil || t.ID != now.ID {
			return err // it was cleaned meanwhile
		}
		return park(ctx, tx, now, f.Message)
	})
}

// park records that cleaning up after an allocation waits for somebody.
func park(ctx context.Context, tx pgx.Tx, a Allocation, why string) error {
	q := allocationdb.New(tx)
	if err := q.SetReleaseFailed(ctx, allocationdb.SetReleaseFailedParams{
		ID:                  a.ID,
		ReleaseFailedReason: why,
	}); err != nil {
		return fmt.Errorf("note why cleaning after allocation %s stopped: %w", a.ID, err)
	}
	if a.Status != Releasing {
		return note(ctx, tx, a, string(Park), "cleaning the node stopped: "+why, nil)
	}
	_, err := move(ctx, tx, a, Park, "an operator, or another try of the release", "cleaning the node stopped: "+why, nil)
	return err
}
