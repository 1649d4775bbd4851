package metering

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/metering/internal/meteringdb"
	"gpuaas/controlplane/internal/money/rating"
)

// read locks a meter and reads what it is about; false: it is closed, or somebody else
// has it.
func (s *Service) read(ctx context.Context, tx pgx.Tx, q *meteringdb.Queries, of id.Allocation) (reading, bool, error) {
	row, err := q.Lock(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return reading{}, false, nil
	}
	if err != nil {
		return reading{}, false, fmt.Errorf("lock meter: %w", err)
	}
	r := reading{
		Allocation: row.AllocationID, Org: row.OrgID, Node: row.NodeID,
		Active: row.ActiveAt, Ended: row.ReleaseRequestedAt, Live: row.Live, Until: row.ChargedUntil,
		Expires: row.ExpiresAt, Root: row.Access == "root",
	}
	if r.Ended != nil && r.Expires != nil && r.Expires.Before(*r.Ended) {
		r.Ended = r.Expires
	}
	if row.Currency != nil {
		r.Currency = *row.Currency
	}
	// The list is read after the lock, too: no price of it begins in a time that is charged now.
	if r.Terms, err = account.NewLists(tx).Rating(ctx, account.Agreed{
		Pricing: row.Pricing, SKU: row.SkuID, Currency: r.Currency, Minor: row.PriceMinor, Paid: row.PaidShare,
		Units: row.Units,
	}); err != nil {
		return reading{}, false, err
	}
	// Asked after the lock: whoever held it before may have charged until a later moment.
	if r.Now, err = s.clock(ctx, q); err != nil {
		return reading{}, false, fmt.Errorf("read clock: %w", err)
	}
	return r, true, nil
}

// outages are the times in which the tenant of an allocation could not use its node,
// whether or not they were given back.
func (s *Service) outages(ctx context.Context, q *meteringdb.Queries, r reading) ([]outage, error) {
	repairs, err := q.Repairs(ctx, r.Allocation)
	if err != nil {
		return nil, fmt.Errorf("read repairs: %w", err)
	}
	var out []outage
	for _, o := range repairs {
		out = append(out, outage{
			reference: "repair " + o.ID.String(), reason: "the node was repaired: " + o.Reason, from: o.BeganAt, to: o.EndedAt,
		}.within(s.most))
	}
	states, err := q.Outages(ctx, meteringdb.OutagesParams{NodeID: r.Node, Since: *r.Active})
	if err != nil {
		return nil, fmt.Errorf("read states of node: %w", err)
	}
	for _, o := range states {
		found := outage{
			reference: fmt.Sprintf("%s %d", o.ToStatus, o.Seq), from: o.BeganAt, reason: "the node was quarantined",
		}
		if !o.GoesOn {
			found.to = &o.EndedAt
		}
		if o.ToStatus == "offline" {
			if r.Root { // who is root decides whether the agent speaks
				continue
			}
			if found.lasted(r.Now) < s.silence {
				continue
			}
			found.reason = "the agent of the node did not answer"
		} else {
			found = found.within(s.most)
		}
		out = append(out, found)
	}
	return out, nil
}

// given are the times of an allocation that were given back.
func given(ctx context.Context, q *meteringdb.Queries, r reading) ([]rating.Period, error) {
	rows, err := q.Given(ctx, meteringdb.GivenParams{AllocationID: r.Allocation, OrgID: r.Org})
	if err != nil {
		return nil, fmt.Errorf("read reliefs: %w", err)
	}
	out := make([]rating.Period, len(rows))
	for i, row := range rows {
		out[i] = rating.Period{From: row.BeganAt, To: row.EndedAt}
	}
	return out, nil
}
