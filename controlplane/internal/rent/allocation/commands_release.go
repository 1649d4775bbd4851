package allocation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
	"gpuaas/controlplane/internal/rent/rentalsettings"
)

// Leaving is a request for the end of an allocation.
type Leaving struct {
	Cause     Cause
	Reason    string
	Complaint *Complaint // nil: the tenant has none
	// clean begins the cleanup of the node in the transaction of the release; nil: a
	// workflow asks for it.
	clean postgres.TxFunc
	root  bool // somebody had root on the node: its cleanup may have to wait for a place
}

// Release ends an allocation. One that is not active yet ends as failed, cancelled
// by its user; one that is being released stays so; one whose cleaning stopped is
// cleaned again.
func (s *Service) Release(ctx context.Context, of id.Allocation, l Leaving) (Allocation, error) {
	l.Reason = strings.TrimSpace(l.Reason)
	if len(l.Reason) > 500 {
		return Allocation{}, rejected(fault.Field{Path: "body.reason", Message: "must be at most 500 bytes long"})
	}
	l.clean = s.readyToClean(ctx, of)
	now, err := s.letGo(ctx, of, l)
	if refused := (*lateCleanupError)(nil); errors.As(err, &refused) {
		s.logger.InfoContext(ctx, "the cleanup of a node did not begin with the release; a workflow asks for it",
			"allocation_id", of, "error", err)
		l.clean = nil
		return s.letGo(ctx, of, l)
	}
	return now, err
}

func (s *Service) letGo(ctx context.Context, of id.Allocation, l Leaving) (now Allocation, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, n, err := hold(ctx, tx, of)
		if err != nil {
			return err
		}
		l.root = n.Root.Stands()
		now, err = s.release(ctx, tx, a, l)
		return err
	})
	return now, err
}

// readyToClean prepares the cleanup of a node so that it begins in the transaction of
// the release: a workflow that only asks for it costs as much as making an allocation.
// It is nil where more than that is to be decided: the workflow does.
func (s *Service) readyToClean(ctx context.Context, of id.Allocation) postgres.TxFunc {
	if _, calm := s.mischief.(peace); !calm { // it wants to be around that stage
		return nil
	}
	var begin postgres.TxFunc
	a, err := Get(ctx, s.db, of)
	if err != nil || a.Status != Active || !a.Cleanup.IsZero() {
		return nil // the transaction of the release says what is wrong with it
	}
	n, err := node.Get(ctx, s.db, a.Node)
	if err == nil {
		begin, err = s.cleanups.Ready(ctx, a.Node, a.cleanup(n))
	}
	if err != nil {
		s.logger.WarnContext(ctx, "the cleanup of a node could not be prepared; a workflow asks for it", "allocation_id", of,
			"error", err)
	}
	if err != nil || begin == nil {
		return nil
	}
	return func(ctx context.Context, tx pgx.Tx) error {
		if err := begin(auth.With(ctx, auth.System("allocation-release")), tx); err != nil {
			return &lateCleanupError{err}
		}
		return nil
	}
}

// lateCleanupError says that a cleanup could not begin with the release.
type lateCleanupError struct{ why error }

func (n *lateCleanupError) Error() string { return "the cleanup did not begin: " + n.why.Error() }

func (n *lateCleanupError) Unwrap() error { return n.why }

func (s *Service) release(ctx context.Context, tx pgx.Tx, a Allocation, l Leaving) (Allocation, error) {
	switch {
	case a.Status == Releasing && l.Cause == ByAdmin:
		return a, startAgain(ctx, tx, a, l.Reason)
	case a.Status == Releasing, a.Status == Released, a.cancelled():
		return a, s.complain(ctx, tx, a, l.Complaint) // the release was asked for already
	case a.Status == Failed:
		return a, fault.New(fault.Conflict, "allocation_state_conflict",
			"allocation %s failed: there is nothing to release", a.called())
	case l.Cause == ByExpiry:
		// somebody may have extended it since it was found due
		due, err := allocationdb.New(tx).Due(ctx, a.ID)
		if err != nil {
			return a, fmt.Errorf("look whether the time of allocation %s is over: %w", a.ID, err)
		}
		if !due {
			return a, nil
		}
	case a.Protected && l.Cause == ByTenant:
		return a, fault.New(fault.Conflict, "allocation_protected", "allocation %s is protected against its release",
			a.called()).
			WithRemedy("lift that first: gpuaas allocation protect %s --off", a.ID)
	}
	if err := setRelease(ctx, tx, a, l); err != nil {
		return a, err
	}
	if err := record(ctx, tx, "allocation.release", a, l.Reason, map[string]any{
		"cause": l.Cause, "prior_status": a.Status, "complaint": l.Complaint != nil,
	}); err != nil {
		return a, err
	}
	if err := s.complain(ctx, tx, a, l.Complaint); err != nil {
		return a, err
	}
	if a.Status == Requested || a.Status == Provisioning {
		now, err := Get(ctx, tx, a.ID)
		if err != nil {
			return a, err
		}
		if err := note(ctx, tx, now, "cancel", "its end was asked for before it was active", nil); err != nil {
			return now, err
		}
		return now, outbox.CancelWorkflow(ctx, tx, a.WorkflowID())
	}
	return s.toCleanup(ctx, tx, a, l)
}

