package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/currency"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger/internal/ledgerdb"
)

// Service holds the commands and queries of the package.
type Service struct{ db *postgres.DB }

// New makes the service. It connects to nothing.
func New(db *postgres.DB) *Service { return &Service{db: db} }

// Grant is a credit that is given to a tenant.
type Grant struct {
	Minor     int64
	Currency  string // must be the tenant's: nobody credits by mistake in another one
	Reference string // what names it elsewhere, used once per tenant
	Reason    string
}

func (g Grant) check() error {
	if err := checkAmount(g.Minor); err != nil {
		return err
	}
	if n := len(g.Reference); n < 1 || n > 200 {
		return invalid("reference", "must be 1 to 200 characters long")
	}
	return checkReason(g.Reason)
}

// Credit gives a tenant money. A reference is used once.
func (s *Service) Credit(ctx context.Context, org id.Org, g Grant) (Entry, error) {
	g.Reference = strings.Join(strings.Fields(g.Reference), " ") // blanks make no other reference
	if err := g.check(); err != nil {
		return Entry{}, err
	}
	var made Entry
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		of, err := account.Get(ctx, tx, org)
		if err != nil {
			return err
		}
		if of.Currency != g.Currency {
			return fault.New(fault.Conflict, "currency_mismatch", "the tenant pays in %s, the credit is in %q", of.Currency,
				g.Currency).WithRemedy("convert the amount, and give the credit in %s", of.Currency)
		}
		// Asked first, because the violation would end the transaction; who comes at the same time meets that.
		if earlier, err := ledgerdb.New(tx).ByReference(ctx, ledgerdb.ByReferenceParams{
			OrgID: org, Reference: g.Reference,
		}); err == nil {
			return used(g.Reference, earlier)
		} else if !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("look for reference: %w", err)
		}
		made, err = Book(ctx, tx, Entry{
			Org: org, Currency: of.Currency, Kind: Credit, Reference: g.Reference, Reason: g.Reason,
			Postings: move(Credits, Tenant, g.Minor),
		})
		if postgres.Violates(err, "ledger_entries_reference") {
			return used(g.Reference, id.LedgerEntry{})
		}
		if err != nil {
			return err
		}
		if err := record(ctx, tx, "ledger.credit", made, map[string]any{
			"amount_minor": g.Minor, "currency": made.Currency, "reference": g.Reference,
		}); err != nil {
			return err
		}
		return outbox.Append(ctx, tx, outbox.Event{
			Type: eventwire.BalanceCredited, AggregateKind: "billing_account", AggregateID: org.String(), Org: org,
			Payload: eventwire.Credit{
				OrgID: org.String(), EntryID: made.ID.String(), AmountMinor: g.Minor, Currency: made.Currency,
				Reference: g.Reference,
			},
		})
	})
	return made, err
}

func used(reference string, by id.LedgerEntry) error {
	named := "an entry"
	if !by.IsZero() {
		named = "entry " + by.String()
	}
	return fault.New(fault.Conflict, "credit_reference_used", "%s of the tenant has the reference %q already: nothing was booked",
		named, reference).WithRemedy("if this is another credit, give it a reference of its own; see gpuaas billing ledger")
}

// Correct reverses an entry of a tenant. An entry is corrected once at most; a
// correction can be corrected, too.
func (s *Service) Correct(ctx context.Context, org id.Org, of id.LedgerEntry, reason string) (Entry, error) {
	if err := checkReason(reason); err != nil {
		return Entry{}, err
	}
	var made Entry
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := ledgerdb.New(tx)
		row, err := q.Get(ctx, ledgerdb.GetParams{ID: of, OrgID: org})
		if errors.Is(err, pgx.ErrNoRows) {
			return notFound()
		}
		if err != nil {
			return fmt.Errorf("read entry: %w", err)
		}
		if err := once(ctx, q, of); err != nil {
			return err
		}
		wrong := []Entry{from(row)}
		if err := withPostings(ctx, q, wrong); err != nil {
			return err
		}
		made, err = Book(ctx, tx, Entry{
			Org: org, Currency: row.Currency, Kind: Correction, Reason: reason, Corrects: of,
			Postings: reversed(wrong[0].Postings),
		})
		if postgres.Violates(err, "ledger_entries_corrected_once") {
			return fault.New(fault.Conflict, "ledger_entry_corrected", "entry %s is corrected already", of).
				WithRemedy("if that was wrong, correct the correction: gpuaas billing ledger shows it")
		}
		if err != nil {
			return err
		}
		amount := tenantShare(made.Postings)
		if err := record(ctx, tx, "ledger.correct", made, map[string]any{
			"corrects": of.String(), "of": row.Kind, "amount_minor": amount, "currency": made.Currency,
		}); err != nil {
			return err
		}
		return outbox.Append(ctx, tx, outbox.Event{
			Type: eventwire.LedgerCorrected, AggregateKind: "billing_account", AggregateID: org.String(), Org: org,
			Payload: eventwire.LedgerCorrection{
				OrgID: org.String(), EntryID: made.ID.String(), CorrectsEntryID: of.String(), Of: row.Kind, AmountMinor: amount,
				Currency: made.Currency,
			},
		})
	})
	return made, err
}

// tenantShare is what postings change in the balance of the tenant.
func tenantShare(of []Posting) int64 {
	for _, p := range of {
		if p.Purse == Tenant {
			return p.Minor
		}
	}
	return 0
}

