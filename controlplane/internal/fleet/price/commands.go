package price

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/price/internal/pricedb"
)

// Service holds the commands and queries of the package.
type Service struct{ db *postgres.DB }

// New makes the service. It connects to nothing.
func New(db *postgres.DB) *Service { return &Service{db: db} }

// Set sets a price that begins now or later.
func (s *Service) Set(ctx context.Context, o Offer) (Price, error) {
	var set Price
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		exists, err := pricedb.New(tx).SKUExists(ctx, o.SKU)
		if err != nil {
			return fmt.Errorf("look for SKU: %w", err)
		}
		if !exists {
			return noSKU(o.SKU)
		}
		set, err = Put(ctx, tx, o)
		return err
	})
	return set, err
}

// Put sets a price in a transaction that knows the SKU to exist.
func Put(ctx context.Context, tx pgx.Tx, o Offer) (Price, error) {
	if err := o.check(); err != nil {
		return Price{}, err
	}
	if err := pricedb.New(tx).Begin(ctx, o.SKU); err != nil {
		return Price{}, fmt.Errorf("wait for those who rent: %w", err)
	}
	row, err := pricedb.New(tx).Insert(ctx, pricedb.InsertParams{
		ID: id.New[id.Price](), SkuID: o.SKU, Currency: o.Currency, PriceMinor: o.Minor, ValidFrom: o.From, Reason: o.Reason,
		SetBy: auth.From(ctx).ID,
	})
	switch {
	case postgres.Violates(err, "sku_prices_not_in_the_past"):
		return Price{}, fault.New(fault.Invalid, "price_in_the_past", "a price cannot begin in the past: what was rented "+
			"until now was rented at the price of then").WithRemedy("leave out when it begins, or name a time to come").
			WithFields(fault.Field{Path: "body.valid_from", Message: "must not be in the past"})
	case postgres.Violates(err, "sku_prices_one_at_a_time"):
		return Price{}, fault.New(fault.Conflict, "price_exists", "another price of %s in %s begins at that moment", o.SKU,
			o.Currency).WithRemedy("withdraw that one first, or name another time")
	case err != nil:
		return Price{}, fmt.Errorf("insert price: %w", err)
	}
	set := from(row)
	return set, record(ctx, tx, "price.set", set, false)
}

// Withdraw removes a price that has not begun.
func (s *Service) Withdraw(ctx context.Context, of id.Price) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := pricedb.New(tx).Delete(ctx, of)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return notFound()
		case postgres.Violates(err, "sku_prices_begun_stay"), postgres.Violates(err, "allocation_terms_price_id_fkey"):
			return fault.New(fault.Conflict, "price_in_force", "the price has begun, and stays").
				WithRemedy("set another one, which ends it: gpuaas billing prices set")
		case err != nil:
			return fmt.Errorf("delete price: %w", err)
		}
		return record(ctx, tx, "price.withdraw", from(row), true)
	})
}

func record(ctx context.Context, tx pgx.Tx, action string, p Price, withdrawn bool) error {
	if err := audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "price", TargetID: p.ID.String(), Result: audit.Success, Reason: p.Reason,
		Metadata: map[string]any{"sku": p.SKU, "currency": p.Currency, "price_minor": p.Minor, "valid_from": p.From.UTC()},
	}); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.PriceChanged, AggregateKind: "sku", AggregateID: p.SKU,
		Payload: eventwire.Price{
			PriceID: p.ID.String(), SKUID: p.SKU, Currency: p.Currency, PriceMinor: p.Minor, ValidFrom: p.From.UTC(),
			Withdrawn: withdrawn,
		},
	})
}
