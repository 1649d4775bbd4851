package statement_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/metering"
	"gpuaas/controlplane/internal/money/statement"
)

const h200 = "h200-sxm-baremetal-8g" // seeded: 3.50 USD

var start = time.Date(2026, 2, 1, 0, 0, 0, 123_456_000, time.UTC)

// world is a tenant with a project and a node; more can be added.
type world struct {
	db, owner  *postgres.DB
	accounts   *account.Service
	ledger     *ledger.Service
	meters     *metering.Service
	statements *statement.Service
	api        *httpapi.API
	now        time.Time
	tenant
}

type tenant struct {
	org     id.Org
	project id.Project
	node    id.Node
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{now: start.Add(60 * 24 * time.Hour)}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.accounts, w.ledger = account.New(w.db, false), ledger.New(w.db)
	w.meters = metering.New(metering.Config{
		DB: w.db, Every: time.Hour, Silence: metering.LongSilence, Clock: func() time.Time { return w.now },
	})
	w.statements, w.api = statement.New(statement.Config{
		DB: w.db, Issuer: "Example Cloud", CloseAfter: 6 * time.Hour, Clock: func() time.Time { return w.now },
	}), httpapitest.New(w.db)
	w.statements.Register(w.api)
	w.tenant = w.settle(tb, "acme", "USD")
	return w
}

// settle adds a tenant, with an account unless it has no currency.
func (w *world) settle(tb testing.TB, slug, currency string) tenant {
	tb.Helper()
	t := tenant{id.New[id.Org](), id.New[id.Project](), id.New[id.Node]()}
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, $2, initcap($2))`, t.org, slug)
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, t.project, t.org)
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', 'node-of-' || $3, 'n', $2, 8, 'eu', 'manual')`, t.node, h200, slug)
	if currency != "" {
		to := account.Wish{Currency: currency, Paid: new(int32(9_000))}
		if _, err := w.accounts.Set(tb.Context(), t.org, to); err != nil {
			tb.Fatal(err)
		}
		w.exec(tb, `UPDATE billing_periods SET open_since = $2 WHERE org_id = $1`, t.org, month(2)) // as if it were old
	}
	return t
}

// month is the beginning of a month of 2026.
func month(m time.Month) time.Time { return time.Date(2026, m, 1, 0, 0, 0, 0, time.UTC) }

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) number(tb testing.TB, query string, args ...any) (n int64) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// rent makes an allocation that was active for a time; a zero end: it goes on.
func (w *world) rent(tb testing.TB, of tenant, gpus int32, labels string, began, ended time.Time) id.Allocation {
	tb.Helper()
	a := id.New[id.Allocation]()
	status, end := "active", (*time.Time)(nil)
	if !ended.IsZero() {
		status, end = "releasing", &ended
	}
	if err := w.db.InTx(tb.Context(), func(ctx context.Context, tx pgx.Tx) error {
		terms, err := w.accounts.Freeze(ctx, tx, account.Rented{
			Allocation: a, Org: of.org, Project: of.project, SKU: h200, GPUs: gpus,
		})
		if err == nil {
			err = w.meters.Open(ctx, tx, terms)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO allocations (id, org_id, project_id, capacity_shape, sku_id, sku_terms, price_minor,
				price_currency, gpus, region_code, node_id, hostname, access, event_id, requested_by, requested_by_name, labels,
				status, active_at, release_requested_at)
				SELECT $1, $2, $3, 'baremetal', $4, '{}', 0, 'USD', $5, 'eu', n.id, n.hostname, 'user', gen_random_uuid(), 'user-1',
				'Ada', $7, $8, $9, $10 FROM nodes n WHERE n.id = $6`,
				a, of.org, of.project, h200, gpus, of.node, labels, status, began, end)
		}
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	return a
}

func (w *world) repair(tb testing.TB, a id.Allocation, node id.Node, began, ended time.Time) {
	tb.Helper()
	w.exec(tb, `INSERT INTO allocation_repairs (id, allocation_id, node_id, reason, began_at, began_by, ended_at)
		VALUES (gen_random_uuid(), $1, $2, 'a fan', $3, '', $4)`, a, node, began, ended)
}

func (w *world) meter(tb testing.TB) {
	tb.Helper()
	if err := w.meters.Tend(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) usage(tb testing.TB, q statement.Question) []statement.Group {
	tb.Helper()
	r, err := w.statements.Usage(tb.Context(), q)
	if err != nil {
		tb.Fatal(err)
	}
	return r.Groups
}
