package allocation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
	"gpuaas/controlplane/internal/rent/reservation"
)

// spot is a node that was claimed for an allocation that is yet to be recorded.
type spot struct {
	allocation id.Allocation
	node       id.Node
	hostname   string
	rack       string
	region     string
}

// short says that a request cannot be placed: fewer nodes could be claimed.
type short struct {
	look allocationdb.TakeParams
	kept kept
}

func (*short) Error() string { return "there are not enough nodes" }

// place claims as many nodes as a request asks for. It fails with a *short where it
// cannot, and leaves it to the caller to undo the claims. Nodes that are kept for
// others are passed over.
func (s *Service) place(ctx context.Context, q *allocationdb.Queries, ask Ask, others kept) ([]spot, error) {
	look, err := s.look(ask)
	if err != nil {
		return nil, err
	}
	p := placing{q: q, look: look, want: int(ask.Count)}
	p.look.Passed, p.look.Seen = append(others.nodes(), look.Passed...), others.seen
	if err := p.fromReservations(ctx, ask, others.own); err != nil {
		return nil, err
	}
	if err := p.arrange(ctx, ask); err != nil {
		return nil, err
	}
	if len(p.got) < p.want {
		return nil, &short{look: look, kept: others}
	}
	return p.got, nil
}

// placing is the search for nodes of one request.
type placing struct {
	q    *allocationdb.Queries
	look allocationdb.TakeParams
	want int
	got  []spot
}