func setRelease(ctx context.Context, tx pgx.Tx, a Allocation, l Leaving) error {
	p := allocationdb.SetReleaseParams{
		ID: a.ID, Cause: string(l.Cause), Reason: l.Reason, RequestedBy: auth.From(ctx).ID,
	}
	if err := allocationdb.New(tx).SetRelease(ctx, p); err != nil {
		return fmt.Errorf("note release of allocation %s: %w", a.ID, err)
	}
	return nil
}

// endings say for people who ended an allocation.
var endings = map[Cause]string{
	ByTenant: "its tenant gave it back", ByExpiry: "its time is over", ByAdmin: "an administrator ended it",
	ByBilling: "its tenant has no money left", ByOperation: "an operation on the node ended it",
}

// ending says for people who ended an allocation, and why.
func ending(l Leaving) string {
	text := endings[l.Cause]
	if l.Reason != "" {
		text += ": " + l.Reason
	}
	return text
}

// toCleanup ends the use of a node and has it cleaned.
func (s *Service) toCleanup(ctx context.Context, tx pgx.Tx, a Allocation, l Leaving) (Allocation, error) {
	now, err := move(ctx, tx, a, Release, "the node to be cleaned", ending(l), nil)
	if err != nil {
		return a, err
	}
	if err := s.terminals.EndAll(ctx, tx, a.Node); err != nil {
		return now, err
	}
	if s.runs != nil {
		// What runs there on behalf of somebody must not keep the node from being cleaned.
		if err := s.runs.LeaveNode(ctx, tx, a.Node, "the allocation of the node has ended"); err != nil {
			return now, err
		}
	}
	if a.Status == Active && (l.root || a.Access == RootAccess) {
		if err := cutOff(ctx, tx, now); err != nil {
			return now, err
		}
	}
	if l.clean != nil && a.Status == Active {
		return now, l.clean(ctx, tx)
	}
	return now, startCleanup(ctx, tx, now)
}

// cutOff has the account of a tenant taken away, with what runs under it. The cleanup of
// a node that somebody had root on may wait for a place of its site for hours, and the
// tenant does not pay for them. The home goes, too: a drain later finds homes by their
// accounts.
func cutOff(ctx context.Context, tx pgx.Tx, a Allocation) error {
	_, err := (agenttask.Commands{}).Enqueue(ctx, tx, agenttask.Request{
		Node: a.Node, Owner: formerTenant{a.ID}, Type: agentwire.TypeDeprovisionUser,
		Reason: "allocation " + a.ID.String() + " has ended", IdempotencyKey: a.tasksOf() + " has ended",
		Params: agentwire.DeprovisionUserParams{AllocationID: a.ID.String(), Username: a.Username},
	})
	if fault.KindOf(err) == fault.Conflict { // the node is not in the fleet: nobody can ask its agent
		return nil
	}
	return err
}

// formerTenant owns the task that takes the account of an allocation away.
type formerTenant struct{ of id.Allocation }

// Owns implements agenttask.Owner: an allocation whose end was requested, or that failed,
// gives up what it has on its own node.
func (t formerTenant) Owns(ctx context.Context, tx pgx.Tx, on id.Node, typ string) error {
	a, err := lock(ctx, tx, t.of)
	if err == nil && (a.Node != on || a.Times.ReleaseRequested == nil && a.Status != Failed) {
		err = fault.New(fault.Internal, "allocation_not_ended", "allocation %s does not ask for %s on this node", a.ID, typ)
	}
	return err
}

