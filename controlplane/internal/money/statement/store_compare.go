package statement

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/statement/internal/statementdb"
)

// compareAtOnce is how many allocations are compared at once.
const compareAtOnce = 500

// compare compares the ledger with rated usage, of one tenant or of all.
func (s *Service) compare(ctx context.Context, org id.Org, alive func()) (Comparison, error) {
	q := statementdb.New(s.db)
	now, err := q.Now(ctx)
	if err != nil {
		return Comparison{}, fmt.Errorf("read clock: %w", err)
	}
	c := Comparison{At: now, Found: []Disagreement{}, Unmetered: []Unmetered{}}
	for after := (id.Allocation{}); ; {
		alive()
		rows, err := q.Compared(ctx, statementdb.ComparedParams{
			OrgID: optional(org), After: after.String(), Batch: compareAtOnce,
		})
		if err != nil {
			return c, fmt.Errorf("compare charges: %w", err)
		}
		// Read after the charges: it has every price that they were made by.
		lists := account.NewLists(s.db)
		for _, r := range rows {
			after = r.AllocationID
			of := charged{
				Org: r.OrgID, Allocation: r.AllocationID,
				Active: r.ActiveAt, Until: r.ChargedUntil, Windows: r.WindowsMinor, Ledger: r.LedgerMinor,
			}
			if r.Currency != nil {
				of.Currency = *r.Currency
			}
			if of.Terms, err = lists.Rating(ctx, account.Agreed{
				Pricing: r.Pricing, SKU: r.SkuID, Currency: of.Currency, Minor: r.PriceMinor, Paid: r.PaidShare, Units: r.Units,
			}); err != nil {
				return c, err
			}
			c.note(of.disagrees())
			c.Allocations++
		}
		if len(rows) < compareAtOnce {
			break
		}
	}
	if err := compareReserved(ctx, q, org, alive, &c); err != nil {
		return c, err
	}
	tenants, err := q.Balances(ctx, optional(org))
	if err != nil {
		return c, fmt.Errorf("compare balances: %w", err)
	}
	for _, r := range tenants {
		c.note(balances{
			Org: r.OrgID, Currency: r.Currency, Kept: r.KeptMinor, Posted: r.PostedMinor, Stated: r.StatedMinor,
			Closed: r.ClosedMinor,
		}.disagree())
		c.Tenants++
	}
	rows, err := q.NeverCharged(ctx, statementdb.NeverChargedParams{OrgID: optional(org), Most: mostFound})
	if err != nil {
		return c, fmt.Errorf("look for what is never charged: %w", err)
	}
	for _, r := range rows {
		c.NeverCharged = r.Total
		c.Unmetered = append(c.Unmetered, Unmetered{
			OrgID: r.OrgID, AllocationID: r.ID, SKU: r.SkuID, ActiveAt: r.ActiveAt.UTC(),
			Message: unmetered(account.Basis(r.Basis)),
		})
	}
	return c, nil
}

// compareReserved compares what reservations were charged with what the rule says.
func compareReserved(ctx context.Context, q *statementdb.Queries, org id.Org, alive func(), c *Comparison) error {
	for after := (id.Reservation{}); ; {
		alive()
		rows, err := q.ComparedReserved(ctx, statementdb.ComparedReservedParams{
			OrgID: optional(org), After: after.String(), Batch: compareAtOnce,
		})
		if err != nil {
			return fmt.Errorf("compare charges of reservations: %w", err)
		}
		for _, r := range rows {
			after = r.ReservationID
			c.note(compared(
				Disagreement{OrgID: r.OrgID, ReservationID: &r.ReservationID, WantMinor: r.RatedMinor}, r.Currency,
				r.WindowsMinor, r.LedgerMinor,
			))
		}
		if len(rows) < compareAtOnce {
			return nil
		}
	}
}
