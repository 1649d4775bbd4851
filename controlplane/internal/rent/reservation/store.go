package reservation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/reservation/internal/reservationdb"
)

func from(r reservationdb.Reservation) (Reservation, error) {
	out := Reservation{
		ID: r.ID, CreatedAt: r.CreatedAt, By: r.CreatedBy, ByName: r.CreatedByName, CancelledAt: r.CancelledAt,
		CancelledBy: r.CancelledBy, CancelReason: r.CancelReason,
		Wish: Wish{
			Owner: Owner{Org: r.OrgID, Project: r.ProjectID}, SKU: r.SkuID, Nodes: r.Nodes, StartsAt: r.StartsAt,
			EndsAt: r.EndsAt, Reason: r.Reason, Force: r.Forced,
			Selector: Selector{Region: r.RegionCode, Rack: r.Rack, Pool: r.Pool},
		},
	}
	switch now := time.Now(); {
	case r.CancelledAt != nil:
		out.State = Cancelled
	case !r.EndsAt.After(now):
		out.State = Ended
	case r.StartsAt.After(now):
		out.State = Upcoming
	default:
		out.State = Active
	}
	if err := json.Unmarshal(r.Labels, &out.Labels); err != nil {
		return out, fmt.Errorf("decode labels of reservation %s: %w", r.ID, err)
	}
	return out, nil
}

func found(r reservationdb.Reservation, err error) (Reservation, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Reservation{}, notFound()
	}
	if err != nil {
		return Reservation{}, fmt.Errorf("read reservation: %w", err)
	}
	return from(r)
}

// Asker is what somebody looks for who asks for nodes. Nodes that are of no use to it
// are kept for others first, and for its own reservations those that are.
type Asker struct {
	Org                  id.Org // zero: nobody asks
	Project              id.Project
	SKU, Region, Pool    string
	Labels, Capabilities json.RawMessage
	HeardSince           time.Time // nodes that were not heard of since are not free
}

// Part is what a reservation has of the nodes of its SKU.
type Part struct {
	ID id.Reservation
	Owner
	Selector
	Nodes int32
	Used  []string // nodes that its owner rents
	Held  []string // free nodes that are kept for it

	startsAt time.Time
}

// Unused is how many nodes its owner may still have of it.
func (p Part) Unused() int { return int(p.Nodes) - len(p.Used) }

// Dealt is how the nodes of a SKU are dealt to the reservations that run, those that
// began earlier first.
type Dealt []Part

// KeptFrom are the nodes that a project must leave to others: free ones, and those that
// the others rent, which may become free before the project has chosen.
func (d Dealt) KeptFrom(org id.Org, project id.Project) []string {
	out := []string{}
	for _, p := range d {
		if !p.covers(org, project) {
			out = append(append(out, p.Held...), p.Used...)
		}
	}
	return out
}

// Of are the parts that a project may use.
func (d Dealt) Of(org id.Org, project id.Project) []Part {
	var out []Part
	for _, p := range d {
		if p.covers(org, project) {
			out = append(out, p)
		}
	}
	return out
}

