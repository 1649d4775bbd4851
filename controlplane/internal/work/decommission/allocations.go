package decommission

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
)

// Tenancy is what a tenant has on a node.
type Tenancy struct {
	ID      id.Allocation
	Org     id.Org
	Project id.Project
	Name    string          // what its people call it; may be empty
	Status  string          // of the allocation
	Live    bool            // the tenant still works on it: requested, provisioning, active
	Cleanup id.Decommission // the operation that cleans up after it; zero: none
	Since   time.Time
	// Maintenance is what was announced to the tenant; nil: nothing is.
	Maintenance *Maintenance
}

// Maintenance is what operators announced to the tenant of a node.
type Maintenance struct {
	ID           id.Maintenance
	Kind, Status string
	EndsIt       bool // the tenant was told that the allocation ends
	MayBegin     bool // by what was announced, and by the tenant's answer, it may be carried out now
	ConsentAsked bool
	DueAt        time.Time
}

// permits says whether an operation that ends what the tenant has may begin.
func (m *Maintenance) permits() bool { return m != nil && m.EndsIt && m.MayBegin }

// lacks says in words what is missing before it permits that.
func (m *Maintenance) lacks() string {
	switch {
	case m == nil:
		return "no maintenance is announced to its tenant"
	case !m.EndsIt:
		return fmt.Sprintf("its tenant was told of a %s, not of the end of the allocation", m.Kind)
	case m.Status == "declined":
		return "its tenant has declined it"
	case m.Status == "announced" && m.ConsentAsked:
		return "its tenant has not agreed to it yet"
	}
	return "its tenant was told that the allocation ends at " + m.DueAt.UTC().Format(time.RFC3339)
}

// Allocations knows what tenants have on nodes. An operation calls what changes
// something only on a node that a tenancy has claimed, in the transaction that
// changes the operation, and may call it again for what was said before.
type Allocations interface {
	// Of is the tenancy whose claim the node has; nil: none. A claim outlives the
	// work of the tenant: it ends when the node was proven clean or has left the
	// fleet. db is the pool or a transaction.
	Of(ctx context.Context, db postgres.Querier, of id.Node) (*Tenancy, error)
	// End ends what a tenant has on the node, because an operation was told to; the
	// operation is its cleanup from now on. A tenancy that has ended already only
	// gets that cleanup.
	End(ctx context.Context, tx pgx.Tx, of id.Node, by id.Decommission, reason string) error
	// Cleaned: the operation proved the node clean, or the node left the fleet: the
	// claim ends.
	Cleaned(ctx context.Context, tx pgx.Tx, of id.Node, by id.Decommission, proof string) error
	// Parked: the operation waits for somebody, or has ended without proof that the
	// node is clean.
	Parked(ctx context.Context, tx pgx.Tx, of id.Node, by id.Decommission, why string) error
	// Resumed: the operation goes on.
	Resumed(ctx context.Context, tx pgx.Tx, of id.Node, by id.Decommission) error
}

// vacancy implements Allocations where nothing allocates nodes.
type vacancy struct{}

func (vacancy) Of(context.Context, postgres.Querier, id.Node) (*Tenancy, error) {
	return nil, nil //nolint:nilnil // nobody has the node
}

func (vacancy) End(context.Context, pgx.Tx, id.Node, id.Decommission, string) error { return nil }

func (vacancy) Cleaned(context.Context, pgx.Tx, id.Node, id.Decommission, string) error { return nil }

func (vacancy) Parked(context.Context, pgx.Tx, id.Node, id.Decommission, string) error { return nil }

func (vacancy) Resumed(context.Context, pgx.Tx, id.Node, id.Decommission) error { return nil }

// String is what people read about a tenancy.
func (t Tenancy) String() string {
	return fmt.Sprintf("allocation %s of project %s, %s since %s", or(t.Name, t.ID.String()), t.Project, t.Status,
		t.Since.UTC().Format(time.RFC3339))
}

// Tenant says in words which tenant works on a node; empty: none.
func (s *Service) Tenant(ctx context.Context, of id.Node) (string, error) {
	t, err := s.allocations.Of(ctx, s.db, of)
	if err != nil || t == nil || !t.Live {
		return "", err
	}
	return t.String(), nil
}

// standsAgainst says whether a tenant works on the node, and neither the request
// is told to end that nor it is what the allocation itself asks for.
func (t *Tenancy) standsAgainst(r Request) bool {
	return t != nil && t.Live && !r.EndAllocation && r.CleanupOf != t.ID &&
		(!r.UnderMaintenance || !t.Maintenance.permits())
}

