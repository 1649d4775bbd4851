package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account/internal/accountdb"
	"gpuaas/controlplane/internal/money/rating"
)

// Service holds the commands and queries of the package.
type Service struct {
	db       *postgres.DB
	required bool
}

// New makes the service. Unless accounts are required, tenants without one rent free
// of charge. It connects to nothing.
func New(db *postgres.DB, required bool) *Service { return &Service{db: db, required: required} }

// Set opens the account of a tenant, or changes the share of prices that it pays, and
// whether they follow the list. It takes effect for what is rented from now on.
func (s *Service) Set(ctx context.Context, org id.Org, w Wish) (Account, error) {
	if err := w.check(); err != nil {
		return Account{}, err
	}
	var set Account
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := accountdb.New(tx).Put(ctx, accountdb.PutParams{
			OrgID: org, Currency: w.Currency, PaidShare: w.Paid, Pricing: (*string)(w.Pricing), UpdatedBy: auth.From(ctx).ID,
		})
		switch {
		case postgres.Violates(err, "billing_accounts_org_id_fkey"):
			return noTenant()
		case postgres.Violates(err, "billing_accounts_currency_stays"):
			return fault.New(fault.Conflict, "currency_fixed", "the tenant pays in another currency than %s, and that stays",
				w.Currency).WithRemedy("leave the currency as it is (gpuaas billing account show); who wants to pay in another " +
				"one needs another tenant")
		case err != nil:
			return fmt.Errorf("set billing account: %w", err)
		}
		if set = from(row); w.Version != nil && set.Version != *w.Version+1 {
			return changed()
		}
		return record(ctx, tx, "billing_account.set", org, id.Project{}, "", map[string]any{
			"currency": set.Currency, "paid_share": set.Paid, "pricing": set.Pricing, "version": set.Version,
		})
	})
	return set, err
}

// SetFree declares that a project pays nothing for what it rents from now on.
func (s *Service) SetFree(ctx context.Context, project id.Project, reason string) (FreeProject, error) {
	if reason == "" || len(reason) > 500 {
		return FreeProject{}, invalid("reason", "must be 1 to 500 characters long")
	}
	var set FreeProject
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := accountdb.New(tx)
		org, err := q.OrgOf(ctx, project)
		if err != nil {
			return fmt.Errorf("read tenant of project: %w", err) // the guard of the API has found the project
		}
		if _, err := Get(ctx, tx, org); err != nil {
			return err
		}
		row, err := q.SetFree(ctx, accountdb.SetFreeParams{
			ProjectID: project, OrgID: org, Reason: reason, SetBy: auth.From(ctx).ID,
		})
		if err != nil {
			return fmt.Errorf("declare project free: %w", err)
		}
		set = freeFrom(row)
		return record(ctx, tx, "billing_account.free_project", org, project, reason, nil)
	})
	return set, err
}

// EndFree ends that a project pays nothing. What it rents already stays free.
func (s *Service) EndFree(ctx context.Context, project id.Project) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := accountdb.New(tx).EndFree(ctx, project)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.NotFound, "project_not_free", "the project is not free of charge").
				WithRemedy("see which are: gpuaas billing account show")
		}
		if err != nil {
			return fmt.Errorf("end free project: %w", err)
		}
		return record(ctx, tx, "billing_account.charge_project", row.OrgID, project, row.Reason, nil)
	})
}

// Offer says on what terms an allocation would be made now. It refuses what cannot be
// charged: a SKU without a price in the currency of the tenant, or anything for a tenant
// without an account where one is required.
func (s *Service) Offer(ctx context.Context, tx pgx.Tx, of Rented) (Terms, error) {
	return s.terms(ctx, tx, of)
}

// Freeze agrees on the terms of an allocation, in the transaction that makes it.
func (s *Service) Freeze(ctx context.Context, tx pgx.Tx, of Rented) (Terms, error) {
	t, err := s.terms(ctx, tx, of)
	if err != nil {
		return Terms{}, err
	}
	row := accountdb.FreezeParams{
		AllocationID: t.Allocation, OrgID: t.Org, ProjectID: t.Project, SkuID: t.SKU, Basis: string(t.Basis),
		PriceID: t.Price, PaidShare: t.Paid, Units: t.Units, FreeBecause: t.Because, Pricing: string(t.Pricing),
	}
	if t.Basis != NoAccount {
		row.Currency, row.PriceMinor = &t.Currency, &t.Minor
	}
	frozen, err := accountdb.New(tx).Freeze(ctx, row)
	if err != nil {
		return Terms{}, fmt.Errorf("freeze terms of allocation: %w", err)
	}
	made := termsFrom(frozen)
	made.List = t.List
	return made, nil
}

