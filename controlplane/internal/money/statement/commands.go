package statement

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/statement/internal/statementdb"
)

// Close closes the first open month of a tenant, which must be this one and be over: it
// freezes what was booked in it and numbers that. What is booked later goes to a later
// month.
func (s *Service) Close(ctx context.Context, org id.Org, month time.Time) (Document, error) {
	var made Document
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := statementdb.New(tx)
		of, err := account.Get(ctx, tx, org)
		if err != nil {
			return err
		}
		now, err := s.closing(ctx, q)
		if err != nil {
			return err
		}
		open, err := q.LockPeriod(ctx, org.String())
		if err != nil {
			return fmt.Errorf("lock month: %w", err)
		}
		if err := inTurn(month, open.UTC(), now); err != nil {
			return err
		}
		made = Document{
			StatementID: id.New[id.Statement](), Number: 1, Issuer: s.issuer, OrgID: org, Currency: of.Currency,
			PeriodStart: month, PeriodEnd: month.AddDate(0, 1, 0), IssuedAt: now.UTC(),
		}
		if n, err := q.Uncharged(ctx, statementdb.UnchargedParams{OrgID: org, Until: made.PeriodEnd}); err != nil {
			return fmt.Errorf("count what is not charged: %w", err)
		} else if n > 0 {
			return notReady(n, made.PeriodEnd)
		}
		if err := fill(ctx, tx, &made); err != nil {
			return err
		}
		if err := issue(ctx, q, made); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			Action: "statement.issue", TargetKind: "statement", TargetID: made.StatementID.String(), Org: org,
			Result: audit.Success, Metadata: map[string]any{
				"label": made.Label, "period": month.Format("2006-01"), "closing_minor": made.ClosingMinor,
			},
		})
	})
	return made, err
}

// issue stores a statement. The database refuses one that does not add up.
func issue(ctx context.Context, q *statementdb.Queries, d Document) error {
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode statement: %w", err)
	}
	digest := sha256.Sum256(text)
	row := statementdb.IssueParams{
		ID: d.StatementID, OrgID: d.OrgID, Currency: d.Currency, Number: d.Number, Label: d.Label, PeriodStart: d.PeriodStart,
		PeriodEnd: d.PeriodEnd, OpeningMinor: d.OpeningMinor, ClosingMinor: d.ClosingMinor, UsageMinor: d.UsageMinor,
		ReliefMinor: d.ReliefMinor, CorrectionsMinor: d.MendedMinor, MoneyInMinor: d.MoneyInMinor, Entries: d.Entries,
		LateEntries: d.LateEntries, Document: string(text), Digest: hex.EncodeToString(digest[:]), IssuedAt: d.IssuedAt,
		IssuedBy: auth.From(ctx).ID,
	}
	if d.Number > 1 {
		previous := d.Number - 1
		row.Previous = &previous
	}
	if err := q.Issue(ctx, row); err != nil {
		return fmt.Errorf("issue statement: %w", err)
	}
	return nil
}

// CloseDue closes every month that ended long enough ago. What cannot be closed yet does
// not hold up the others, and is tried again with the next call.
func (s *Service) CloseDue(ctx context.Context, alive func()) error {
	ctx = auth.With(ctx, auth.System("billing"))
	q := statementdb.New(s.db)
	now, err := s.closing(ctx, q)
	if err != nil {
		return err
	}
	due, err := q.Due(ctx, now.Add(-s.closeAfter))
	if err != nil {
		return fmt.Errorf("look for months to close: %w", err)
	}
	var failed []error
	for _, org := range due {
		if err := s.closeAll(ctx, org, now, alive); err != nil {
			failed = append(failed, fmt.Errorf("close months of tenant %s: %w", org, err))
		}
	}
	return errors.Join(failed...)
}

// closeAll closes the months of a tenant that ended long enough ago, in their order.
func (s *Service) closeAll(ctx context.Context, org id.Org, now time.Time, alive func()) error {
	for {
		alive()
		open, err := statementdb.New(s.db).OpenSince(ctx, org)
		if err != nil {
			return fmt.Errorf("read open month: %w", err)
		}
		month := open.UTC()
		if month.AddDate(0, 1, 0).After(now.Add(-s.closeAfter)) {
			return nil
		}
		if _, err := s.Close(ctx, org, month); err != nil {
			if fault.CodeOf(err) == "period_closed" { // somebody else has just closed it
				continue
			}
			return err
		}
	}
}

// Check compares the ledger with rated usage, of one tenant or of all, and records the
// latter.
func (s *Service) Check(ctx context.Context, org id.Org, alive func()) (Comparison, error) {
	q := statementdb.New(s.db)
	c, err := s.compare(ctx, org, alive)
	if err != nil || !org.IsZero() {
		return c, err
	}
	found, err := json.Marshal(c.Found)
	if err != nil {
		return c, fmt.Errorf("encode disagreements: %w", err)
	}
	unmetered, err := json.Marshal(c.Unmetered)
	if err != nil {
		return c, fmt.Errorf("encode what is never charged: %w", err)
	}
	if err := q.AddCheck(ctx, statementdb.AddCheckParams{
		BeganAt: c.At, Allocations: c.Allocations, Tenants: c.Tenants, Disagreements: c.Disagreements, Found: found,
		NeverCharged: c.NeverCharged, NeverChargedFound: unmetered,
	}); err != nil {
		return c, fmt.Errorf("record comparison: %w", err)
	}
	if err := q.PruneChecks(ctx); err != nil {
		return c, fmt.Errorf("forget old comparisons: %w", err)
	}
	return c, nil
}
