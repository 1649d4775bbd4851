package balance

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/balance/internal/balancedb"
)

func from(r balancedb.Balance) Standing {
	entered, _ := exactly(r.EnteredRate) // the database holds its form; of no row it is empty
	return Standing{
		entered: entered,
		Org:     r.OrgID, Version: r.Version, Status: Status(r.Status), Since: r.Since,
		Settings: Settings{
			Payment: Payment(r.Payment), CreditLine: r.CreditLineMinor, LowMinor: r.LowMinor, LowFor: seconds(r.LowSeconds),
			ReleaseFor: seconds(r.ReleaseSeconds), Grace: seconds(r.GraceSeconds), RearmPercent: r.RearmPercent,
		},
	}
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// exactly reads a number that may be larger than 64 bits.
func exactly(text string) (*big.Int, error) {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, fmt.Errorf("%q is no number", text)
	}
	return n, nil
}

// Of reads how a tenant stands now.
func (s *Service) Of(ctx context.Context, org id.Org) (Standing, error) {
	return s.look(ctx, balancedb.New(s.db), org)
}

// look reads how a tenant stands, through a pool or a transaction.
func (s *Service) look(ctx context.Context, q *balancedb.Queries, org id.Org) (Standing, error) {
	seen, err := q.Look(ctx, balancedb.LookParams{OrgID: org, At: s.moment()})
	if errors.Is(err, pgx.ErrNoRows) {
		return Standing{}, noAccount()
	}
	if err != nil {
		return Standing{}, fmt.Errorf("read what tenant %s has: %w", org, err)
	}
	now := Standing{Org: org, Settings: unlimited(), Status: Healthy, Since: seen.Since}
	if seen.Limited {
		now = from(balancedb.Balance{
			OrgID: org, Payment: seen.Payment, CreditLineMinor: seen.CreditLineMinor, LowMinor: seen.LowMinor,
			LowSeconds: seen.LowSeconds, ReleaseSeconds: seen.ReleaseSeconds, RearmPercent: seen.RearmPercent,
			GraceSeconds: seen.GraceSeconds, Status: seen.Status, Since: seen.Since, Version: seen.Version,
			EnteredRate: seen.EnteredRate,
		})
	}
	now.Currency, now.At = seen.Currency, seen.At
	now.Posted, now.Accrued, now.Held, now.Burn = seen.PostedMinor, seen.AccruedMinor, seen.HeldMinor, seen.BurnMinor
	now.Live, now.Reserved = seen.Live, seen.Reserved
	now.rate, err = exactly(seen.Rate)
	return now, err
}

// clocksAgree compares the clock of the database with that of this process.
func (s *Service) clocksAgree(ctx context.Context) error {
	at, err := s.clock(ctx, balancedb.New(s.db))
	if err != nil {
		return fmt.Errorf("read clock: %w", err)
	}
	return postgres.ClocksAgree(at, time.Now())
}

// standings are how all tenants stand that are held to a limit.
func (s *Service) standings(ctx context.Context) ([]Standing, error) {
	q := balancedb.New(s.db)
	at, err := s.clock(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read clock: %w", err)
	}
	rows, err := q.Standings(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("evaluate balances: %w", err)
	}
	out := make([]Standing, len(rows))
	for i, r := range rows {
		out[i] = from(r.Balance)
		out[i].At, out[i].Posted, out[i].Accrued, out[i].Held, out[i].Burn = at, r.PostedMinor, r.AccruedMinor, r.HeldMinor,
			r.BurnMinor
		out[i].Live, out[i].Reserved = r.Live, r.Reserved
		if out[i].rate, err = exactly(r.Rate); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// oneByOne is standings for when a tenant cannot be computed: the others still are.
func (s *Service) oneByOne(ctx context.Context) ([]Standing, error) {
	q := balancedb.New(s.db)
	limited, err := q.Limited(ctx)
	if err != nil {
		return nil, fmt.Errorf("list who is held to a limit: %w", err)
	}
	var out []Standing
	var failed []error
	for _, org := range limited {
		if ctx.Err() != nil {
			return out, errors.Join(append(failed, ctx.Err())...)
		}
		now, err := s.look(ctx, q, org)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		out = append(out, now)
	}
	return out, errors.Join(failed...)
}
