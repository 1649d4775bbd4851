package statement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/money/statement/internal/statementdb"
)

const microsPerSecond = 1_000_000

// fillReserved reads what reservations were charged.
func fillReserved(ctx context.Context, q *statementdb.Queries, d *Document) error {
	rows, err := q.ReservedIn(ctx, statementdb.ReservedInParams{
		OrgID: d.OrgID, Period: d.PeriodStart, Until: d.PeriodEnd,
	})
	if err != nil {
		return fmt.Errorf("read charges of reservations: %w", err)
	}
	for _, r := range rows {
		d.Entries += r.Entries
		if r.Late {
			d.LateEntries += r.Entries
		}
		d.Reserved = append(d.Reserved, ReservedLine{
			ReservationID: r.ReservationID, ProjectID: given(r.ProjectID), Project: r.Project, SKU: r.SkuID, PriceID: r.PriceID,
			Region: r.RegionCode, Nodes: r.Nodes, Units: r.Units, PriceMinor: r.PriceMinor, PaidShare: r.PaidShare,
			From: r.Since.UTC(), To: r.Until.UTC(), ListMinor: r.ListMinor, UsageMinor: r.AmountMinor, Late: r.Late,
			NodeSeconds: r.UntilMicros/microsPerSecond - r.SinceMicros/microsPerSecond,
		})
	}
	return nil
}

// readUnused reads what was reserved and not used at some moment of a time, with what it
// comes to in each piece of it.
func (s *Service) readUnused(ctx context.Context, db *statementdb.Queries, q Question, now time.Time) (
	[]Unused, error,
) {
	rows, err := db.Unused(ctx, statementdb.UnusedParams{
		OrgID: optional(q.Org), ProjectID: optional(q.Project), Since: q.From, Until: q.To,
	})
	if err != nil {
		return nil, fmt.Errorf("read reservations: %w", err)
	}
	out := make([]Unused, len(rows))
	for i, r := range rows {
		u := Unused{
			Reservation: r.ReservationID, Org: r.OrgID, Tenant: r.Tenant, Project: r.ProjectID, ProjectSlug: r.Project,
			SKU: r.SkuID, Currency: r.Currency, Units: r.Units,
		}
		from, to := later(r.StartsAt, q.From), earlier(earlier(r.EndsAt, q.To), now)
		u.cuts(q, from, to, r.ChargedUntil)
		sums, err := db.UnusedUntil(ctx, statementdb.UnusedUntilParams{ReservationID: r.ReservationID, Moments: u.Moments})
		if err != nil {
			return nil, fmt.Errorf("read what reservation %s has come to: %w", r.ReservationID, err)
		}
		for _, sum := range sums {
			u.Micros, u.Cost = append(u.Micros, sum.Micros), append(u.Cost, sum.CostMinor)
		}
		out[i] = u
	}
	return out, nil
}

// cuts are the moments at which what a reservation comes to is asked for: the ends of its
// pieces, and until when it is charged.
func (u *Unused) cuts(q Question, from, to time.Time, charged *time.Time) {
	if !from.Before(to) {
		return
	}
	u.Moments = []time.Time{from, to}
	_ = (&sums{q: q}).pieces(from, to, func(_, end time.Time) error {
		u.Moments = append(u.Moments, end)
		return nil
	})
	u.Charged = from
	if charged != nil {
		u.Charged = earlier(later(*charged, from), to)
		u.Moments = append(u.Moments, u.Charged)
	}
	slices.SortFunc(u.Moments, time.Time.Compare)
	u.Moments = slices.CompactFunc(u.Moments, time.Time.Equal)
}
