package statement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/statement/internal/statementdb"
)

// optional is an id as a query takes it: one that was never set asks for all.
func optional[noun any](of id.Of[noun]) *string {
	if of.IsZero() {
		return nil
	}
	text := of.String()
	return &text
}

// exists refuses a tenant that there is not.
func (s *Service) exists(ctx context.Context, org id.Org) error {
	_, err := statementdb.New(s.db).Tenant(ctx, org)
	if errors.Is(err, pgx.ErrNoRows) {
		return noTenant()
	}
	if err != nil {
		return fmt.Errorf("read tenant: %w", err)
	}
	return nil
}

// Usage answers a question about usage.
func (s *Service) Usage(ctx context.Context, q Question) (Report, error) {
	db := statementdb.New(s.db)
	if !q.Org.IsZero() {
		if err := s.exists(ctx, q.Org); err != nil {
			return Report{}, err
		}
	}
	now, err := s.clock(ctx, db)
	if err != nil {
		return Report{}, fmt.Errorf("read clock: %w", err)
	}
	if q, err = q.settled(now); err != nil {
		return Report{}, err
	}
	stays, err := s.readStays(ctx, db, statementdb.StaysParams{
		OrgID: optional(q.Org), ProjectID: optional(q.Project), Since: q.From, Until: q.To,
	})
	if err != nil {
		return Report{}, err
	}
	rows, err := db.Adjustments(ctx, statementdb.AdjustmentsParams{OrgID: optional(q.Org), Since: q.From, Until: q.To})
	if err != nil {
		return Report{}, fmt.Errorf("read what was given back: %w", err)
	}
	adjustments := make([]Adjustment, len(rows))
	for i, r := range rows {
		adjustments[i] = Adjustment{
			Allocation: r.AllocationID, Reservation: r.ReservationID, Relief: r.Relief, From: r.WindowStart, To: r.WindowEnd,
			Minor: r.AmountMinor,
		}
	}
	unused, err := s.readUnused(ctx, db, q, now)
	if err != nil {
		return Report{}, err
	}
	return report(q, now, stays, unused, adjustments)
}

func (s *Service) readStays(ctx context.Context, db *statementdb.Queries, of statementdb.StaysParams) ([]Stay, error) {
	rows, err := db.Stays(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	lists := account.NewLists(s.db)
	out := make([]Stay, len(rows))
	for i, r := range rows {
		terms, err := lists.Rating(ctx, account.Agreed{
			Pricing: r.Pricing, SKU: r.SkuID, Currency: r.Currency, Minor: r.PriceMinor, Paid: r.PaidShare, Units: r.Units,
		})
		if err != nil {
			return nil, err
		}
		out[i] = Stay{
			Allocation: r.AllocationID, Org: r.OrgID, Tenant: r.Tenant, Project: r.ProjectID, ProjectSlug: r.Project,
			SKU: r.SkuID, Node: r.NodeID, Hostname: r.Hostname, Name: r.Name, User: r.RequestedBy,
			UserName: r.RequestedByName,
			Currency: r.Currency, Terms: terms, Active: r.ActiveAt,
			Ended: r.ReleaseRequestedAt, Charged: r.ChargedUntil,
		}
		switch { // as metering sees it
		case out[i].Ended != nil:
		case r.ClosedAt != nil:
			out[i].Ended = r.ChargedUntil
		case !r.Live:
			out[i].Ended = &r.StatusChangedAt
		}
		if e := r.ExpiresAt; e != nil && (out[i].Ended == nil || e.Before(*out[i].Ended)) {
			out[i].Ended = e
		}
		if e, c := out[i].Ended, r.ChargedUntil; e != nil && c != nil && c.After(*e) {
			out[i].Ended = c // the clock went back in between: it was charged, and given back
		}
		if err := json.Unmarshal(r.Labels, &out[i].Labels); err != nil {
			return nil, fmt.Errorf("read labels of allocation %s: %w", r.AllocationID, err)
		}
	}
	return out, nil
}
