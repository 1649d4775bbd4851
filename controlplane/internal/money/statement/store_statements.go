package statement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/rating"
	"gpuaas/controlplane/internal/money/statement/internal/statementdb"
)

// fill reads what was booked in the month of a statement. The month is locked.
func fill(ctx context.Context, tx pgx.Tx, d *Document) error {
	q := statementdb.New(tx)
	tenant, err := q.Tenant(ctx, d.OrgID)
	if err != nil {
		return fmt.Errorf("read tenant: %w", err)
	}
	d.Tenant, d.TenantName = tenant.Slug, tenant.Name
	switch last, err := q.Last(ctx, d.OrgID); {
	case err == nil:
		d.Number, d.OpeningMinor = last.Number+1, last.ClosingMinor
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("read last statement: %w", err)
	}
	d.Label = labelOf(d.Tenant, d.Number)
	if err := fillLines(ctx, q, account.NewLists(tx), d); err != nil {
		return err
	}
	if err := fillReserved(ctx, q, d); err != nil {
		return err
	}
	if err := fillOthers(ctx, q, d); err != nil {
		return err
	}
	d.sum()
	return nil
}

// charge is what one line of a statement is about: an allocation at a price.
type charge struct {
	of    id.Allocation
	price id.Price
}

func fillLines(ctx context.Context, q *statementdb.Queries, lists *account.Lists, d *Document) error {
	rows, err := q.ChargedIn(ctx, statementdb.ChargedInParams{OrgID: d.OrgID, Period: d.PeriodStart})
	if err != nil {
		return fmt.Errorf("read charges: %w", err)
	}
	d.Lines = make([]Line, 0, len(rows))
	inTime := map[charge]int{}
	for _, r := range rows {
		d.Entries += r.Entries
		if r.Late {
			d.LateEntries += r.Entries
		} else {
			inTime[charge{r.AllocationID, r.PriceID}] = len(d.Lines)
		}
		d.Lines = append(d.Lines, Line{
			AllocationID: r.AllocationID, Late: r.Late, From: r.Since.UTC(), To: r.Until.UTC(), UsageMinor: r.AmountMinor,
			PriceID: given(r.PriceID), PriceMinor: r.PriceMinor,
		})
	}
	free, err := q.NotChargedIn(ctx, statementdb.NotChargedInParams{
		OrgID: d.OrgID, Period: d.PeriodStart, Until: d.PeriodEnd,
	})
	if err != nil {
		return fmt.Errorf("read what costs nothing: %w", err)
	}
	for _, r := range free {
		i, there := inTime[charge{r.AllocationID, r.PriceID}]
		if !there {
			d.Lines = append(d.Lines, Line{
				AllocationID: r.AllocationID, From: r.Since.UTC(), To: r.Until.UTC(), PriceID: given(r.PriceID),
				PriceMinor: r.PriceMinor,
			})
			continue
		}
		d.Lines[i].From, d.Lines[i].To = earlier(d.Lines[i].From, r.Since.UTC()), later(d.Lines[i].To, r.Until.UTC())
	}
	return describe(ctx, q, lists, d)
}

