package ledger

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger/internal/ledgerdb"
)

func from(r ledgerdb.LedgerEntry) Entry {
	e := Entry{
		ID: r.ID, Org: r.OrgID, Currency: r.Currency, Kind: Kind(r.Kind), Reference: r.Reference, Reason: r.Reason,
		Corrects: r.CorrectsEntryID, MadeBy: r.MadeBy, BookedAt: r.BookedAt,
	}
	if r.Meter != nil && r.WindowStart != nil && r.WindowEnd != nil {
		e.Window = &Window{
			Allocation: r.AllocationID, Reservation: r.ReservationID, Meter: *r.Meter, Start: *r.WindowStart, End: *r.WindowEnd,
		}
	}
	return e
}

// withPostings reads the postings of entries.
func withPostings(ctx context.Context, q *ledgerdb.Queries, entries []Entry) error {
	at := map[id.LedgerEntry]*Entry{}
	ids := make([]string, len(entries))
	for i := range entries {
		ids[i], at[entries[i].ID] = entries[i].ID.String(), &entries[i]
	}
	rows, err := q.Postings(ctx, ids)
	if err != nil {
		return fmt.Errorf("read postings: %w", err)
	}
	for _, r := range rows {
		at[r.EntryID].Postings = append(at[r.EntryID].Postings, Posting{Purse(r.Account), r.AmountMinor})
	}
	return nil
}

// List lists the ledger of a tenant, all kinds ("") or one, the newest first.
func (s *Service) List(ctx context.Context, org id.Org, kind Kind, page postgres.Slice[id.LedgerEntry]) (
	[]Entry, error,
) {
	if _, err := account.Get(ctx, s.db, org); err != nil {
		return nil, err
	}
	q := ledgerdb.New(s.db)
	rows, err := q.List(ctx, ledgerdb.ListParams{
		OrgID: org, Kind: string(kind), Before: before(page.After), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list ledger: %w", err)
	}
	out := make([]Entry, len(rows))
	for i, r := range rows {
		out[i] = from(r.LedgerEntry)
		out[i].Corrected = r.CorrectedBy
	}
	return out, withPostings(ctx, q, out)
}

func before(e id.LedgerEntry) *string {
	if e.IsZero() {
		return nil
	}
	text := e.String()
	return &text
}

// BalanceOf is what a tenant has left, through a pool or a transaction.
func BalanceOf(ctx context.Context, db ledgerdb.DBTX, org id.Org) (Balance, error) {
	a, err := account.Get(ctx, db, org)
	if err != nil {
		return Balance{}, err
	}
	minor, err := ledgerdb.New(db).Balance(ctx, org)
	if err != nil {
		return Balance{}, fmt.Errorf("read balance: %w", err)
	}
	return Balance{Org: org, Currency: a.Currency, Minor: minor}, nil
}
