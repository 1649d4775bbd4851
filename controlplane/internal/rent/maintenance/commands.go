package maintenance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance/internal/maintenancedb"
)

// mostAtOnce is how many allocations one announcement reaches.
const mostAtOnce = 1000

// LeftOut is a node that nothing was announced for, and why.
type LeftOut struct {
	Node     id.Node
	Hostname string
	Reason   string
}

// Announce tells the tenants of nodes of a maintenance, one transaction for all of
// them. Nodes without a tenant, and tenants who were told of another one, are left
// out; where nobody is left, it is refused.
func (s *Service) Announce(ctx context.Context, p Plan) (made []Maintenance, left []LeftOut, err error) {
	if p, err = p.checked(time.Now()); err != nil {
		return nil, nil, err
	}
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		made, left = nil, nil
		tenants, err := tenantsOf(ctx, tx, p)
		if err != nil {
			return err
		}
		if left, err = vacant(ctx, tx, p.Nodes, tenants); err != nil {
			return err
		}
		together := id.New[id.Announcement]()
		for _, t := range tenants {
			m, why, err := announce(ctx, tx, p, t, together)
			if err != nil {
				return err
			}
			if why != "" {
				left = append(left, LeftOut{Node: t.NodeID, Hostname: t.Hostname, Reason: why})
				continue
			}
			made = append(made, m)
		}
		if len(made) == 0 {
			return nobody(left)
		}
		return nil
	})
	return made, left, err
}

// tenantsOf finds the allocations that an announcement is for, in the order in which
// nodes are locked.
func tenantsOf(ctx context.Context, tx pgx.Tx, p Plan) ([]maintenancedb.TenantsRow, error) {
	labels, err := json.Marshal(p.Where.Labels)
	if err != nil {
		return nil, fmt.Errorf("encode labels: %w", err)
	}
	if p.Where.Labels == nil {
		labels = []byte("{}")
	}
	found, err := maintenancedb.New(tx).Tenants(ctx, maintenancedb.TenantsParams{
		Nodes: texts(p.Nodes), Region: p.Where.Region, Rack: p.Where.Rack, Pool: p.Where.Pool, Sku: p.Where.SKU,
		Labels: labels, Most: mostAtOnce + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("look for tenants of nodes: %w", err)
	}
	if len(found) > mostAtOnce {
		return nil, fault.New(fault.Invalid, "too_many_nodes", "more than %d rented nodes are meant", mostAtOnce).
			WithRemedy("announce it rack by rack")
	}
	return found, nil
}

func texts(of []id.Node) []string {
	out := make([]string, len(of))
	for i, n := range of {
		out[i] = n.String()
	}
	return out
}

// vacant are the named nodes that no tenant has.
func vacant(ctx context.Context, tx pgx.Tx, named []id.Node, tenants []maintenancedb.TenantsRow) ([]LeftOut, error) {
	if len(named) == 0 {
		return nil, nil
	}
	rented := map[id.Node]bool{}
	for _, t := range tenants {
		rented[t.NodeID] = true
	}
	nodes, err := maintenancedb.New(tx).Nodes(ctx, texts(named))
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	known, out := map[id.Node]bool{}, []LeftOut{}
	for _, n := range nodes {
		known[n.ID] = true
		if !rented[n.ID] {
			out = append(out, LeftOut{Node: n.ID, Hostname: n.Hostname, Reason: "no tenant has it"})
		}
	}
	for _, n := range named {
		if !known[n] {
			return nil, fault.New(fault.NotFound, "node_not_found", "there is no node %s", n).
				WithRemedy("see which there are: gpuaas node list")
		}
	}
	return out, nil
}

// announce tells one tenant, or says why not.
func announce(ctx context.Context, tx pgx.Tx, p Plan, t maintenancedb.TenantsRow, together id.Announcement) (
	m Maintenance, why string, err error,
) {
	a, err := allocation.Hold(ctx, tx, t.ID)
	if err != nil {
		return m, "", err
	}
	if !a.HasNode() {
		return m, "its tenant is leaving", nil
	}
	who := auth.From(ctx)
	row, err := maintenancedb.New(tx).Insert(ctx, maintenancedb.InsertParams{
		ID: id.New[id.Maintenance](), AnnouncementID: together, AllocationID: a.ID, NodeID: a.Node, Hostname: a.Hostname,
		OrgID: a.Org, ProjectID: a.Project, Kind: string(p.Kind), ConsentAsked: p.ConsentAsked, NotBefore: p.NotBefore,
		DueAt: p.DueAt, Reason: p.Reason, AnnouncedBy: who.ID, AnnouncedByName: who.Name,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return m, "its tenant was told of another maintenance, which has not ended", nil
	}
	if err != nil {
		return m, "", fmt.Errorf("record maintenance: %w", err)
	}
	m = from(row)
	if err := record(ctx, tx, "announce", m, p.Reason); err != nil {
		return m, "", err
	}
	return m, "", tell(ctx, tx, told[Announced], m, a, "maintenance is announced: "+m.told())
}

func nobody(left []LeftOut) error {
	message := "none of the nodes has a tenant"
	if len(left) > 0 {
		message = fmt.Sprintf("nobody is left to tell: %s: %s", left[0].Hostname, left[0].Reason)
	}
	return fault.New(fault.Conflict, "nobody_to_tell", "%s", message).
		WithRemedy("operate on a node without a tenant directly; see what was announced: gpuaas maintenance list")
}

// change changes a maintenance under all its locks. One whose tenant does not have the
// node any more is settled first, and stays so where the change is refused then.
func (s *Service) change(ctx context.Context, of id.Maintenance,
	do func(context.Context, pgx.Tx, Maintenance, allocation.Allocation) (Maintenance, error),
) (now Maintenance, err error) {
	var refused error
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		refused = nil
		m, a, err := hold(ctx, tx, of)
		if err != nil {
			return err
		}
		left := m.waits() && (!a.HasNode() || a.Node != m.Node)
		if left {
			if m, err = s.left(auth.With(ctx, auth.System("maintenance")), tx, m, a); err != nil {
				return err
			}
		}
		now, err = do(ctx, tx, m, a)
		if left && fault.KindOf(err) == fault.Conflict { // refused before it wrote anything
			refused, err = err, nil
		}
		return err
	})
	if err == nil {
		err = refused
	}
	return now, err
}