// terms are what holds for an allocation that is made now. The account cannot change
// until the transaction ends.
func (s *Service) terms(ctx context.Context, tx pgx.Tx, of Rented) (Terms, error) {
	t := Terms{
		Allocation: of.Allocation, Org: of.Org, Project: of.Project, SKU: of.SKU, Basis: Priced,
		Units: rating.Units(of.GPUs), Pricing: Fixed,
	}
	q := accountdb.New(tx)
	row, err := q.Share(ctx, accountdb.ShareParams{OrgID: of.Org, Sku: of.SKU})
	account, err := found(row.BillingAccount, err)
	switch {
	case fault.CodeOf(err) == "billing_account_missing" && !s.required:
		t.Basis, t.Because = NoAccount, "the tenant has no billing account"
		return t, nil
	case fault.CodeOf(err) == "billing_account_missing":
		return t, fault.New(fault.Forbidden, "billing_account_missing",
			"the tenant has no billing account: nothing is let to it").
			WithRemedy("ask the operator of the platform to open one: gpuaas billing account set --tenant TENANT --currency USD")
	case err != nil:
		return t, err
	}
	p, priced, err := price.InForce(ctx, tx, of.SKU, price.Held, account.Currency)
	if err == nil && !priced {
		err = notPriced(of.SKU, account.Currency)
	}
	if err != nil {
		return t, err
	}
	t.Currency, t.Price, t.Minor, t.Paid, t.Pricing = account.Currency, p.ID, p.Minor, account.Paid, account.Pricing
	t.FrozenAt = row.At
	if t.Pricing == FollowsList {
		if t.List, err = price.Spans(ctx, tx, of.SKU, price.Held, account.Currency); err != nil {
			return t, err
		}
	}
	if of.Placed {
		t.Basis, t.Paid, t.Because = Placed, 0, "an operator placed it for the project"
		return t, nil
	}
	free, err := q.FreeProject(ctx, of.Project)
	switch {
	case err == nil:
		t.Basis, t.Paid, t.Because = Free, 0, free.Reason
	case !errors.Is(err, pgx.ErrNoRows):
		return t, fmt.Errorf("read free project: %w", err)
	}
	return t, nil
}

// OfferReserved says on what terms nodes would be reserved now, for what is not used of
// them. A free project is not charged, and neither is a SKU that has no such price.
func (s *Service) OfferReserved(ctx context.Context, tx pgx.Tx, of Rented) (Terms, error) {
	t := Terms{
		Org: of.Org, Project: of.Project, SKU: of.SKU, Basis: Priced, Units: rating.Units(of.GPUs), Pricing: Fixed,
	}
	q := accountdb.New(tx)
	row, err := q.Share(ctx, accountdb.ShareParams{OrgID: of.Org, Sku: of.SKU})
	account, err := found(row.BillingAccount, err)
	if err != nil {
		return t, err
	}
	if !of.Project.IsZero() {
		if _, err := q.FreeProject(ctx, of.Project); err == nil {
			return t, projectFree()
		} else if !errors.Is(err, pgx.ErrNoRows) {
			return t, fmt.Errorf("read free project: %w", err)
		}
	}
	p, priced, err := price.InForce(ctx, tx, of.SKU, price.Reserved, account.Currency)
	if err == nil && !priced {
		err = notPricedReserved(of.SKU, account.Currency)
	}
	if err != nil {
		return t, err
	}
	t.Currency, t.Price, t.Minor, t.Paid, t.FrozenAt = account.Currency, p.ID, p.Minor, account.Paid, row.At
	return t, nil
}

func record(
	ctx context.Context, tx pgx.Tx, action string, org id.Org, project id.Project, reason string, metadata map[string]any,
) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "billing_account", TargetID: org.String(), Org: org, Project: project,
		Result: audit.Success, Reason: reason, Metadata: metadata,
	})
}