// startCleanup starts the workflow that has the node cleaned.
func startCleanup(ctx context.Context, tx pgx.Tx, a Allocation) error {
	return outbox.StartWorkflow(ctx, tx, outbox.WorkflowStart{
		Type: releaseType, ID: a.releaseWorkflowID(), Queue: queue, Input: Input{ID: a.ID},
	})
}

// startAgain has the node cleaned of an allocation whose release was asked for
// before, in case the workflow that had to see to it was lost. Where a cleaning is
// under way nothing more happens.
func startAgain(ctx context.Context, tx pgx.Tx, a Allocation, reason string) error {
	if err := record(ctx, tx, "allocation.force_release", a, reason, nil); err != nil {
		return err
	}
	return startCleanup(ctx, tx, a)
}

// ForceRelease ends an allocation for an administrator, or has one cleaned again
// whose cleaning stopped.
func (s *Service) ForceRelease(ctx context.Context, of id.Allocation, reason string) (Allocation, error) {
	var now Allocation
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, n, err := hold(ctx, tx, of)
		if err != nil {
			return err
		}
		if a.Status == Failed { // its node may still wait to be cleaned
			now = a
			return startAgain(ctx, tx, a, reason)
		}
		if now, err = s.release(ctx, tx, a, Leaving{
			Cause: ByAdmin, Reason: reason, root: n.Root.Stands(),
		}); err != nil {
			return err
		}
		return publish(ctx, tx, eventwire.AllocationForced, now, endings[ByAdmin])
	})
	return now, err
}

// ForceCleanup gives up an allocation that is stuck before it was active. Whoever
// asks says that nothing of it runs: the claim ends at once, unless the node was
// let in to and must be cleaned.
func (s *Service) ForceCleanup(ctx context.Context, of id.Allocation, verifiedAbsent bool, reason string) (Allocation,
	error,
) {
	var now Allocation
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, _, err := hold(ctx, tx, of)
		if err != nil {
			return err
		}
		if !verifiedAbsent {
			return rejected(fault.Field{
				Path:    "body.runtime_verified_absent",
				Message: "must be true: look at the node first, and say that nothing of the allocation runs there",
			})
		}
		if err := record(ctx, tx, "allocation.force_cleanup", a, reason,
			map[string]any{"prior_status": a.Status}); err != nil {
			return err
		}
		if now, err = s.fail(ctx, tx, a, Failure{
			Code: codeForced, Reason: "an administrator gave it up: " + reason, Remedy: askAnother,
		}); err != nil {
			return err
		}
		return outbox.CancelWorkflow(ctx, tx, a.WorkflowID())
	})
	return now, err
}

// fail ends an allocation that never became active. Its claim ends with it only if
// nobody was let in; otherwise the node is cleaned first.
func (s *Service) fail(ctx context.Context, tx pgx.Tx, a Allocation, f Failure) (Allocation, error) {
	now, err := giveUp(ctx, tx, a, f)
	if err != nil {
		return a, err
	}
	untouched, err := s.vacate(ctx, tx, now)
	if err != nil || untouched {
		return now, err
	}
	if a.Access == RootAccess { // somebody may be in already
		if err := cutOff(ctx, tx, now); err != nil {
			return now, err
		}
	}
	return now, startCleanup(ctx, tx, now)
}

// giveUp records why an allocation failed.
func giveUp(ctx context.Context, tx pgx.Tx, a Allocation, f Failure) (Allocation, error) {
	if err := allocationdb.New(tx).SetFailure(ctx, allocationdb.SetFailureParams{
		ID: a.ID, FailureCode: f.Code, FailureReason: f.Reason, FailureRemedy: f.Remedy,
	}); err != nil {
		return a, fmt.Errorf("note failure of allocation %s: %w", a.ID, err)
	}
	return move(ctx, tx, a, Fail, "", f.Reason, map[string]any{"code": f.Code, "remedy": f.Remedy})
}

// vacate ends the claim of an allocation on a node that nobody was let in to.
func (s *Service) vacate(ctx context.Context, tx pgx.Tx, a Allocation) (untouched bool, err error) {
	n, err := node.Lock(ctx, tx, a.Node)
	if err != nil || n.Access() != node.NoAccess {
		return false, err
	}
	return true, endClaims(ctx, tx, a, "nobody was let in")
}