// left settles a maintenance whose tenant does not have the node any more.
func (s *Service) left(ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation) (Maintenance, error) {
	switch {
	case a.Node != m.Node:
		return move(ctx, tx, m, a, Cancel, "the allocation was placed on another node")
	case m.Kind.stays():
		return move(ctx, tx, m, a, Cancel, "the allocation has ended before")
	}
	return move(ctx, tx, m, a, Vacate, "the allocation has ended; the node is kept for the maintenance")
}

// Begin begins a maintenance that the tenant keeps the node through, if its time has
// come and the tenant agreed where that was asked for. The allocation is being
// repaired until it is finished.
func (s *Service) Begin(ctx context.Context, of id.Maintenance) (Maintenance, error) {
	return s.change(ctx, of, func(ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation) (
		Maintenance, error,
	) {
		switch {
		case m.Status == UnderWay:
			return m, nil
		case !m.Kind.stays():
			return m, fault.New(fault.Conflict, "maintenance_ends_allocation",
				"the maintenance of %s ends the allocation: there is nothing to begin while its tenant has the node", m.Hostname).
				WithRemedy("it ends at %s; or begin the operation: gpuaas decommission start %s --under-maintenance",
					stamp(m.DueAt), m.Hostname)
		case m.ended() || m.Status == Declined: // the table refuses it
		default:
			open, err := maintenancedb.New(tx).MayBegin(ctx, m.ID.String())
			if err != nil {
				return m, fmt.Errorf("look whether maintenance %s may begin: %w", m.ID, err)
			}
			if !open {
				return m, m.notNow()
			}
		}
		after, err := move(ctx, tx, m, a, Begin, "maintenance has begun: "+m.Reason)
		if err != nil {
			return m, err
		}
		if err := s.allocations.BeginRepairIn(ctx, tx, a, m.ID, m.Reason); err != nil {
			return m, err
		}
		return after, record(ctx, tx, "begin", after, "")
	})
}

// Finish ends a maintenance that is under way, and with it the repair. A node that was
// kept for it may go to others.
func (s *Service) Finish(ctx context.Context, of id.Maintenance, outcome string) (Maintenance, error) {
	return s.change(ctx, of, func(ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation) (
		Maintenance, error,
	) {
		if m.Status == Done {
			return m, nil
		}
		if m.Status != UnderWay {
			return m, fault.New(fault.Conflict, "maintenance_state_conflict", "the maintenance of %s is %s: it has not begun",
				m.Hostname, m.Status).WithRemedy("begin it first, or cancel it: gpuaas maintenance cancel %s", m.ID)
		}
		after, err := move(ctx, tx, m, a, Finish, "maintenance is done: "+outcome)
		if err != nil {
			return m, err
		}
		if err := s.allocations.EndRepairIn(ctx, tx, a, outcome); err != nil &&
			fault.CodeOf(err) != "allocation_not_repairing" {
			return m, err
		}
		if _, err := node.LetBack(ctx, tx, m.Node, node.ForMaintenance, m.ID.String(), "maintenance is done"); err != nil {
			return m, err
		}
		return after, record(ctx, tx, "finish", after, outcome)
	})
}

// Cancel takes a maintenance back that has not begun. One that was taken back stays so.
func (s *Service) Cancel(ctx context.Context, of id.Maintenance, reason string) (Maintenance, error) {
	return s.change(ctx, of, func(ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation) (
		Maintenance, error,
	) {
		if m.Status == Cancelled {
			return m, nil
		}
		after, err := move(ctx, tx, m, a, Cancel, "announced maintenance was taken back: "+reason)
		if err != nil {
			return m, err
		}
		return after, record(ctx, tx, "cancel", after, reason)
	})
}
