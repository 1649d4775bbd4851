package price

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

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
type Service struct {
	db     *postgres.DB
	notice time.Duration
}

// New makes the service. Those who follow the list know a price for the notice before
// it begins. It connects to nothing.
func New(db *postgres.DB, notice time.Duration) *Service { return &Service{db: db, notice: notice} }

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
		set, err = put(ctx, tx, o, s.notice)
		return err
	})
	return set, err
}

// Put sets a price in a transaction that knows the SKU to exist.
func Put(ctx context.Context, tx pgx.Tx, o Offer) (Price, error) { return put(ctx, tx, o, Notice) }

func put(ctx context.Context, tx pgx.Tx, o Offer, notice time.Duration) (Price, error) {
	o.Meter = cmp.Or(o.Meter, Held)
	if err := o.check(); err != nil {
		return Price{}, err
	}
	if err := pricedb.New(tx).Begin(ctx, o.SKU); err != nil {
		return Price{}, fmt.Errorf("wait for those who rent: %w", err)
	}
	if err := timely(ctx, tx, o, notice); err != nil {
		return Price{}, err
	}
	row, err := pricedb.New(tx).Insert(ctx, pricedb.InsertParams{
		ID: id.New[id.Price](), SkuID: o.SKU, Meter: o.Meter, Currency: o.Currency, PriceMinor: o.Minor, ValidFrom: o.From,
		Reason: o.Reason, SetBy: auth.From(ctx).ID,
	})
	switch {
	case postgres.Violates(err, "sku_prices_not_in_the_past"):
		return Price{}, inThePast()
	case postgres.Violates(err, "sku_prices_one_at_a_time"):
		return Price{}, fault.New(fault.Conflict, "price_exists", "another price of %s in %s begins at that moment", o.SKU,
			o.Currency).WithRemedy("withdraw that one first, or name another time")
	case err != nil:
		return Price{}, fmt.Errorf("insert price: %w", err)
	}
	set := from(row)
	return set, record(ctx, tx, "price.set", set, false)
}

// timely refuses a price that begins in the past, or too soon for those who follow the
// list. Nobody becomes one of them until the transaction ends.
func timely(ctx context.Context, tx pgx.Tx, o Offer, notice time.Duration) error {
	q := pricedb.New(tx)
	now, err := q.Now(ctx)
	if err != nil {
		return fmt.Errorf("read clock: %w", err)
	}
	begins := now
	if o.From != nil {
		begins = *o.From
	}
	if begins.Before(now) {
		return inThePast()
	}
	if o.AtOnce || o.Meter != Held || !begins.Before(now.Add(notice)) { // what is reserved keeps its price
		return nil
	}
	n, err := q.Followers(ctx, pricedb.FollowersParams{Sku: o.SKU, Currency: o.Currency})
	if err != nil {
		return fmt.Errorf("count who follows the list: %w", err)
	}
	if n > 0 {
		return withoutNotice(o, n, notice)
	}
	return nil
}

// Withdraw removes a price that has not begun.
func (s *Service) Withdraw(ctx context.Context, of id.Price) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := pricedb.New(tx)
		sku, err := q.SKUOf(ctx, of)
		if err == nil {
			err = q.Begin(ctx, sku) // whoever charges by the list has done so, or waits
		}
		var row pricedb.SkuPrice
		if err == nil {
			row, err = q.Delete(ctx, of)
		}
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return notFound()
		case postgres.Violates(err, "sku_prices_begun_stay"), postgres.Violates(err, "allocation_terms_price_id_fkey"),
			postgres.Violates(err, "reservation_terms_price_id_fkey"):
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
		Metadata: map[string]any{
			"sku": p.SKU, "meter": p.Meter, "currency": p.Currency, "price_minor": p.Minor, "valid_from": p.From.UTC(),
		},
	}); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.PriceChanged, AggregateKind: "sku", AggregateID: p.SKU,
		Payload: eventwire.Price{
			PriceID: p.ID.String(), SKUID: p.SKU, Meter: p.Meter, Currency: p.Currency, PriceMinor: p.Minor,
			ValidFrom: p.From.UTC(), Withdrawn: withdrawn,
		},
	})
}