// Read deals the nodes of a SKU to its reservations. It is right for as long as nobody
// places or ends anything: whoever acts on it holds the lock of the SKU.
func Read(ctx context.Context, db reservationdb.DBTX, a Asker) (Dealt, error) {
	rows, err := reservationdb.New(db).Running(ctx, reservationdb.RunningParams{
		Sku: a.SKU, Region: a.Region, Pool: a.Pool, Labels: a.Labels, Capabilities: a.Capabilities, HeardSince: a.HeardSince,
		Org: textOf(a.Org), Project: textOf(a.Project),
	})
	if err != nil {
		return nil, fmt.Errorf("read reservations of %s: %w", a.SKU, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	var parts Dealt
	known := map[id.Reservation]bool{}
	for _, r := range rows {
		if known[r.ID] {
			continue
		}
		known[r.ID] = true
		p := Part{
			ID: r.ID, Owner: Owner{Org: r.OrgID, Project: r.ProjectID}, Nodes: r.Nodes, startsAt: r.StartsAt,
			Selector: Selector{Region: r.RegionCode, Rack: r.Rack, Pool: r.Pool},
		}
		if err := json.Unmarshal(r.Labels, &p.Labels); err != nil {
			return nil, fmt.Errorf("decode labels of reservation %s: %w", r.ID, err)
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b Part) int {
		if c := a.startsAt.Compare(b.startsAt); c != 0 {
			return c
		}
		return slices.Compare(a.ID[:], b.ID[:])
	})
	return parts.dealt(rows, a), nil
}

// dealt gives the nodes of the rows to the parts.
func (d Dealt) dealt(rows []reservationdb.RunningRow, a Asker) Dealt {
	at := map[id.Reservation]int{}
	needs, own := make([]int, len(d)), make([]bool, len(d))
	for i, p := range d {
		at[p.ID], needs[i], own[i] = i, int(p.Nodes), p.covers(a.Org, a.Project)
	}
	var p pairs
	uses := map[int]use{}
	for _, r := range rows {
		if r.Node != "" {
			uses[p.add(r.Node, at[r.ID])] = use{rented: r.Rented, useful: r.Useful}
		}
	}
	given := deal(needs, p.fits)
	trade(given, p.fits, own, uses)
	for i, nodes := range given {
		for _, n := range nodes {
			if uses[n].rented {
				d[i].Used = append(d[i].Used, p.nodes[n])
			} else {
				d[i].Held = append(d[i].Held, p.nodes[n])
			}
		}
	}
	return d
}

// Owners are those who have reservations of a SKU that run.
type Owners []Owner

// Cover reports whether a project may use one of their reservations.
func (o Owners) Cover(org id.Org, project id.Project) bool {
	return slices.ContainsFunc(o, func(x Owner) bool { return x.covers(org, project) })
}

// OwnersOf reads who has reservations of a SKU that run.
func OwnersOf(ctx context.Context, db reservationdb.DBTX, sku string) (Owners, error) {
	rows, err := reservationdb.New(db).Owners(ctx, sku)
	if err != nil {
		return nil, fmt.Errorf("read owners of reservations of %s: %w", sku, err)
	}
	out := make(Owners, len(rows))
	for i, r := range rows {
		out[i] = Owner{Org: r.OrgID, Project: r.ProjectID}
	}
	return out, nil
}

// Selection chooses reservations; zero fields choose all that the caller may see.
type Selection struct {
	Org     id.Org
	Project id.Project // those that the project may use
	SKU     string
	States  []State
}

// List gives the reservations that the caller may see, newest first.
func (s *Service) List(ctx context.Context, of Selection, page postgres.Slice[id.Reservation]) ([]Reservation, error) {
	p := reservationdb.ListParams{
		Org: textOf(of.Org), Project: textOf(of.Project), Sku: of.SKU, States: []string{}, Before: textOf(page.After),
		PageSize: page.Limit, Everything: auth.From(ctx).SeesAll(auth.ReservationRead),
		Orgs: []string{}, Projects: []string{}, OrgsOfProjects: []string{},
	}
	for _, state := range of.States {
		p.States = append(p.States, string(state))
	}
	for org := range auth.From(ctx).Tenants {
		p.Orgs = append(p.Orgs, org.String())
	}
	for project, role := range auth.From(ctx).Projects {
		p.Projects, p.OrgsOfProjects = append(p.Projects, project.String()), append(p.OrgsOfProjects, role.Org.String())
	}
	rows, err := reservationdb.New(s.db).List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list reservations: %w", err)
	}
	out := make([]Reservation, len(rows))
	for i, row := range rows {
		if out[i], err = from(row); err != nil {
			return nil, err
		}
	}
	return out, errors.Join(s.measure(ctx, out), s.price(ctx, out))
}

// Get reads a reservation that the caller may see.
func (s *Service) Get(ctx context.Context, of id.Reservation) (Reservation, error) {
	r, err := found(reservationdb.New(s.db).Get(ctx, of))
	if err != nil {
		return r, err
	}
	// Every project of the tenant may use what is kept for the tenant, and so may its members know of it.
	if auth.From(ctx).Decide(auth.ReservationRead, auth.Target{Org: r.Org, Project: r.Project}) != auth.Allowed {
		return Reservation{}, notFound()
	}
	one := []Reservation{r}
	err = errors.Join(s.measure(ctx, one), s.price(ctx, one))
	return one[0], err
}

// price says of each reservation what it costs.
func (s *Service) price(ctx context.Context, all []Reservation) error {
	if s.charging == nil {
		return nil
	}
	ids := make([]id.Reservation, len(all))
	for i, r := range all {
		ids[i] = r.ID
	}
	costs, err := s.charging.Costs(ctx, ids)
	if err != nil {
		return err
	}
	for i := range all {
		if c, charged := costs[all[i].ID]; charged {
			all[i].Cost = &c
		}
	}
	return nil
}

// Kept says how many free nodes are kept now for each reservation of a SKU that runs.
func (s *Service) Kept(ctx context.Context, sku string) (map[id.Reservation]int64, error) {
	parts, err := s.dealt(ctx, sku)
	if err != nil {
		return nil, err
	}
	out := make(map[id.Reservation]int64, len(parts))
	for _, p := range parts {
		out[p.ID] = int64(len(p.Held))
	}
	return out, nil
}

// dealt is how the nodes of a SKU are dealt now, whoever asks.
func (s *Service) dealt(ctx context.Context, sku string) (Dealt, error) {
	return Read(ctx, s.db, Asker{
		SKU: sku, Labels: json.RawMessage("{}"), Capabilities: json.RawMessage("{}"), HeardSince: time.Now().Add(-s.heard),
	})
}

// measure says of each reservation how it is used now.
func (s *Service) measure(ctx context.Context, all []Reservation) error {
	dealt := map[string]Dealt{}
	for i := range all {
		r := &all[i]
		if r.State != Active {
			continue
		}
		parts, known := dealt[r.SKU]
		if !known {
			var err error
			if parts, err = s.dealt(ctx, r.SKU); err != nil {
				return err
			}
			dealt[r.SKU] = parts
		}
		for _, p := range parts {
			if p.ID == r.ID {
				r.Usage = Usage{Used: int32(len(p.Used)), Held: int32(len(p.Held))} //nolint:gosec // at most mostNodes
			}
		}
	}
	return nil
}

func textOf[noun any](of id.Of[noun]) *string {
	if of.IsZero() {
		return nil
	}
	return new(of.String())
}
