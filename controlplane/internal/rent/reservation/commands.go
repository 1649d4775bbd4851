package reservation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/rent/reservation/internal/reservationdb"
)

// Charging agrees on what the owner of a reservation pays for nodes that it does not use.
type Charging interface {
	// Offer refuses what cannot be charged, or could not be paid. It says from when on the
	// reservation can begin: until the transaction ends, nobody charges a later time.
	Offer(ctx context.Context, tx pgx.Tx, w Wish, gpus int32) (from time.Time, err error)
	// Freeze agrees on what was offered, in the transaction that makes the reservation.
	Freeze(ctx context.Context, tx pgx.Tx, r Reservation, gpus int32) error
	// Costs are those of reservations that are charged.
	Costs(ctx context.Context, of []id.Reservation) (map[id.Reservation]Cost, error)
}

// Service holds the commands and queries of the package.
type Service struct {
	db       *postgres.DB
	heard    time.Duration
	charging Charging
}

// New makes the service. A node that was not heard of within that time is not free.
// Without charging nothing can be charged. It connects to nothing.
func New(db *postgres.DB, heardWithin time.Duration, charging Charging) *Service {
	return &Service{db: db, heard: heardWithin, charging: charging}
}

// mayCharge refuses to have something charged for people who may not take money of
// tenants. Those who may reserve give away what nobody uses, and no more.
func (s *Service) mayCharge(ctx context.Context) error {
	if s.charging != nil && auth.From(ctx).Decide(auth.BillingManage, auth.Target{}) == auth.Allowed {
		return nil
	}
	return fault.New(fault.Forbidden, "insufficient_permissions",
		"you may reserve nodes for a tenant, and not have them charged to it").
		WithRemedy("leave charge out: it is then free of charge; or have somebody with billing:manage reserve them")
}

// Create keeps capacity for a tenant or a project. It refuses more than the fleet has
// at any time of the window, unless it is forced.
func (s *Service) Create(ctx context.Context, w Wish) (Reservation, error) {
	var made Reservation
	if w.Charge {
		if err := s.mayCharge(ctx); err != nil {
			return made, err
		}
	}
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := reservationdb.New(tx)
		known, err := q.OwnerExists(ctx, reservationdb.OwnerExistsParams{OrgID: w.Org, ProjectID: textOf(w.Project)})
		if err != nil {
			return fmt.Errorf("look for the owner: %w", err)
		}
		if !known {
			return noOwner()
		}
		of, err := sku.Get(ctx, tx, w.SKU)
		if err != nil {
			return err
		}
		if w, err = w.checked(time.Now()); err != nil {
			return err
		}
		if w.Charge { // what is paid from is locked before the SKU, as by those who rent
			from, err := s.charging.Offer(ctx, tx, w, of.GPUsTotal)
			if err != nil {
				return err
			}
			if w, err = w.checked(from); err != nil {
				return err
			}
		}
		if err := q.LockSKU(ctx, w.SKU); err != nil {
			return fmt.Errorf("lock placement of %s: %w", w.SKU, err)
		}
		if made, err = insert(ctx, q, w); err != nil {
			return err
		}
		made.Charge = w.Charge
		if !w.Force {
			if err := affordable(ctx, q, made); err != nil {
				return err
			}
		}
		if w.Charge {
			if err := s.charging.Freeze(ctx, tx, made, of.GPUsTotal); err != nil {
				return err
			}
		}
		return tell(ctx, tx, "reservation.create", eventwire.ReservationCreated, made, w.Reason)
	})
	if err != nil {
		return Reservation{}, err
	}
	return s.Get(ctx, made.ID)
}

func insert(ctx context.Context, q *reservationdb.Queries, w Wish) (Reservation, error) {
	labels, err := json.Marshal(w.Labels)
	if err != nil {
		return Reservation{}, fmt.Errorf("encode labels: %w", err)
	}
	who := auth.From(ctx)
	return found(q.Insert(ctx, reservationdb.InsertParams{
		ID: id.New[id.Reservation](), OrgID: w.Org, ProjectID: w.Project, SkuID: w.SKU, Nodes: w.Nodes, RegionCode: w.Region,
		Rack: w.Rack, Pool: w.Pool, Labels: labels, StartsAt: w.StartsAt, EndsAt: w.EndsAt, Reason: w.Reason, Forced: w.Force,
		CreatedBy: who.ID, CreatedByName: who.Name,
	}))
}

