package decommission

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
	"gpuaas/controlplane/internal/work/job"
)

// inNode changes the node of an operation, within the fence.
func (s *Service) inNode(ctx context.Context, d Decommission, w *bringup.Work, change func(ctx context.Context, tx pgx.Tx, n node.Node) error) error {
	return disagreeing(s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := w.FenceIn(ctx, tx); err != nil {
			return err
		}
		n, err := node.Lock(ctx, tx, d.Node)
		if err != nil {
			return err
		}
		return change(ctx, tx, n)
	}))
}

// disagreeing makes a failure of the job of what the inventory refuses; a
// database that is away is none.
func disagreeing(err error) error {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.NotFound, fault.Invalid:
		if fault.CodeOf(err) == durable.CodeSuperseded {
			return err
		}
		f := bringup.Classify(err)
		f.Class, f.Final = bringup.StateAmbiguity, true
		return f
	case fault.Stale, fault.Ambiguous, fault.Unavailable, fault.RateLimited, fault.Internal, fault.Forbidden, fault.Unauthenticated:
	}
	return err
}

// hold holds the node. An operation that has ended holds nothing, whatever it
// left behind.
func (s *Service) hold(ctx context.Context, tx pgx.Tx, d Decommission, n node.Node) (node.Node, error) {
	_, of, _ := strings.Cut(n.HeldBy, " ")
	other, err := id.Parse[id.Decommission](of)
	if err != nil || n.HeldBy != holderOf(other) || other == d.ID {
		return node.Hold(ctx, tx, d.Node, d.holder(), d.cause()) // which says who holds it
	}
	before, err := found(decommissiondb.New(tx).Get(ctx, other))
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return node.Node{}, err
	}
	if err != nil || before.CompletedAt == nil {
		return node.Hold(ctx, tx, d.Node, d.holder(), d.cause())
	}
	return node.TakeOver(ctx, tx, d.Node, n.HeldBy, d.holder(), d.cause())
}

func (d Decommission) cause() string { return fmt.Sprintf("%s, %s", d.holder(), d.Mode) }

// disable holds the node, and lets it drain where the mode takes it out of
// service. A retired node passes through active on its way, held.
func (s *Service) disable(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	var after node.Node
	err := s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, n node.Node) error {
		var err error
		if after, err = s.hold(ctx, tx, d, n); err != nil || !d.Mode.leaves() || d.installed(w, n) {
			return err
		}
		if n.Status == node.Retired && d.Mode == Reimage {
			if n, err = node.Move(ctx, tx, d.Node, node.Reactivate, d.cause()); err != nil {
				return err
			}
		}
		switch n.Status {
		case node.Active, node.Offline, node.Quarantined:
			after, err = node.Move(ctx, tx, d.Node, node.Drain, d.cause())
		case node.Draining, node.Retired, node.Enrolling, node.Removing, node.Deleted, node.BootstrapIssued: // further already
			after = n
		}
		return err
	})
	return job.Result{Message: fmt.Sprintf("%s is %s and out of scheduling", d.Hostname, after.Status)}, err
}

// forceRelease ends what tenants have on the node.
func (s *Service) forceRelease(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	if s.allocations == nil {
		return skipped("nothing allocates nodes yet: there is nothing to end"), nil
	}
	if err := w.Fence(ctx); err != nil {
		return job.Result{}, err
	}
	released, err := s.allocations.ForceRelease(ctx, d.Node, d.Reason)
	if err != nil {
		f := bringup.Classify(err)
		if f.Class != bringup.UpstreamTransient {
			f.Class, f.Code, f.Final = bringup.StateAmbiguity, "allocations_remain", false
		}
		return job.Result{}, f
	}
	return job.Result{Message: fmt.Sprintf("%d allocations were ended", released)}, nil
}

func skipped(why string) job.Result {
	return job.Result{Skipped: true, Message: why, Evidence: []job.Evidence{{Kind: EvidenceNotApplicable, Value: map[string]any{"why": why}}}}
}

// drain ends sessions and removes the accounts of tenants.
func (s *Service) drain(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	if n.Status == node.Retired {
		return skipped("the node is retired: it was drained before, and its agent is kept out"), nil
	}
	t, await, err := s.ask(ctx, d, w, StageDrain, errand{
		kind: agentwire.TypeDrain, params: agentwire.DrainParams{Reason: d.cause(), RevokeUsers: true},
		before: func(ctx context.Context, tx pgx.Tx) error { return s.terminals.EndAll(ctx, tx, d.Node) },
	})
	if err != nil || await != nil {
		return job.Result{Await: await}, err
	}
	out, err := output[agentwire.DrainOutput](t)
	if err != nil {
		return job.Result{}, err
	}
	result := job.Result{
		Message:  fmt.Sprintf("%s is drained: %d sessions ended, %d accounts removed", d.Hostname, out.SessionsClosed, len(out.UsersRevoked)),
		Evidence: witnessed(EvidenceDrain, t),
	}
	if len(out.UsersLeft) > 0 {
		return result, &job.Failure{
			Class: bringup.SanitizationFailure, Code: "drain_incomplete", Message: fmt.Sprintf("%s still has accounts of tenants: %s", d.Hostname, strings.Join(out.UsersLeft, ", ")),
			Remedy: "look on the machine why they cannot be removed, then retry", Details: map[string]any{"users_left": out.UsersLeft, "task_id": t.ID},
		}
	}
	return result, nil
}

