package balance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/balance/internal/balancedb"
)

// Set changes how far a tenant may go, and when it is warned. It refuses what would
// release allocations of the tenant, unless release says that this is meant.
func (s *Service) Set(ctx context.Context, org id.Org, change func(*Settings) error, release bool) (Standing, error) {
	var now Standing
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := balancedb.New(tx)
		if _, err := q.Lock(ctx, org); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("lock balance of tenant %s: %w", org, err)
		}
		before, err := s.look(ctx, q, org)
		if err != nil {
			return err
		}
		to := before.Settings
		if err := change(&to); err != nil {
			return err
		}
		if to.Payment == Prepaid && to.CreditLine == nil {
			to.CreditLine = new(int64)
		}
		if err := to.check(); err != nil {
			return err
		}
		row, err := q.Put(ctx, balancedb.PutParams{
			OrgID: org, Payment: string(to.Payment), CreditLineMinor: to.CreditLine, LowMinor: to.LowMinor,
			LowSeconds: int64(to.LowFor.Seconds()), ReleaseSeconds: int64(to.ReleaseFor.Seconds()),
			RearmPercent: to.RearmPercent, GraceSeconds: int64(to.Grace.Seconds()), UpdatedBy: auth.From(ctx).ID,
		})
		if postgres.Violates(err, "balances_org_id_fkey") {
			return noAccount()
		}
		if err != nil {
			return fmt.Errorf("set limits of tenant: %w", err)
		}
		if now, err = s.look(ctx, q, org); err != nil {
			return err
		}
		was := now.Status
		if before.CreditLine == nil && was != Healthy { // nobody has looked at it while it was not limited
			if err := move(ctx, q, now, Healthy); err != nil {
				return err
			}
			was, now.Status = Healthy, Healthy
		}
		if now, err = enter(ctx, q, now); err != nil {
			return err
		}
		if now.endsSooner(before) && !release {
			return now.wouldRelease()
		}
		if err := warn(ctx, tx, was, now); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			Action: "balance.set", TargetKind: "billing_account", TargetID: org.String(), Org: org, Result: audit.Success,
			Metadata: map[string]any{
				"payment": to.Payment, "credit_line_minor": to.CreditLine, "low_minor": to.LowMinor,
				"low_seconds": to.LowFor.Seconds(), "release_seconds": to.ReleaseFor.Seconds(),
				"grace_seconds": to.Grace.Seconds(), "rearm_percent": to.RearmPercent, "version": row.Version,
			},
		})
	})
	return now, err
}

// enter moves a tenant to the state that it is in by what it has.
func enter(ctx context.Context, q *balancedb.Queries, now Standing) (Standing, error) {
	next := now.Next()
	if next == now.Status {
		return now, nil
	}
	to, err := Lifecycle.Next(now.Status, eventTo(now.Status, next))
	if err != nil {
		return now, err
	}
	if err := move(ctx, q, now, to); err != nil {
		return now, err
	}
	now.Status, now.Since = to, now.At
	return now, nil
}

func move(ctx context.Context, q *balancedb.Queries, now Standing, to Status) error {
	if err := q.Move(ctx, balancedb.MoveParams{
		OrgID: now.Org, Status: string(to), Since: now.At, EnteredRate: now.rate.String(),
	}); err != nil {
		return fmt.Errorf("move balance of tenant %s: %w", now.Org, err)
	}
	return nil
}

// Admit refuses to let a number of machines to a tenant that cannot pay their first
// window. Until the transaction ends, others who are let something to the tenant wait.
func (s *Service) Admit(ctx context.Context, tx pgx.Tx, t account.Terms, machines int32) error {
	first, err := t.First(s.cfg.First)
	if err != nil || first == 0 {
		return err
	}
	now, limited, err := s.locked(ctx, tx, t.Org)
	if err != nil || !limited {
		return err
	}
	asked := first * int64(machines)
	if left, _ := now.Available(); left < asked {
		return now.insufficient(asked, s.cfg.First)
	}
	return nil
}

// Hold sets the first window of an allocation aside, in the transaction that makes it.
func (s *Service) Hold(ctx context.Context, tx pgx.Tx, t account.Terms) error {
	first, err := t.First(s.cfg.First)
	if err != nil || first == 0 {
		return err
	}
	now, limited, err := s.locked(ctx, tx, t.Org)
	if err != nil || !limited {
		return err
	}
	if left, _ := now.Available(); left < first {
		return now.insufficient(first, s.cfg.First)
	}
	if err := balancedb.New(tx).Hold(ctx, balancedb.HoldParams{
		AllocationID: t.Allocation, OrgID: t.Org, AmountMinor: first,
	}); err != nil {
		return fmt.Errorf("hold the first window: %w", err)
	}
	return nil
}

// locked locks the row of a tenant and reads how it stands; false: it is not limited.
func (s *Service) locked(ctx context.Context, tx pgx.Tx, org id.Org) (Standing, bool, error) {
	q := balancedb.New(tx)
	if _, err := q.Lock(ctx, org); errors.Is(err, pgx.ErrNoRows) {
		return Standing{}, false, nil
	} else if err != nil {
		return Standing{}, false, fmt.Errorf("lock balance of tenant %s: %w", org, err)
	}
	now, err := s.look(ctx, q, org) // after the lock: it sees what the one before has done
	return now, now.CreditLine != nil, err
}