// describe says of the allocations of a statement what they are.
func describe(ctx context.Context, q *statementdb.Queries, lists *account.Lists, d *Document) error {
	ids := make([]string, len(d.Lines))
	at := make(map[id.Allocation][]*Line, len(d.Lines))
	for i := range d.Lines {
		l := &d.Lines[i]
		ids[i], at[l.AllocationID] = l.AllocationID.String(), append(at[l.AllocationID], l)
	}
	rows, err := q.Rented(ctx, statementdb.RentedParams{OrgID: d.OrgID, Allocations: ids})
	if err != nil {
		return fmt.Errorf("read allocations: %w", err)
	}
	for _, r := range rows {
		var labels map[string]string
		if err := json.Unmarshal(r.Labels, &labels); err != nil {
			return fmt.Errorf("read labels of allocation %s: %w", r.AllocationID, err)
		}
		full, err := lists.Rating(ctx, account.Agreed{
			Pricing: r.Pricing, SKU: r.SkuID, Currency: r.Currency, Minor: r.PriceMinor, Paid: rating.Full, Units: r.Units,
		})
		if err != nil {
			return err
		}
		for _, l := range at[r.AllocationID] {
			l.Name, l.ProjectID, l.Project, l.SKU = r.Name, r.ProjectID, r.Project, r.SkuID
			if l.PriceID == nil { // the one price that was agreed
				l.PriceID = given(r.PriceID)
			}
			l.Region, l.NodeID, l.Hostname, l.Labels = r.RegionCode, r.NodeID, r.Hostname, labels
			l.RequestedBy, l.RequestedByName, l.FreeBecause = r.RequestedBy, r.RequestedByName, r.FreeBecause
			l.Units, l.PaidShare = r.Units, r.PaidShare
			l.Seconds = rating.Seconds(r.ActiveAt, l.To) - rating.Seconds(r.ActiveAt, l.From)
			if l.ListMinor, err = full.Between(r.ActiveAt, l.From, l.To); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillOthers reads everything but charges.
func fillOthers(ctx context.Context, q *statementdb.Queries, d *Document) error {
	rows, err := q.OthersIn(ctx, statementdb.OthersInParams{OrgID: d.OrgID, Period: d.PeriodStart})
	if err != nil {
		return fmt.Errorf("read entries: %w", err)
	}
	d.Reliefs, d.Corrections, d.MoneyIn = []ReliefLine{}, []MendLine{}, []MoneyLine{}
	for _, r := range rows {
		e := r.LedgerEntry
		late := e.BookedAt.Before(d.PeriodStart)
		switch {
		case e.Kind == "correction":
			d.Corrections = append(d.Corrections, MendLine{
				EntryID: e.ID, CorrectsID: e.CorrectsEntryID, Of: r.OfKind, AllocationID: given(r.OfAllocation),
				ReservationID: given(r.OfReservation), From: inUTC(r.OfStart), To: inUTC(r.OfEnd), Reason: e.Reason,
				BookedAt:    e.BookedAt.UTC(),
				AmountMinor: r.AmountMinor,
			})
		case e.WindowStart != nil && e.WindowEnd != nil:
			late = !e.WindowEnd.After(d.PeriodStart)
			d.Reliefs = append(d.Reliefs, ReliefLine{
				EntryID: e.ID, AllocationID: e.AllocationID, From: e.WindowStart.UTC(), To: e.WindowEnd.UTC(), Reason: e.Reason,
				AmountMinor: r.AmountMinor, Late: late,
			})
		default:
			d.MoneyIn = append(d.MoneyIn, MoneyLine{
				EntryID: e.ID, Kind: e.Kind, Reference: e.Reference, Reason: e.Reason, BookedAt: e.BookedAt.UTC(),
				AmountMinor: r.AmountMinor, Late: late,
			})
		}
		d.Entries++
		if late {
			d.LateEntries++
		}
	}
	return nil
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// List lists the statements of a tenant that come before one, the newest first; zero:
// from the newest on.
func (s *Service) List(ctx context.Context, org id.Org, before, limit int32) ([]Statement, error) {
	if _, err := account.Get(ctx, s.db, org); err != nil {
		return nil, err
	}
	rows, err := statementdb.New(s.db).List(ctx, statementdb.ListParams{OrgID: org, Before: before, PageSize: limit})
	if err != nil {
		return nil, fmt.Errorf("list statements: %w", err)
	}
	out := make([]Statement, len(rows))
	for i, r := range rows {
		out[i] = Statement{
			ID: r.ID, Org: r.OrgID, Currency: r.Currency, Number: r.Number, Label: r.Label, Start: r.PeriodStart.UTC(),
			End: r.PeriodEnd.UTC(), Opening: r.OpeningMinor, Closing: r.ClosingMinor, Usage: r.UsageMinor,
			Relief: r.ReliefMinor, Corrections: r.CorrectionsMinor, MoneyIn: r.MoneyInMinor, Entries: r.Entries,
			Late: r.LateEntries, Digest: r.Digest, IssuedAt: r.IssuedAt.UTC(), IssuedBy: r.IssuedBy,
		}
	}
	return out, nil
}

// Get reads a statement of a tenant.
func (s *Service) Get(ctx context.Context, org id.Org, of id.Statement) (Document, error) {
	row, err := statementdb.New(s.db).Document(ctx, statementdb.DocumentParams{OrgID: org, ID: of})
	if errors.Is(err, pgx.ErrNoRows) {
		return Document{}, notFound()
	}
	if err != nil {
		return Document{}, fmt.Errorf("read statement: %w", err)
	}
	var d Document
	if err := json.Unmarshal([]byte(row.Document), &d); err != nil {
		return Document{}, fmt.Errorf("decode statement %s: %w", row.Label, err)
	}
	return d, nil
}

// Open reads what the first open month of a tenant has until now: as its statement would
// be if nothing more was booked. What is used and not booked yet is not in it.
func (s *Service) Open(ctx context.Context, org id.Org) (Document, error) {
	var d Document
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := statementdb.New(tx)
		if err := q.OneMoment(ctx); err != nil { // what is booked meanwhile is seen whole or not at all
			return fmt.Errorf("begin to read: %w", err)
		}
		of, err := account.Get(ctx, tx, org)
		if err != nil {
			return err
		}
		now, err := s.clock(ctx, q)
		if err != nil {
			return fmt.Errorf("read clock: %w", err)
		}
		since, err := q.OpenSince(ctx, org)
		if err != nil {
			return fmt.Errorf("read open month: %w", err)
		}
		d = Document{
			Draft: true, Issuer: s.issuer, OrgID: org, Currency: of.Currency, PeriodStart: since.UTC(),
			PeriodEnd: since.UTC().AddDate(0, 1, 0), IssuedAt: now.UTC(),
		}
		if err := fill(ctx, tx, &d); err != nil {
			return err
		}
		d.Number, d.Label = 0, draftLabel(d.Tenant)
		return nil
	})
	return d, err
}

// LastCheck is the last comparison of all tenants; false: there was none yet.
func (s *Service) LastCheck(ctx context.Context) (Comparison, bool, error) {
	row, err := statementdb.New(s.db).LastCheck(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return Comparison{}, false, nil
	}
	if err != nil {
		return Comparison{}, false, fmt.Errorf("read last comparison: %w", err)
	}
	c := Comparison{
		At: row.EndedAt, Allocations: row.Allocations, Tenants: row.Tenants, Disagreements: row.Disagreements,
		NeverCharged: row.NeverCharged,
	}
	if err := json.Unmarshal(row.NeverChargedFound, &c.Unmetered); err != nil {
		return c, false, fmt.Errorf("decode what is never charged: %w", err)
	}
	if err := json.Unmarshal(row.Found, &c.Found); err != nil {
		return c, false, fmt.Errorf("decode last comparison: %w", err)
	}
	return c, true, nil
}
