// Package reservedtest reserves nodes for tests, without placement.
package reservedtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/reserved"
)

// SKU is what is reserved: its nodes have eight GPUs.
const SKU = "h200-sxm-baremetal-8g"

const gpus = 8

// Plenty is how many free nodes Enough says are kept.
const Plenty = 10_000

// Price sets what a GPU costs for an hour that is reserved and not used, in minor units.
func Price(tb testing.TB, db *postgres.DB, minor int64) {
	tb.Helper()
	if _, err := price.New(db, 0).Set(tb.Context(), price.Offer{
		SKU: SKU, Meter: price.Reserved, Currency: "USD", Minor: minor,
	}); err != nil {
		tb.Fatal(err)
	}
}

// Enough says that no reservation lacks anything.
func Enough(db *postgres.DB) reserved.Kept {
	return func(ctx context.Context, _ string) (map[id.Reservation]int64, error) {
		rows, err := db.Query(ctx, `SELECT reservation_id FROM reservation_terms`)
		if err != nil {
			return nil, err
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[id.Reservation])
		out := make(map[id.Reservation]int64, len(all))
		for _, r := range all {
			out[r] = Plenty
		}
		return out, err
	}
}

// Plan is what is reserved.
type Plan struct {
	Org      id.Org
	Project  id.Project // zero: for all of the tenant
	Region   string
	Nodes    int32
	From, To time.Time
	Free     bool // nothing is agreed: as a release of before made it
	// Admit says whether the owner can pay; nil: it can.
	Admit func(ctx context.Context, tx pgx.Tx, terms account.Terms, nodes int32) error
}

// Reserve makes a reservation that is charged.
func Reserve(
	ctx context.Context, db *postgres.DB, accounts *account.Service, charges *reserved.Service, p Plan,
) (of id.Reservation, err error) {
	of = id.New[id.Reservation]()
	return of, db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		terms, err := accounts.OfferReserved(ctx, tx, account.Rented{Org: p.Org, Project: p.Project, SKU: SKU, GPUs: gpus})
		if err == nil && p.Admit != nil {
			err = p.Admit(ctx, tx, terms, p.Nodes)
		}
		if err == nil {
			_, err = charges.Begin(ctx, tx, p.Org, SKU)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO reservations (id, org_id, project_id, sku_id, nodes, region_code, starts_at, ends_at, created_by)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '')`, of, p.Org, p.Project, SKU, p.Nodes, p.Region, p.From, p.To)
		}
		if err != nil || p.Free {
			return err
		}
		return charges.Freeze(ctx, tx, reserved.Reservation{
			ID: of, Region: p.Region, Nodes: p.Nodes, StartsAt: p.From, EndsAt: p.To,
		}, terms)
	})
}