// rented is why a request may not have a node for what tenants have on it; nil:
// it may.
func (s situation) rented(r Request) error {
	t := s.tenancy
	if !r.CleanupOf.IsZero() && (t == nil || t.ID != r.CleanupOf) {
		return fault.New(fault.Conflict, "allocation_not_on_node",
			"allocation %s has no claim on node %s any more: there is nothing to clean up after it", r.CleanupOf,
			s.node.Hostname).WithRemedy("look at the node: gpuaas node show %s", s.node.Hostname)
	}
	if !t.standsAgainst(r) {
		return nil
	}
	if r.UnderMaintenance {
		return fault.New(fault.Conflict, "maintenance_not_open",
			"a tenant works on node %s, and announced maintenance does not permit this now: %s", s.node.Hostname,
			t.Maintenance.lacks()).
			WithRemedy("announce it or wait: gpuaas maintenance announce %s --kind release --by TIME; "+
				"gpuaas maintenance list shows what tenants answered", s.node.Hostname)
	}
	return fault.New(fault.Conflict, "node_allocated", "a tenant works on node %s: %s", s.node.Hostname, t).
		WithRemedy("announce maintenance to the tenant (gpuaas maintenance announce %s --kind release --by TIME) and "+
			"ask again with under_maintenance (--under-maintenance); or ask with end_allocation (--end-allocation), which ends "+
			"the tenant's work at once", s.node.Hostname)
}

// endsWork says whose work a request ends; nothing: nobody's.
func (s situation) endsWork(r Request) []string {
	t := s.tenancy
	if t == nil || !t.Live || t.standsAgainst(r) {
		return nil
	}
	return []string{fmt.Sprintf("DESTROYS the work of a tenant: it ends the %s; its people lose access to the node", *t)}
}

// takeOver makes a new operation the cleanup of what a tenant had on the node.
func (s *Service) takeOver(ctx context.Context, tx pgx.Tx, t *Tenancy, d Decommission) error {
	if t == nil || t.Cleanup == d.ID {
		return nil
	}
	return s.allocations.End(ctx, tx, d.Node, d.ID, d.Reason)
}

// follow tells the allocation that an operation cleans up after how the
// operation stands.
func (s *Service) follow(ctx context.Context, tx pgx.Tx, d Decommission, a job.Announcement) error {
	goesOn := a.Kind == job.AnnounceStage && d.Phase == job.Working &&
		(a.Event.Status == job.OperatorAction || a.Event.Status == job.StageCompensated)
	if !goesOn && (a.Kind == job.AnnounceStage || a.Kind == job.AnnounceStarted) {
		return nil
	}
	t, err := s.allocations.Of(ctx, tx, d.Node)
	if err != nil || t == nil || t.Cleanup != d.ID {
		return err
	}
	switch a.Kind {
	case job.AnnounceStage:
		return s.allocations.Resumed(ctx, tx, d.Node, d.ID)
	case job.AnnounceFailed, job.AnnounceManual:
		return s.allocations.Parked(ctx, tx, d.Node, d.ID, or(d.ErrorMessage, a.Event.Message))
	case job.AnnounceCancelled:
		return s.allocations.Parked(ctx, tx, d.Node, d.ID, fmt.Sprintf("the %s that cleaned up was cancelled: %s", d.Mode,
			or(a.Event.Message, "nobody said why")))
	case job.AnnounceCompleted:
		return s.cleanedUp(ctx, tx, d)
	case job.AnnounceStarted:
	}
	return nil
}

// cleanedUp ends the claim on a node that the operation proved clean.
func (s *Service) cleanedUp(ctx context.Context, tx pgx.Tx, d Decommission) error {
	n, err := node.Get(ctx, tx, d.Node)
	switch {
	case err != nil:
		return err
	case n.Status == node.Deleted:
		return s.departed(ctx, tx, d)
	case n.Access() != node.NoAccess:
		return s.allocations.Parked(ctx, tx, d.Node, d.ID, fmt.Sprintf(
			"the %s has ended, and node %s is not proven clean: a soft reset, a reimage or a reactivation proves it", d.Mode,
			d.Hostname))
	}
	return s.allocations.Cleaned(ctx, tx, d.Node, d.ID, fmt.Sprintf("%s proved it clean", d.cause()))
}

// departed ends the claim on a node that has left the fleet.
func (s *Service) departed(ctx context.Context, tx pgx.Tx, d Decommission) error {
	t, err := s.allocations.Of(ctx, tx, d.Node)
	if err != nil || t == nil {
		return err
	}
	return s.allocations.Cleaned(ctx, tx, d.Node, d.ID, fmt.Sprintf("the node left the fleet: %s", d.cause()))
}
