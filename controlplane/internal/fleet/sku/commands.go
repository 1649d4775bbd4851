package sku

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/fleet/sku/internal/skudb"
)

// Service holds the commands and queries of the package.
type Service struct{ db *postgres.DB }

// New makes the service. It connects to nothing.
func New(db *postgres.DB) *Service { return &Service{db: db} }

// Create adds a SKU to the catalog.
func (s *Service) Create(ctx context.Context, id string, terms Terms) (SKU, error) {
	var fields []fault.Field
	if !idForm.MatchString(id) {
		fields = append(fields, fault.Field{
			Path:    "body.sku_id",
			Message: "must be 1 to 63 of a-z, 0-9, - and ., with a letter or digit at both ends",
		})
	}
	terms, err := terms.checked(fields)
	if err != nil {
		return SKU{}, err
	}
	var made SKU
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := skudb.New(tx).Insert(ctx, skudb.InsertParams{
			ID: id, DisplayName: terms.DisplayName, GpuVendor: string(terms.GPUVendor), GpuModel: terms.GPUModel,
			GpusTotal:     terms.GPUsTotal,
			CapacityShape: string(terms.CapacityShape), AllowedCounts: terms.AllowedCounts,
			PriceMinor: terms.PriceMinor, PriceCurrency: terms.PriceCurrency, Hardware: terms.Hardware.encoded(),
			UserAccessOnly: terms.UserAccessOnly,
		})
		if postgres.Violates(err, "skus_pkey") {
			return fault.New(fault.Conflict, "sku_id_taken", "there is, or was, a SKU with the id %s",
				id).WithRemedy("choose another id")
		}
		if err != nil {
			return fmt.Errorf("insert SKU: %w", err)
		}
		made = from(row)
		return record(ctx, tx, "sku.create", made, string(made.Status))
	})
	return made, err
}

// Update changes a SKU. It fails if the SKU is no longer at this version.
func (s *Service) Update(ctx context.Context, id string, version int64, ch Change) (SKU, error) {
	var after SKU
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := skudb.New(tx)
		locked, err := q.Lock(ctx, id)
		before, err := read(id, locked.Sku, locked.Price, err)
		if err != nil {
			return err
		}
		if before.Version != version {
			return fault.New(fault.Stale, "version_stale",
				"it was changed since it was read: the newest version is %d, the change is based on %d", before.Version, version).
				WithRemedy("read it again and repeat the change with the new ETag")
		}
		if after, err = ch.applied(before); err != nil {
			return err
		}
		if after.GPUsTotal != before.GPUsTotal {
			if err := unused(ctx, q, id, "make another SKU for machines with other GPUs, or remove the nodes first"); err != nil {
				return err
			}
		}
		priced := after.PriceMinor != before.PriceMinor || after.PriceCurrency != before.PriceCurrency
		if priced {
			if _, err := price.Put(ctx, tx, price.Offer{
				SKU: id, Currency: after.PriceCurrency, Minor: after.PriceMinor, Reason: "set with the SKU",
			}); err != nil {
				return err
			}
		}
		row, err := q.Update(ctx, skudb.UpdateParams{
			ID: id, DisplayName: after.DisplayName, GpuVendor: string(after.GPUVendor), GpuModel: after.GPUModel,
			GpusTotal:     after.GPUsTotal,
			CapacityShape: string(after.CapacityShape), AllowedCounts: after.AllowedCounts,
			PriceMinor: after.PriceMinor, PriceCurrency: after.PriceCurrency, Status: string(after.Status),
			Hardware: after.Hardware.encoded(), UserAccessOnly: after.UserAccessOnly, Priced: priced,
		})
		if err != nil {
			return fmt.Errorf("update SKU: %w", err)
		}
		price := after.PriceMinor
		after = from(row)
		after.PriceMinor = price // the column may hold one of before
		return record(ctx, tx, "sku.update", after, string(after.Status))
	})
	return after, err
}

// unused refuses what cannot be done to a SKU that nodes have.
func unused(ctx context.Context, q *skudb.Queries, id, remedy string) error {
	used, err := q.NodesOf(ctx, id)
	if err != nil {
		return fmt.Errorf("count nodes of SKU: %w", err)
	}
	if used > 0 {
		return fault.New(fault.Conflict, "sku_in_use", "%d nodes are of the SKU %s", used, id).WithRemedy("%s", remedy)
	}
	return nil
}

// Delete takes a SKU out of the catalog. It refuses while nodes have the SKU.
// The row stays for earlier records about it.
func (s *Service) Delete(ctx context.Context, id string) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := skudb.New(tx)
		locked, err := q.Lock(ctx, id)
		if _, err := read(id, locked.Sku, locked.Price, err); err != nil {
			return err
		}
		if err := unused(ctx, q, id, "remove them first, or disable the SKU so that it gets no new ones"); err != nil {
			return err
		}
		row, err := q.Delete(ctx, id)
		if err != nil {
			return fmt.Errorf("delete SKU: %w", err)
		}
		return record(ctx, tx, "sku.delete", at(row, locked.Price), "deleted")
	})
}

// Get reads one SKU.
func (s *Service) Get(ctx context.Context, id string) (SKU, error) { return Get(ctx, s.db, id) }

// position is where the next page begins.
type position struct {
	SKU string `json:"sku"`
}

// List lists the catalog in the order of ids. An empty status lists all.
func (s *Service) List(ctx context.Context, status Status, page postgres.Slice[position]) ([]SKU, error) {
	p := skudb.ListParams{After: page.After.SKU, PageSize: page.Limit}
	if status != "" {
		p.Status = (*string)(&status)
	}
	rows, err := skudb.New(s.db).List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list SKUs: %w", err)
	}
	out := make([]SKU, len(rows))
	for i, r := range rows {
		out[i] = at(r.Sku, r.Price)
	}
	return out, nil
}

func record(ctx context.Context, tx pgx.Tx, action string, s SKU, status string) error {
	err := audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "sku", TargetID: s.ID, Result: audit.Success,
		Metadata: map[string]any{
			"version": s.Version, "status": status, "price_minor": s.PriceMinor,
			"price_currency": s.PriceCurrency,
		},
	})
	if err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.SKUChanged, AggregateKind: "sku", AggregateID: s.ID,
		Payload: eventwire.SKU{SKUID: s.ID, Status: status, Version: s.Version},
	})
}
