package maintenance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/terminal"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance"
	"gpuaas/controlplane/internal/work/decommission"
)

// world is a tenant with a project, and nodes that it rents.
type world struct {
	db, owner   *postgres.DB
	service     *maintenance.Service
	allocations *allocation.Service
	terminals   *terminals
	org         id.Org
	project     id.Project
	operator    context.Context
	member      context.Context
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{org: id.New[id.Org](), project: id.New[id.Project]()}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.terminals = &terminals{db: w.db}
	w.allocations = allocation.New(allocation.Config{DB: w.db, Terminals: w.terminals, Cleanups: later{}})
	w.service = maintenance.New(w.db, w.allocations)
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`, w.org)
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, w.project, w.org)
	w.exec(tb, `INSERT INTO skus (id, display_name, gpu_vendor, gpu_model, gpus_total, capacity_shape, allowed_counts, price_minor, price_currency)
		VALUES ('h200-8', 'H200', 'nvidia', 'H200', 8, 'node', '{1}', 350, 'USD')`)
	ctx := telemetry.WithCorrelation(tb.Context(), "corr")
	w.operator = auth.With(ctx, &auth.Principal{Kind: auth.KindUser, ID: "olga", Name: "Olga", Platform: auth.Operator})
	w.member = auth.With(ctx, &auth.Principal{
		Kind: auth.KindServiceAccount, ID: "ann", Name: "Ann",
		Projects: map[id.Project]auth.ProjectRole{w.project: {Org: w.org, Role: auth.ProjectMember}},
	})
	return w
}

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) count(tb testing.TB, query string, args ...any) (n int) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// node adds a node in service that nobody has.
func (w *world) node(tb testing.TB, hostname string) id.Node {
	tb.Helper()
	n := id.New[id.Node]()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable, rack)
		VALUES ($1, 'active', $2, '192.0.2.1', 'h200-8', 8, 'eu', 'manual', true, 'c07')`, n, hostname)
	w.exec(tb, `INSERT INTO node_contacts (node_id, last_contact_at) VALUES ($1, clock_timestamp())`, n)
	return n
}

// rented adds a node that the member of the project has.
func (w *world) rented(tb testing.TB, hostname string) allocation.Allocation {
	tb.Helper()
	n := w.node(tb, hostname)
	made, err := w.allocations.Create(w.member, allocation.Ask{
		Project: w.project, SKU: "h200-8", Wish: allocation.Wish{Node: n},
	})
	if err != nil {
		tb.Fatal(err)
	}
	w.exec(tb, `UPDATE allocations SET status = 'active', active_at = clock_timestamp() WHERE id = $1`, made[0].ID)
	return w.allocation(tb, made[0].ID)
}

func (w *world) allocation(tb testing.TB, of id.Allocation) allocation.Allocation {
	tb.Helper()
	a, err := allocation.Get(tb.Context(), w.db, of)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// announced announces something for one allocation.
func (w *world) announced(tb testing.TB, a allocation.Allocation, p maintenance.Plan) maintenance.Maintenance {
	tb.Helper()
	p.Nodes = []id.Node{a.Node}
	if p.Reason == "" {
		p.Reason = "a fan is replaced"
	}
	if p.DueAt.IsZero() {
		p.DueAt = time.Now().Add(2 * time.Hour)
	}
	made, left, err := w.service.Announce(w.operator, p)
	if err != nil || len(made) != 1 || len(left) != 0 {
		tb.Fatalf("made %d, left out %+v: %v", len(made), left, err)
	}
	return made[0]
}

// opens lets the window of a maintenance begin.
func (w *world) opens(tb testing.TB, of id.Maintenance) {
	tb.Helper()
	w.exec(tb, `UPDATE maintenances SET not_before = clock_timestamp() - interval '1 minute' WHERE id = $1`, of)
}

// passes lets the deadline of a maintenance pass.
func (w *world) passes(tb testing.TB, of id.Maintenance) {
	tb.Helper()
	w.exec(tb, `UPDATE maintenances SET not_before = clock_timestamp() - interval '1 minute',
		due_at = clock_timestamp() - interval '1 second' WHERE id = $1`, of)
}

func (w *world) tend(tb testing.TB) {
	tb.Helper()
	if err := w.service.Tend(telemetry.WithCorrelation(tb.Context(), "corr")); err != nil {
		tb.Fatal(err)
	}
}

// is checks the state of a maintenance.
func (w *world) is(tb testing.TB, of id.Maintenance, want maintenance.Status) maintenance.Maintenance {
	tb.Helper()
	m, err := maintenance.Get(tb.Context(), w.db, of)
	if err != nil {
		tb.Fatal(err)
	}
	if m.Status != want {
		tb.Fatalf("it is %s, want %s (%s)", m.Status, want, m.EndedBecause)
	}
	return m
}

// aside is why a node is kept out of scheduling.
func (w *world) aside(tb testing.TB, of id.Node) string {
	tb.Helper()
	n, err := node.Get(tb.Context(), w.db, of)
	if err != nil {
		tb.Fatal(err)
	}
	return n.HoldReason
}

// permits says whether operations on the node may end what the tenant has.
func (w *world) permits(tb testing.TB, a allocation.Allocation) bool {
	tb.Helper()
	t, err := allocation.Tenancies{}.Of(tb.Context(), w.db, a.Node)
	if err != nil || t == nil {
		tb.Fatalf("%+v, %v", t, err)
	}
	return t.Maintenance != nil && t.Maintenance.EndsIt && t.Maintenance.MayBegin
}

func wantCode(tb testing.TB, err error, code string) {
	tb.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		tb.Errorf("got %v, want %s", err, code)
	}
}

type terminals struct {
	db    *postgres.DB
	ended []id.Node
}

func (t *terminals) Mint(ctx context.Context, _ terminal.Wish, admit postgres.TxFunc) (terminal.Session,
	redact.Secret, error,
) {
	return terminal.Session{}, redact.Secret{}, t.db.InTx(ctx, admit)
}

func (t *terminals) EndAll(_ context.Context, _ pgx.Tx, of id.Node) error {
	t.ended = append(t.ended, of)
	return nil
}

// later has cleanups begun by a workflow, which does not run here.
type later struct{ allocation.Cleanups }

func (later) Ready(context.Context, id.Node, decommission.Request) (postgres.TxFunc, error) {
	return nil, nil
}
