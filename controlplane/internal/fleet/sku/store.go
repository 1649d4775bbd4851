package sku

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/sku/internal/skudb"
)

func from(r skudb.Sku) SKU {
	return SKU{
		ID: r.ID, Status: Status(r.Status), Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Terms: Terms{
			DisplayName: r.DisplayName, GPUVendor: Vendor(r.GpuVendor), GPUModel: r.GpuModel, GPUsTotal: r.GpusTotal,
			CapacityShape: Shape(r.CapacityShape), AllowedCounts: r.AllowedCounts, PriceMinor: r.PriceMinor,
			PriceCurrency: r.PriceCurrency, Hardware: hardwareOf(r.Hardware), UserAccessOnly: r.UserAccessOnly,
		},
	}
}

// at is a SKU at the price that is in force.
func at(r skudb.Sku, price int64) SKU {
	r.PriceMinor = price
	return from(r)
}

func read(id string, row skudb.Sku, price int64, err error) (SKU, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return SKU{}, notFound(id)
	}
	if err != nil {
		return SKU{}, fmt.Errorf("read SKU: %w", err)
	}
	return at(row, price), nil
}

// Get reads one SKU through a pool or a transaction.
func Get(ctx context.Context, db skudb.DBTX, id string) (SKU, error) {
	row, err := skudb.New(db).Get(ctx, id)
	return read(id, row.Sku, row.Price, err)
}

// ForUse reads a SKU for a command that makes something of it, and refuses one
// that may not be used. Until the transaction ends nobody can disable or delete
// the SKU.
func ForUse(ctx context.Context, tx pgx.Tx, id string) (SKU, error) {
	row, err := skudb.New(tx).Share(ctx, id)
	found, err := read(id, row.Sku, row.Price, err)
	if err != nil {
		return SKU{}, err
	}
	if found.Status != Active {
		return SKU{}, fault.New(fault.Conflict, "sku_disabled", "the SKU %s is disabled and gets no new nodes", id).
			WithRemedy("enable it: gpuaas sku update %s --status active", id)
	}
	return found, nil
}

// encoded is the hardware as rows keep it.
func (h Hardware) encoded() json.RawMessage {
	raw, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("encode hardware: %v", err)) // plain numbers only
	}
	return raw
}

// hardwareOf reads the hardware of a row; what cannot be read asks for nothing.
func hardwareOf(raw json.RawMessage) (h Hardware) {
	if json.Unmarshal(raw, &h) != nil {
		return Hardware{}
	}
	return h
}
