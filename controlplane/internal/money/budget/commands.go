package budget

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/budget/internal/budgetdb"
)

// Set sets the budget of a project, or another one. Percentages that a higher amount
// makes untrue are told again when they are reached.
func (s *Service) Set(ctx context.Context, project id.Project, w Wish) (Budget, error) {
	var now Budget
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := budgetdb.New(tx)
		org, err := q.OrgOf(ctx, project)
		if err != nil {
			return fmt.Errorf("read tenant of project: %w", err) // the guard of the API has found the project
		}
		of, err := account.Get(ctx, tx, org)
		if err != nil {
			return err
		}
		if w, err = w.checked(); err != nil {
			return err
		}
		if of.Currency != w.Currency {
			return otherCurrency(of.Currency, w.Currency)
		}
		row, err := q.Put(ctx, budgetdb.PutParams{
			ProjectID: project, OrgID: org, Currency: of.Currency, AmountMinor: w.Minor, Period: string(w.Period),
			Alerts: append([]int32{}, w.Alerts...), HardStop: w.HardStop, UpdatedBy: auth.From(ctx).ID,
		})
		if err != nil {
			return fmt.Errorf("set budget: %w", err)
		}
		if now, err = s.one(ctx, q, row); err != nil {
			return err
		}
		if untrue := now.untrue(); len(untrue) > 0 {
			if err := q.Arm(ctx, budgetdb.ArmParams{
				ProjectID: project, PeriodStart: now.Now.From, Percents: untrue,
			}); err != nil {
				return fmt.Errorf("arm alerts: %w", err)
			}
			if now, err = s.one(ctx, q, row); err != nil {
				return err
			}
		}
		return record(ctx, tx, "budget.set", now)
	})
	return now, err
}

// Remove removes the budget of a project: nothing is told, and nothing is stopped.
func (s *Service) Remove(ctx context.Context, project id.Project) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := budgetdb.New(tx).Remove(ctx, project)
		if errors.Is(err, pgx.ErrNoRows) {
			return notSet()
		}
		if err != nil {
			return fmt.Errorf("remove budget: %w", err)
		}
		return record(ctx, tx, "budget.remove", from(row))
	})
}

func record(ctx context.Context, tx pgx.Tx, action string, b Budget) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "project", TargetID: b.Project.String(), Org: b.Org, Project: b.Project,
		Result: audit.Success,
		Metadata: map[string]any{
			"amount_minor": b.Minor, "currency": b.Currency, "period": b.Period, "alerts": b.Alerts,
			"hard_stop": b.HardStop, "version": b.Version,
		},
	})
}

// Admit refuses to let a number of machines to a project whose budget does not reach for
// their first window and stops it. Until the transaction ends, others who rent for the
// project wait.
func (s *Service) Admit(ctx context.Context, tx pgx.Tx, t account.Terms, machines int32) error {
	first, err := t.First(s.first)
	if err != nil || first == 0 {
		return err
	}
	q := budgetdb.New(tx)
	row, err := q.LockStop(ctx, t.Project)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock budget of project %s: %w", t.Project, err)
	}
	now, err := s.one(ctx, q, row) // after the lock: it sees what the one before has rented
	if err != nil {
		return err
	}
	if asked := first * int64(machines); now.Spent+now.Aside+asked > now.Minor {
		return now.exceeded(asked, s.first)
	}
	return nil
}

// batch is how many budgets are looked at together.
const batch = 1000

// Evaluate looks at all budgets, and tells projects which percentages they have reached.
// What fails does not hold up the rest, and is tried again with the next look.
func (s *Service) Evaluate(ctx context.Context) error {
	ctx = auth.With(ctx, auth.System("billing"))
	q := budgetdb.New(s.db)
	var failed []error
	var after id.Project
	for {
		rows, err := q.All(ctx, budgetdb.AllParams{After: after.String(), Batch: batch})
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("list budgets: %w", err))...)
		}
		all, err := s.lookAtAll(ctx, q, rows)
		if err != nil {
			failed = append(failed, err)
		}
		for _, r := range rows {
			after = r.ProjectID
		}
		for _, b := range all {
			if len(b.due()) == 0 {
				continue
			}
			if err := s.tell(ctx, b.Project); err != nil {
				failed = append(failed, fmt.Errorf("tell of budget of project %s: %w", b.Project, err))
			}
		}
		if len(rows) < batch || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}

// tell tells a project what it has reached, each percentage once in a period.
func (s *Service) tell(ctx context.Context, project id.Project) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := budgetdb.New(tx)
		row, err := q.Lock(ctx, project)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // removed meanwhile
		}
		if err != nil {
			return fmt.Errorf("lock budget: %w", err)
		}
		now, err := s.one(ctx, q, row)
		if err != nil {
			return err
		}
		for _, percent := range now.due() {
			first, err := q.Tell(ctx, budgetdb.TellParams{
				ProjectID: project, PeriodStart: now.Now.From, Percent: percent, AmountMinor: now.Minor,
				SpentMinor: now.Spent, ToldAt: now.At,
			})
			if err != nil {
				return fmt.Errorf("record alert: %w", err)
			}
			if first == 0 {
				continue
			}
			if err := announce(ctx, tx, now, percent); err != nil {
				return err
			}
		}
		return nil
	})
}

func announce(ctx context.Context, tx pgx.Tx, b Budget, percent int32) error {
	told.Add(ctx, 1)
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.BudgetReached, AggregateKind: "project", AggregateID: b.Project.String(), Org: b.Org,
		Project: b.Project,
		Payload: eventwire.Budget{
			OrgID: b.Org.String(), ProjectID: b.Project.String(), Percent: percent, Currency: b.Currency,
			AmountMinor: b.Minor, SpentMinor: b.Spent, ForecastMinor: b.Forecast, PeriodStart: b.Now.From,
			PeriodEnd: b.Now.To, HardStop: b.HardStop,
		},
	})
}