// emptied says whether somebody else released the machine of a node that is to
// be released: then there is no agent to wait for.
func (s *Service) emptied(ctx context.Context, d Decommission, w *bringup.Work) (bool, error) {
	if !d.Mode.releases() || w.SystemID == "" {
		return false, nil
	}
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil || n.LastContactAt != nil && s.now().Sub(*n.LastContactAt) < time.Minute {
		return false, err
	}
	missing, err := s.bringup.ProveVacant(ctx, w)
	return err == nil && missing == "" && w.Observed.Status != bringup.Absent, err
}

// retire ends the drain.
func (s *Service) retire(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	err := s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, n node.Node) error {
		if n.Status == node.Retired || n.Status == node.Removing || n.Status == node.Deleted {
			return nil
		}
		if d.Mode == Retire && n.Tainted() { // a drain leaves it as it is, and says so
			return tainted(d, "somebody got access to it after it was validated")
		}
		_, err := node.Move(ctx, tx, d.Node, node.Drained, d.cause())
		return err
	})
	return job.Result{Message: d.Hostname + " is retired"}, err
}

// reactivate lets the agent of a retired node in again. The node is held until
// it is proven clean.
func (s *Service) reactivate(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	err := s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, n node.Node) error {
		if _, err := s.hold(ctx, tx, d, n); err != nil {
			return err
		}
		if n.Status != node.Retired {
			return nil
		}
		_, err := node.Move(ctx, tx, d.Node, node.Reactivate, d.cause())
		return err
	})
	return job.Result{Message: d.Hostname + " is active again, and held until it is proven clean"}, err
}

// enable lets the agent take users again. That the node is let go of belongs to
// the end of the operation, which is refused while the node is not proven clean.
func (s *Service) enable(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	t, await, err := s.ask(ctx, d, w, StageEnable, errand{kind: agentwire.TypeDrain, params: agentwire.DrainParams{Reason: d.cause(), Resume: true}})
	if err != nil || await != nil {
		return job.Result{Await: await}, err
	}
	out, err := output[agentwire.DrainOutput](t)
	if err != nil {
		return job.Result{}, err
	}
	if out.Draining {
		return job.Result{}, &job.Failure{
			Class: bringup.StateAmbiguity, Code: "still_draining", Message: fmt.Sprintf("the agent of %s still refuses users", d.Hostname),
			Remedy: "look at the agent on the machine, then retry", Details: map[string]any{"task_id": t.ID},
		}
	}
	result := job.Result{Message: d.Hostname + " takes users again", Details: map[string]any{"task_id": t.ID}}
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return result, err
	}
	if !d.Mode.proves(n) {
		result.Message = d.Hostname + " stays out of scheduling: it is tainted, and only a reset proves it clean"
		result.Evidence = []job.Evidence{followUp("reset "+d.Hostname, "a storage cleanup does not prove a tainted node clean", "gpuaas node reset "+d.Hostname+" --reason REASON")}
		return result, nil
	}
	why, err := s.quarantinedStill(ctx, d)
	if err == nil && why != "" {
		result.Message = d.Hostname + " is clean, and stays quarantined: " + why
		result.Evidence = []job.Evidence{followUp("return "+d.Hostname+" to service", "it was quarantined for another reason than what was cleaned: "+why, "gpuaas node return "+d.Hostname)}
	}
	return result, err
}

// foundUnclean begins the cause of a quarantine that a validation made.
const foundUnclean = "a validation found it unclean: "

// ofValidation says whether a node was quarantined because a validation found
// it unclean: no other quarantine is lifted by one that found nothing.
func ofValidation(q node.Quarantining) bool {
	return !q.ByPerson && strings.HasPrefix(q.Cause, foundUnclean)
}

// quarantinedStill is why the node stays quarantined when the operation has
// reached its goal; empty: it does not.
func (s *Service) quarantinedStill(ctx context.Context, d Decommission) (why string, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n, err := node.Get(ctx, tx, d.Node)
		if err != nil || n.Status != node.Quarantined {
			return err
		}
		q, err := node.LastQuarantined(ctx, tx, d.Node)
		if err == nil && !ofValidation(q) {
			why = or(q.Cause, "nobody said why")
		}
		return err
	})
	return why, err
}