// affordable refuses a reservation that was just made, if at any time of its window
// the fleet has too few nodes for it and those that were there before.
func affordable(ctx context.Context, q *reservationdb.Queries, r Reservation) error {
	rows, err := q.Overlapping(ctx, reservationdb.OverlappingParams{Sku: r.SKU, StartsAt: r.StartsAt, EndsAt: r.EndsAt})
	if err != nil {
		return fmt.Errorf("read reservations of %s: %w", r.SKU, err)
	}
	least, when := r.Nodes, r.StartsAt
	for _, at := range beginnings(rows, r.StartsAt) {
		if n := grantedAt(rows, r, at); n < least {
			least, when = n, at
		}
	}
	if least == r.Nodes {
		return nil
	}
	fit, err := q.CountFitting(ctx, r.ID)
	if err != nil {
		return fmt.Errorf("count nodes of %s: %w", r.SKU, err)
	}
	return tooMany(r.Wish, fit, least, when)
}

// beginnings are the times from a time on at which more becomes reserved.
func beginnings(rows []reservationdb.OverlappingRow, from time.Time) []time.Time {
	out := []time.Time{from}
	for _, row := range rows {
		if row.StartsAt.After(from) {
			out = append(out, row.StartsAt)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}

// grantedAt is how many nodes there are at a time for a reservation, when all others
// that run then have theirs.
func grantedAt(rows []reservationdb.OverlappingRow, r Reservation, at time.Time) int32 {
	known := map[id.Reservation]int{}
	var needs []int
	for _, row := range rows {
		if _, seen := known[row.ID]; !seen && row.ID != r.ID && !row.StartsAt.After(at) && row.EndsAt.After(at) {
			known[row.ID], needs = len(needs), append(needs, int(row.Nodes))
		}
	}
	known[r.ID], needs = len(needs), append(needs, int(r.Nodes)) // it comes after all others
	var p pairs
	for _, row := range rows {
		if of, runs := known[row.ID]; runs && row.Node != "" {
			p.add(row.Node, of)
		}
	}
	return int32(len(deal(needs, p.fits)[known[r.ID]])) //nolint:gosec // at most mostNodes
}

// Cancel ends a reservation before its time. One that was cancelled stays so.
func (s *Service) Cancel(ctx context.Context, of id.Reservation, reason string) (Reservation, error) {
	var now Reservation
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		r, err := found(reservationdb.New(tx).Lock(ctx, of))
		if now = r; err != nil || r.State == Cancelled {
			return err
		}
		if r.State == Ended {
			return fault.New(fault.Conflict, "reservation_over", "the reservation ended at %s",
				r.EndsAt.UTC().Format(time.RFC3339)).
				WithRemedy("nothing is kept for it any more; see which there are: gpuaas reservation list")
		}
		now, err = cancel(ctx, tx, of, reason)
		return err
	})
	if err != nil {
		return now, err
	}
	one := []Reservation{now}
	err = s.price(ctx, one)
	return one[0], err
}

// EndUnpaid ends a reservation that cannot be paid, in a transaction of the caller. It says
// whether there was something to end.
func (s *Service) EndUnpaid(ctx context.Context, tx pgx.Tx, of id.Reservation, reason string) (bool, error) {
	r, err := found(reservationdb.New(tx).Lock(ctx, of))
	if err != nil || r.State == Cancelled || r.State == Ended {
		return false, err
	}
	_, err = cancel(ctx, tx, of, reason)
	return err == nil, err
}

func cancel(ctx context.Context, tx pgx.Tx, of id.Reservation, reason string) (Reservation, error) {
	now, err := found(reservationdb.New(tx).Cancel(ctx, reservationdb.CancelParams{
		ID: of, CancelledBy: auth.From(ctx).ID, CancelReason: reason,
	}))
	if err != nil {
		return now, err
	}
	if err := tell(ctx, tx, "reservation.cancel", eventwire.ReservationCancelled, now, reason); err != nil {
		return now, err
	}
	return now, postgres.Notify(ctx, tx, waiting, now.SKU)
}

// waiting is the channel on which those who wait for nodes are told that there may be some.
const waiting = "allocation_requests"

// tell records what was done to a reservation, and publishes it.
func tell(ctx context.Context, tx pgx.Tx, action string, typ eventwire.Type, r Reservation, reason string) error {
	if err := audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "reservation", TargetID: r.ID.String(), Org: r.Org, Project: r.Project,
		Result: audit.Success, Reason: reason,
		Metadata: map[string]any{
			"sku": r.SKU, "nodes": r.Nodes, "starts_at": r.StartsAt, "ends_at": r.EndsAt, "forced": r.Force,
			"charged": r.Charge,
		},
	}); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: typ, AggregateKind: "reservation", AggregateID: r.ID.String(), Org: r.Org, Project: r.Project,
		Payload: eventwire.Reservation{
			ReservationID: r.ID.String(), State: string(r.State), SKU: r.SKU, Nodes: r.Nodes, Region: r.Region,
			StartsAt: r.StartsAt, EndsAt: r.EndsAt,
		},
	})
}