// fromReservations takes nodes that fit reservations of the project first, where these
// ask for more than the request does: elsewhere they would not count as use of them.
func (p *placing) fromReservations(ctx context.Context, ask Ask, own []reservation.Part) error {
	all, want := p.look, p.want
	defer func() { p.look, p.want = all, want }()
	for _, part := range own {
		unused := part.Unused()
		if unused <= 0 || !ask.narrowed(part.Selector) {
			continue
		}
		labels := maps.Clone(ask.Wish.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, part.Labels)
		narrower, err := object(labels)
		if err != nil {
			return err
		}
		p.look.Region, p.look.Labels = cmp.Or(part.Region, all.Region), narrower
		p.want = min(want, len(p.got)+unused)
		if part.Rack != "" {
			err = p.take(ctx, []string{part.Rack}, nil, p.want-len(p.got))
		} else {
			err = p.arrange(ctx, ask)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// narrowed reports whether a reservation asks for more than the request does, and for
// nothing that the request does not want.
func (a Ask) narrowed(by reservation.Selector) bool {
	w := a.Wish
	if by.Pool != w.Pool || w.Region != "" && by.Region != "" && by.Region != w.Region {
		return false
	}
	for key, value := range by.Labels {
		if wanted, asked := w.Labels[key]; asked && wanted != value {
			return false
		}
	}
	return by.Region != "" || by.Rack != "" || len(by.Labels) > 0
}

// arrange looks for nodes where the request would like them, and takes any that
// fit where there are not enough.
func (p *placing) arrange(ctx context.Context, ask Ask) error {
	if len(p.got) >= p.want {
		return nil
	}
	switch ask.Wish.Arrangement {
	case SameRack:
		racks, err := p.q.RoomyRacks(ctx, allocationdb.RoomyRacksParams{
			Sku: p.look.Sku, Region: p.look.Region, Pool: p.look.Pool, Labels: p.look.Labels,
			Capabilities: p.look.Capabilities, Least: int64(p.want),
		})
		if err != nil {
			return fmt.Errorf("look for racks: %w", err)
		}
		before := len(p.got)
		for _, rack := range racks {
			if err := p.take(ctx, []string{rack}, nil, p.want-before); err != nil || len(p.got) > before {
				break // some were locked: the others stand in the same rack at least
			}
		}
	case Pack, Spread:
		mine, err := p.q.RacksOf(ctx, ask.Project)
		if err != nil {
			return fmt.Errorf("look for racks of the project: %w", err)
		}
		if ask.Wish.Arrangement == Pack {
			if len(mine) > 0 {
				err = p.take(ctx, mine, nil, p.want-len(p.got))
			}
		} else {
			err = p.spread(ctx, mine)
		}
		if err != nil || ask.Wish.Arrangement == Spread && len(mine) == 0 && len(p.got) == 0 {
			return err // nothing was left out of that look
		}
	}
	return p.take(ctx, nil, nil, p.want-len(p.got))
}

// wide is in how many racks a project is spread well enough. Beyond it, looking for
// yet another rack would mean to look at every free node of the fleet, and find none.
const wide = 64

// spread takes one node of each rack that the project has nothing in.
func (p *placing) spread(ctx context.Context, mine []string) error {
	if len(mine) >= wide {
		return nil
	}
	if mine == nil {
		mine = []string{}
	}
	for len(p.got) < p.want {
		before := len(p.got)
		if err := p.take(ctx, nil, mine, 1); err != nil || len(p.got) == before {
			return err
		}
		if rack := p.got[before].rack; rack != "" {
			mine = append(mine, rack)
		}
	}
	return nil
}

// take claims nodes, in these racks only or in none of the others; nil: wherever
// they stand. A node that somebody claimed meanwhile is looked past: the next look
// sees it.
func (p *placing) take(ctx context.Context, racks, others []string, most int) error {
	for most > 0 {
		rows, err := p.claim(ctx, racks, others, most)
		if err != nil {
			return fmt.Errorf("claim nodes: %w", err)
		}
		lost := false
		for _, r := range rows {
			if r.Allocation == "" {
				lost = true
				continue
			}
			at := spot{hostname: r.Hostname, rack: r.Rack, region: r.RegionCode}
			var ofClaim, ofNode error
			at.allocation, ofClaim = id.Parse[id.Allocation](r.Allocation)
			at.node, ofNode = id.Parse[id.Node](r.ID)
			if err := errors.Join(ofClaim, ofNode); err != nil {
				return fmt.Errorf("read claim: %w", err)
			}
			p.got = append(p.got, at)
			most--
		}
		if !lost {
			return nil
		}
	}
	return nil
}

// claim claims nodes once, by the quicker statement where it asks for all that is
// wanted.
func (p *placing) claim(ctx context.Context, racks, others []string, most int) ([]allocationdb.TakeRow, error) {
	look := p.look
	look.Racks, look.OtherRacks, look.Allocations = racks, others, make([]string, most)
	for i := range look.Allocations {
		look.Allocations[i] = id.New[id.Allocation]().String()
	}
	if most > 1 || racks != nil || look.Seen != nil || look.Region != "" || look.Root || look.Node != nil ||
		string(look.Labels) != anything || string(look.Capabilities) != anything {
		return p.q.Take(ctx, look)
	}
	if others == nil {
		others = []string{}
	}
	rows, err := p.q.TakeOne(ctx, allocationdb.TakeOneParams{
		Sku: look.Sku, Pool: look.Pool, HeardSince: look.HeardSince, Passed: look.Passed, OtherRacks: others,
		Allocation: look.Allocations[0],
	})
	out := make([]allocationdb.TakeRow, len(rows))
	for i, r := range rows {
		out[i] = allocationdb.TakeRow(r)
	}
	return out, err
}

// anything is the selector that every node fits.
const anything = "{}"

// look is the search that a request leads to. A tenant with root gets only a node
// that MAAS can reinstall.
func (s *Service) look(ask Ask) (allocationdb.TakeParams, error) {
	w := ask.Wish
	p := allocationdb.TakeParams{
		Sku: ask.SKU, Region: w.Region, Pool: w.Pool, HeardSince: time.Now().Add(-s.heard), Node: textOf(w.Node),
		Passed: []string{}, Root: ask.Access == RootAccess,
	}
	for _, n := range w.Passed {
		p.Passed = append(p.Passed, n.String())
	}
	var err error
	if p.Labels, err = object(w.Labels); err == nil {
		p.Capabilities, err = object(w.Capabilities)
	}
	return p, err
}

func object(of map[string]string) (json.RawMessage, error) {
	if len(of) == 0 {
		return json.RawMessage(anything), nil
	}
	raw, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("encode selector: %w", err)
	}
	return raw, nil
}

// census counts the nodes of a SKU by why they cannot be let.
func census(ctx context.Context, q *allocationdb.Queries, of allocationdb.TakeParams, others kept) (Capacity,
	error,
) {
	rows, err := q.Census(ctx, allocationdb.CensusParams{
		Sku: of.Sku, Region: of.Region, Pool: of.Pool, Labels: of.Labels, Capabilities: of.Capabilities,
		HeardSince: of.HeardSince, Root: of.Root, Kept: others.waiting, Reserved: others.reserved,
	})
	if err != nil {
		return Capacity{}, fmt.Errorf("count nodes: %w", err)
	}
	counted := map[Reason]int32{}
	for _, r := range rows {
		counted[Reason(r.Reason)] = r.Nodes
	}
	return capacity(of.Sku, counted), nil
}

// Explain says what a request could have now, without asking for it.
func (s *Service) Explain(ctx context.Context, ask Ask) (Capacity, error) {
	ask, err := ask.checked()
	if err == nil {
		err = ask.askable(ctx)
	}
	if err != nil {
		return Capacity{}, err
	}
	var c Capacity
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := allocationdb.New(tx)
		org, err := orgOf(ctx, q, ask.Project)
		if err != nil {
			return err
		}
		of, err := offered(ctx, tx, ask)
		if err != nil {
			return err
		}
		if ask, err = allowed(ctx, tx, org, ask); err != nil {
			return err
		}
		if c, err = s.capacity(ctx, tx, org, ask, id.AllocationRequest{}); err != nil || s.pricing == nil {
			return err
		}
		price, err := s.pricing.Quote(ctx, tx, Priced{
			Org: org, Project: ask.Project, SKU: of.ID, GPUs: of.GPUsTotal, Lasts: ask.ExpiresIn, Machines: ask.Count,
		})
		if err != nil {
			return err
		}
		if why, is := fault.As(ask.affords(price)); is && price.Refused == nil {
			price.Refused = &Refusal{Code: why.Code, Message: why.Message, Remedy: why.Remedy}
		}
		// What is missing says what there is, which whoever only looks must not read.
		on := auth.Target{Org: org, Project: ask.Project}
		if price.Refused != nil && auth.From(ctx).Decide(auth.AllocationUse, on) != auth.Allowed {
			told := *price.Refused
			told.Message = "it could not be paid for now"
			price.Refused = &told
		}
		for range ask.Count {
			c.Cost = c.Cost.with(price, ask.ExpiresIn)
		}
		return nil
	})
	return c.seenBy(ctx), err
}

// capacity says what a request could have at this moment, and why not more.
func (s *Service) capacity(ctx context.Context, db allocationdb.DBTX, org id.Org, ask Ask, of id.AllocationRequest) (
	Capacity, error,
) {
	look, err := s.look(ask)
	if err != nil {
		return Capacity{}, err
	}
	others, err := s.keep(ctx, db, org, ask, of)
	if err != nil {
		return Capacity{}, err
	}
	return census(ctx, allocationdb.New(db), look, others)
}
