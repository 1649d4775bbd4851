package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account/internal/accountdb"
)

func from(r accountdb.BillingAccount) Account {
	return Account{
		Org: r.OrgID, Currency: r.Currency, Paid: r.PaidShare, Pricing: Pricing(r.Pricing), Version: r.Version,
		CreatedAt: r.CreatedAt,
		UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}
}

func freeFrom(r accountdb.BillingFreeProject) FreeProject {
	return FreeProject{Project: r.ProjectID, Reason: r.Reason, Since: r.Since, SetBy: r.SetBy}
}

func termsFrom(r accountdb.AllocationTerm) Terms {
	t := Terms{
		Allocation: r.AllocationID, Org: r.OrgID, Project: r.ProjectID, SKU: r.SkuID, Basis: Basis(r.Basis), Price: r.PriceID,
		Paid: r.PaidShare, Units: r.Units, Because: r.FreeBecause, FrozenAt: r.FrozenAt,
		Pricing: Pricing(r.Pricing),
	}
	if r.Currency != nil {
		t.Currency = *r.Currency
	}
	if r.PriceMinor != nil {
		t.Minor = *r.PriceMinor
	}
	return t
}

// Get reads the account of a tenant through a pool or a transaction.
func Get(ctx context.Context, db accountdb.DBTX, org id.Org) (Account, error) {
	row, err := accountdb.New(db).Get(ctx, org)
	return found(row, err)
}

func found(row accountdb.BillingAccount, err error) (Account, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Account{}, missing()
	}
	if err != nil {
		return Account{}, fmt.Errorf("read billing account: %w", err)
	}
	return from(row), nil
}

// FreeProjects lists the projects of a tenant that pay nothing.
func (s *Service) FreeProjects(ctx context.Context, org id.Org, page postgres.Slice[id.Project]) (
	[]FreeProject, error,
) {
	if _, err := Get(ctx, s.db, org); err != nil {
		return nil, err
	}
	rows, err := accountdb.New(s.db).FreeProjects(ctx, accountdb.FreeProjectsParams{
		OrgID: org, After: page.After.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list free projects: %w", err)
	}
	out := make([]FreeProject, len(rows))
	for i, r := range rows {
		out[i] = freeFrom(r)
	}
	return out, nil
}

// TermsOf reads what was agreed for an allocation of a project.
func (s *Service) TermsOf(ctx context.Context, project id.Project, of id.Allocation) (Terms, error) {
	row, err := accountdb.New(s.db).Terms(ctx, accountdb.TermsParams{AllocationID: of, ProjectID: project})
	if errors.Is(err, pgx.ErrNoRows) {
		return Terms{}, fault.New(fault.NotFound, "allocation_terms_not_found",
			"there is no such allocation in the project, or it was made before there was billing and is not charged").
			WithRemedy("see which there are: gpuaas allocation list")
	}
	if err != nil {
		return Terms{}, fmt.Errorf("read terms of allocation: %w", err)
	}
	t := termsFrom(row)
	if t.Pricing == FollowsList {
		t.List, err = price.Spans(ctx, s.db, t.SKU, price.Held, t.Currency)
	}
	return t, err
}