func endClaims(ctx context.Context, tx pgx.Tx, a Allocation, because string) error {
	if _, err := allocationdb.New(tx).EndClaims(ctx, allocationdb.EndClaimsParams{
		AllocationID: a.ID, NodeID: a.Node, EndedBecause: because,
	}); err != nil {
		return fmt.Errorf("end claim of allocation %s: %w", a.ID, err)
	}
	return nil
}

// Terms are what the tenant of an allocation may change.
type Terms struct {
	Name      *string
	Labels    map[string]string
	Protected *bool
	// ExpiresAt is the new end; Never takes it away. Nil and false: as it is.
	ExpiresAt *time.Time
	Never     bool
}

// end is when an allocation ends by its new terms. A later end is held to the rules of
// the project, counted from now; an earlier one never is.
func (t Terms) end(ctx context.Context, tx pgx.Tx, a Allocation) (*time.Time, error) {
	var left time.Duration // zero: never
	switch {
	case t.Never:
	case t.ExpiresAt == nil:
		return a.ExpiresAt, nil
	default:
		if left = time.Until(*t.ExpiresAt); left < time.Minute || left > mostLife {
			return nil, rejected(fault.Field{Path: "body.expires_at", Message: "must be 1 minute to 366 days from now"})
		}
	}
	end := t.ExpiresAt
	if t.Never {
		end = nil
	}
	if a.ExpiresAt == nil || end != nil && !end.After(*a.ExpiresAt) {
		return end, nil
	}
	rules, err := rentalsettings.InForce(ctx, tx, a.Org, a.Project)
	if err != nil {
		return nil, err
	}
	return end, rules.Lasts(left)
}

// Change changes the terms of an allocation that is live. A nil version changes it
// whatever its version is.
func (s *Service) Change(ctx context.Context, of id.Allocation, t Terms) (Allocation, error) {
	var now Allocation
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, _, err := hold(ctx, tx, of)
		if err != nil {
			return err
		}
		if !a.Status.live() || a.Times.ReleaseRequested != nil {
			return fault.New(fault.Conflict, "allocation_state_conflict", "allocation %s is %s: it has ended", a.called(),
				a.Status).
				WithRemedy("ask for another one: gpuaas allocation create --sku %s", a.SKU)
		}
		p := allocationdb.SetTermsParams{ID: a.ID, ExpiresAt: a.ExpiresAt, Protected: a.Protected, Name: a.Name}
		labels := a.Labels
		if t.Name != nil {
			p.Name = strings.TrimSpace(*t.Name)
		}
		if t.Labels != nil {
			if bad := unfit("body.labels", t.Labels); len(bad) > 0 {
				return rejected(bad...)
			}
			labels = t.Labels
		}
		if t.Protected != nil {
			p.Protected = *t.Protected
		}
		if p.ExpiresAt, err = t.end(ctx, tx, a); err != nil {
			return err
		}
		if p.Labels, err = object(labels); err != nil {
			return err
		}
		if now, err = found(allocationdb.New(tx).SetTerms(ctx, p)); err != nil {
			return err
		}
		if err := note(ctx, tx, now, "change", "its terms were changed", map[string]any{
			"expires_at": now.ExpiresAt, "protected": now.Protected, "name": now.Name,
		}); err != nil {
			return err
		}
		return record(ctx, tx, "allocation.update", now, "", map[string]any{
			"expires_at": now.ExpiresAt, "protected": now.Protected,
		})
	})
	return now, err
}

// Expire releases allocations whose time is over, and says how many. Any number of
// replicas may run it.
func (s *Service) Expire(ctx context.Context) (ended int, err error) {
	ctx = auth.With(ctx, auth.System("allocation-expiry"))
	due, err := allocationdb.New(s.db).Expired(ctx)
	if err != nil {
		return 0, fmt.Errorf("list allocations whose time is over: %w", err)
	}
	var failed []error
	for _, of := range due { // one that cannot be ended must not keep the others
		now, err := s.Release(ctx, of, Leaving{Cause: ByExpiry})
		switch {
		case err == nil && now.Status != Active:
			ended++
		case err != nil && fault.KindOf(err) != fault.Conflict:
			failed = append(failed, err)
		}
	}
	return ended, errors.Join(failed...)
}