// Evaluate looks at all tenants that are held to a limit: it moves them to their states,
// warns them, and releases what cannot be paid. What fails does not hold up the rest, and
// is tried again with the next look.
func (s *Service) Evaluate(ctx context.Context) error {
	ctx = auth.With(ctx, auth.System("billing"))
	began := time.Now()
	var failed []error
	all, err := s.standings(ctx)
	if err != nil {
		failed = append(failed, err)
		if all, err = s.oneByOne(ctx); err != nil {
			failed = append(failed, err)
		}
	}
	evaluated.Record(ctx, time.Since(began).Seconds())
	for _, now := range all {
		if now.Next() == now.Status && !now.releases() {
			continue
		}
		if err := s.settle(ctx, now.Org); err != nil {
			failed = append(failed, fmt.Errorf("settle balance of tenant %s: %w", now.Org, err))
		}
	}
	return errors.Join(failed...)
}

// settle moves a tenant to its state, and releases what it cannot pay.
func (s *Service) settle(ctx context.Context, org id.Org) error {
	var now Standing
	if err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, limited, err := s.locked(ctx, tx, org)
		if err != nil || !limited {
			return err
		}
		if now, err = enter(ctx, balancedb.New(tx), before); err != nil {
			return err
		}
		return warn(ctx, tx, before.Status, now)
	}); err != nil {
		return err
	}
	if !now.releases() {
		return nil
	}
	if goOn, err := s.endReservations(ctx, now); err != nil || !goOn {
		return err
	}
	due, err := balancedb.New(s.db).Releasable(ctx, balancedb.ReleasableParams{OrgID: org, At: now.At})
	if err != nil {
		return fmt.Errorf("list what is released: %w", err)
	}
	var failed []error
	for _, of := range due {
		goOn, err := s.release(ctx, org, of)
		if err != nil {
			failed = append(failed, fmt.Errorf("release allocation %s: %w", of, err))
		} else if !goOn {
			break
		}
	}
	return errors.Join(failed...)
}

// unpaid is why allocations are released.
const unpaid = "the balance of the tenant is used up"

// release ends one allocation that cannot be paid, and records it. It says whether the
// tenant still has nothing: what was paid meanwhile stops the releases.
func (s *Service) release(ctx context.Context, org id.Org, of id.Allocation) (goOn bool, err error) {
	return s.end(ctx, org, func(ctx context.Context, tx pgx.Tx) error {
		ended, err := s.cfg.Releases.ReleaseUnpaid(ctx, tx, of, unpaid)
		if err != nil || !ended {
			return err
		}
		first, err := balancedb.New(tx).Released(ctx, balancedb.ReleasedParams{AllocationID: of, OrgID: org, Reason: unpaid})
		if err != nil {
			return fmt.Errorf("record release: %w", err)
		}
		if first == 0 {
			return fmt.Errorf("allocation %s was released for want of money before", of)
		}
		released.Add(ctx, 1)
		return nil
	})
}

// endReservations ends what is reserved and cannot be paid, before anything that is used:
// else each release would make a node that is reserved and not used.
func (s *Service) endReservations(ctx context.Context, now Standing) (goOn bool, err error) {
	due, err := balancedb.New(s.db).Endable(ctx, balancedb.EndableParams{OrgID: now.Org, At: now.At})
	if err != nil {
		return false, fmt.Errorf("list reservations that cannot be paid: %w", err)
	}
	var failed []error
	for _, of := range due {
		goOn, err := s.end(ctx, now.Org, func(ctx context.Context, tx pgx.Tx) error {
			return s.endReservation(ctx, tx, now.Org, of)
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("end reservation %s: %w", of, err))
		} else if !goOn {
			return false, errors.Join(failed...)
		}
	}
	return true, errors.Join(failed...)
}

func (s *Service) endReservation(ctx context.Context, tx pgx.Tx, org id.Org, of id.Reservation) error {
	ended, err := s.cfg.Releases.EndUnpaid(ctx, tx, of, unpaid)
	if err != nil || !ended {
		return err
	}
	first, err := balancedb.New(tx).ReservationEnded(ctx, balancedb.ReservationEndedParams{
		ReservationID: of, OrgID: org, Reason: unpaid,
	})
	if err != nil {
		return fmt.Errorf("record end: %w", err)
	}
	if first == 0 {
		return fmt.Errorf("reservation %s was ended for want of money before", of)
	}
	return nil
}

// end does something to a tenant that has nothing left, under the lock of its row; false:
// it has something again.
func (s *Service) end(ctx context.Context, org id.Org, do postgres.TxFunc) (goOn bool, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now, limited, err := s.locked(ctx, tx, org)
		if goOn = limited && now.releases(); err != nil || !goOn {
			return err
		}
		return do(ctx, tx)
	})
	return goOn, err
}

// warnings are the events that tell of a state that was entered.
var warnings = map[Status]eventwire.Type{
	Low: eventwire.BalanceLow, Pending: eventwire.BalanceEnding, Depleted: eventwire.BalanceDepleted,
}

// warn tells that a state was entered. That it is better than the one before is not
// told, unless nothing was left before.
func warn(ctx context.Context, tx pgx.Tx, before Status, now Standing) error {
	typ, told := warnings[now.Status]
	if !told || before == now.Status || before == Pending && now.Status == Low {
		return nil
	}
	left, _ := now.Available()
	payload := eventwire.Balance{
		OrgID: now.Org.String(), Status: string(now.Status), Currency: now.Currency, AvailableMinor: left,
		BurnMinorPerHour: now.Burn, DepletesAt: now.DepletesAt(),
	}
	if lasts, ends := now.Runway(); ends {
		n := int64(lasts.Seconds())
		payload.RunwaySeconds = &n
	}
	if now.Status == Depleted && now.costs() {
		at := now.Since.Add(now.Grace).UTC()
		payload.ReleasesAt = &at
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: typ, AggregateKind: "billing_account", AggregateID: now.Org.String(), Org: now.Org, Payload: payload,
	})
}

// Cost is what an allocation costs for a time, by its terms.
func Cost(t account.Terms, lasts time.Duration) (int64, error) {
	return t.Cost(lasts)
}
