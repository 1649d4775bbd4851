package budget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/budget/internal/budgetdb"
)

func from(r budgetdb.ProjectBudget) Budget {
	return Budget{
		Project: r.ProjectID, Org: r.OrgID, Currency: r.Currency, Minor: r.AmountMinor, Period: Period(r.Period),
		Alerts: r.Alerts, HardStop: r.HardStop, Version: r.Version, UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}
}

// Of reads the budget of a project, and how far it has come.
func (s *Service) Of(ctx context.Context, project id.Project) (Budget, error) {
	q := budgetdb.New(s.db)
	row, err := q.Get(ctx, project)
	if errors.Is(err, pgx.ErrNoRows) {
		return Budget{}, notSet()
	}
	if err != nil {
		return Budget{}, fmt.Errorf("read budget: %w", err)
	}
	return s.one(ctx, q, row)
}

// List lists the budgets of a tenant.
func (s *Service) List(ctx context.Context, org id.Org, page postgres.Slice[id.Project]) ([]Budget, error) {
	if _, err := account.Get(ctx, s.db, org); err != nil {
		return nil, err
	}
	q := budgetdb.New(s.db)
	rows, err := q.List(ctx, budgetdb.ListParams{OrgID: org, After: page.After.String(), PageSize: page.Limit})
	if err != nil {
		return nil, fmt.Errorf("list budgets: %w", err)
	}
	return s.look(ctx, q, rows)
}

func (s *Service) one(ctx context.Context, q *budgetdb.Queries, row budgetdb.ProjectBudget) (Budget, error) {
	all, err := s.look(ctx, q, []budgetdb.ProjectBudget{row})
	if err != nil {
		return Budget{}, err
	}
	return all[0], nil
}

// lookAtAll is look for budgets of which some cannot be computed: the others are still
// looked at.
func (s *Service) lookAtAll(ctx context.Context, q *budgetdb.Queries, rows []budgetdb.ProjectBudget) ([]Budget, error) {
	all, err := s.look(ctx, q, rows)
	if err == nil || ctx.Err() != nil {
		return all, err
	}
	var failed []error
	for _, row := range rows {
		one, err := s.one(ctx, q, row)
		if err != nil {
			failed = append(failed, fmt.Errorf("look at budget of project %s: %w", row.ProjectID, err))
			continue
		}
		all = append(all, one)
	}
	return all, errors.Join(failed...)
}

// look reads how far budgets have come, through a pool or a transaction.
func (s *Service) look(ctx context.Context, q *budgetdb.Queries, rows []budgetdb.ProjectBudget) ([]Budget, error) {
	at, err := s.clock(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read clock: %w", err)
	}
	out := make([]Budget, len(rows))
	ids, where := make([]string, len(rows)), make(map[id.Project]*Budget, len(rows))
	now := Month.around(at)
	for i, r := range rows {
		out[i] = from(r)
		out[i].At, out[i].Now = at, now
		ids[i], where[r.ProjectID] = r.ProjectID.String(), &out[i]
	}
	if len(rows) == 0 {
		return out, nil
	}
	spent, err := q.Spent(ctx, budgetdb.SpentParams{
		Projects: ids, At: at, PeriodStart: now.From, PeriodEnd: now.To, FirstSeconds: int64(s.first / time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("read what projects have spent: %w", err)
	}
	for _, r := range spent {
		b := where[r.ProjectID]
		b.Spent, b.Aside, b.Forecast = r.SpentMinor, r.AsideMinor, r.ForecastMinor
	}
	told, err := q.Told(ctx, budgetdb.ToldParams{PeriodStart: now.From, Projects: ids})
	if err != nil {
		return nil, fmt.Errorf("read what was told: %w", err)
	}
	for _, r := range told {
		b := where[r.ProjectID]
		b.Told = append(b.Told, Alert{Percent: r.Percent, At: r.ToldAt})
	}
	return out, nil
}
