package price

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/price/internal/pricedb"
)

func from(r pricedb.SkuPrice) Price {
	return Price{
		ID: r.ID, SKU: r.SkuID, Meter: r.Meter, Currency: r.Currency, Minor: r.PriceMinor, From: r.ValidFrom,
		Reason: r.Reason,
		SetAt:  r.SetAt, SetBy: r.SetBy,
	}
}

// InForce is the price of a SKU by a meter in a currency now, through a pool or a
// transaction; false: there is none.
func InForce(ctx context.Context, db pricedb.DBTX, sku, meter, currency string) (Price, bool, error) {
	row, err := pricedb.New(db).InForce(ctx, pricedb.InForceParams{SkuID: sku, Meter: meter, Currency: currency})
	if errors.Is(err, pgx.ErrNoRows) {
		return Price{}, false, nil
	}
	if err != nil {
		return Price{}, false, fmt.Errorf("read price in force: %w", err)
	}
	p := from(row)
	p.InForce = true
	return p, true, nil
}

// Span is a price as those see it who follow the list: from a whole second on, until the
// next one.
type Span struct {
	From  time.Time
	ID    id.Price
	Minor int64
}

// The meters that prices are for.
const (
	Held     = "held"     // time in which a machine is held
	Reserved = "reserved" // time in which a machine is reserved, and not used
)

// Spans reads the list of a SKU and a meter, in the order of its times, with the prices
// that are to come.
func Spans(ctx context.Context, db pricedb.DBTX, sku, meter, currency string) ([]Span, error) {
	rows, err := pricedb.New(db).Spans(ctx, pricedb.SpansParams{SkuID: sku, Meter: meter, Currency: currency})
	if err != nil {
		return nil, fmt.Errorf("read list of prices: %w", err)
	}
	out := make([]Span, len(rows))
	for i, r := range rows {
		out[i] = Span{From: r.Begins, ID: r.PriceID, Minor: r.PriceMinor}
	}
	return out, nil
}

// position is where the next page begins.
type position struct {
	SKU      string    `json:"sku"`
	Currency string    `json:"currency"`
	Meter    string    `json:"meter,omitempty"`
	From     time.Time `json:"from"`
}

// List lists the prices of a SKU or of all (""), in a currency or in all (""), by
// SKU, currency and meter, the newest first.
func (s *Service) List(ctx context.Context, sku, currency string, page postgres.Slice[position]) ([]Price, error) {
	rows, err := pricedb.New(s.db).List(ctx, pricedb.ListParams{
		Sku: sku, Currency: currency, AfterSku: page.After.SKU, AfterCurrency: page.After.Currency,
		AfterMeter: page.After.Meter, AfterFrom: page.After.From, PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list prices: %w", err)
	}
	out := make([]Price, len(rows))
	for i, r := range rows {
		out[i] = from(r.SkuPrice)
		out[i].Until, out[i].InForce = r.ValidUntil, r.InForce
	}
	return out, nil
}