// once refuses a correction by which a time would be given back twice: as the charge of
// it that is taken back, and as a relief of it that stands. Until the transaction ends,
// nobody charges or gives back time of the allocation.
func once(ctx context.Context, q *ledgerdb.Queries, of id.LedgerEntry) error {
	root, err := q.Root(ctx, of)
	if err != nil {
		return fmt.Errorf("read what is corrected in the end: %w", err)
	}
	w := from(root.LedgerEntry).Window
	if w == nil || w.Allocation.IsZero() { // nothing is given back of what is reserved but by corrections
		return nil
	}
	if err := q.LockMeter(ctx, ledgerdb.LockMeterParams{AllocationID: w.Allocation, Meter: w.Meter}); err != nil {
		return fmt.Errorf("lock meter: %w", err)
	}
	ask := ledgerdb.StandingParams{AllocationID: w.Allocation, Meter: &w.Meter, Since: w.Start, Until: w.End}
	takesBack := root.Corrections%2 == 0 // and else it stands again
	switch {
	case root.LedgerEntry.Kind == string(Usage) && takesBack:
		ask.Kind = string(Relief)
	case root.LedgerEntry.Kind == string(Relief) && !takesBack:
		ask.Kind, ask.Reversed = string(Usage), true
	default:
		return nil
	}
	others, err := q.Standing(ctx, ask)
	if err != nil {
		return fmt.Errorf("look for what was given back: %w", err)
	}
	if len(others) == 0 {
		return nil
	}
	names := make([]string, len(others))
	for i, o := range others {
		names[i] = o.String()
	}
	return fault.New(fault.Conflict, "ledger_time_given_back",
		"time of entry %s is given back already, by %s: nothing was booked", root.LedgerEntry.ID, strings.Join(names, ", ")).
		WithRemedy("correct those first, if they are wrong: gpuaas billing correct; or give a credit for the difference")
}

// Book adds an entry in a transaction. Whoever books the same twice meets the
// violation of its natural key.
func Book(ctx context.Context, tx pgx.Tx, e Entry) (Entry, error) {
	q := ledgerdb.New(tx)
	row := ledgerdb.InsertParams{
		ID: id.New[id.LedgerEntry](), OrgID: e.Org, Currency: e.Currency, Kind: string(e.Kind), Reference: e.Reference,
		Reason: e.Reason, CorrectsEntryID: e.Corrects, MadeBy: auth.From(ctx).ID, CorrelationID: telemetry.Correlation(ctx),
	}
	if w := e.Window; w != nil {
		row.AllocationID, row.ReservationID = w.Allocation, w.Reservation
		row.Meter, row.WindowStart, row.WindowEnd = &w.Meter, &w.Start, &w.End
	}
	booked, err := q.Insert(ctx, row)
	if err != nil {
		return Entry{}, fmt.Errorf("book entry: %w", err)
	}
	made := from(booked)
	made.Postings = e.Postings
	// In one order, so that two entries of a tenant do not wait for each other's balances.
	slices.SortFunc(made.Postings, func(a, b Posting) int { return cmp.Compare(a.Purse, b.Purse) })
	for _, p := range made.Postings {
		err := q.Post(ctx, ledgerdb.PostParams{
			EntryID: made.ID, Account: string(p.Purse), OrgID: made.Org, Currency: made.Currency, AmountMinor: p.Minor,
		})
		if postgres.Violates(err, "ledger_balances_bounds") {
			return Entry{}, fault.New(fault.Conflict, "balance_out_of_bounds",
				"the balance of the tenant would leave its bounds: %s is too much", currency.Format(p.Minor, made.Currency)).
				WithRemedy("check the amount: balances are kept within 10^17 minor units")
		}
		if err != nil {
			return Entry{}, fmt.Errorf("post: %w", err)
		}
	}
	return made, nil
}

func record(ctx context.Context, tx pgx.Tx, action string, e Entry, metadata map[string]any) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "ledger_entry", TargetID: e.ID.String(), Org: e.Org, Result: audit.Success,
		Reason: e.Reason, Metadata: metadata,
	})
}

// Charge books what a window of an allocation costs.
func Charge(
	ctx context.Context, tx pgx.Tx, org id.Org, currency string, w Window, minor int64,
) (Entry, error) {
	return Book(ctx, tx, Entry{
		Org: org, Currency: currency, Kind: Usage, Reason: "use of an allocation", Window: &w,
		Postings: move(Tenant, Revenue, minor),
	})
}

// ChargeReserved books what a window of a reservation costs.
func ChargeReserved(
	ctx context.Context, tx pgx.Tx, org id.Org, currency string, w Window, minor int64,
) (Entry, error) {
	w.Meter = price.Reserved
	return Book(ctx, tx, Entry{
		Org: org, Currency: currency, Kind: Usage, Reason: "nodes that are reserved and not used", Window: &w,
		Postings: move(Tenant, Revenue, minor),
	})
}

// Relieve gives back what a window of an allocation cost, for something that the
// reference names, once.
func Relieve(
	ctx context.Context, tx pgx.Tx, org id.Org, currency string, w Window, minor int64, reference, reason string,
) (Entry, error) {
	if len(reason) > longestReason {
		reason = strings.ToValidUTF8(reason[:longestReason], "")
	}
	return Book(ctx, tx, Entry{
		Org: org, Currency: currency, Kind: Relief, Reference: reference, Reason: reason, Window: &w,
		Postings: move(Revenue, Tenant, minor),
	})
}

// Pay books money that came through a payment provider, or went back. The reference names
// it there.
func Pay(
	ctx context.Context, tx pgx.Tx, org id.Org, currency string, minor int64, back bool, reference string,
) (Entry, error) {
	e := Entry{
		Org: org, Currency: currency, Kind: Payment, Reference: reference, Reason: "a payment came in",
		Postings: move(Paid, Tenant, minor),
	}
	if back {
		e.Kind, e.Reason, e.Postings = Refund, "a payment went back", move(Tenant, Paid, minor)
	}
	return Book(ctx, tx, e)
}

// longestReason is how many bytes of somebody's words an entry keeps.
const longestReason = 500
