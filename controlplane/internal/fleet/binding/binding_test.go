package binding_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/binding"
)

type world struct{ db, owner *postgres.DB }

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	return w
}

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

// site makes one with a profile.
func (w *world) site(tb testing.TB, name string) (id.Site, id.Profile) {
	tb.Helper()
	site, profile := id.New[id.Site](), id.New[id.Profile]()
	w.exec(tb, `INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
		VALUES ($1, $2, 'eu-1', 'http://' || $2 || '.example:5240/MAAS', 'ens19', 0, 'eno1', decode(repeat('00', 16), 'hex'))`, site, name)
	w.exec(tb, `INSERT INTO maas_site_profiles (id, site_id, name) VALUES ($1, $2, 'default')`, profile, site)
	return site, profile
}

func (w *world) node(tb testing.TB, hostname string) id.Node {
	tb.Helper()
	n := id.New[id.Node]()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'enrolling', $2, $2, 'h200-sxm-baremetal-8g', 8, 'eu-1', 'maas')`, n, hostname)
	return n
}

func (w *world) in(tb testing.TB, fn func(ctx context.Context, tx pgx.Tx) error) error {
	tb.Helper()
	ctx := auth.With(telemetry.WithCorrelation(tb.Context(), "test"), auth.System("test"))
	return w.db.InTx(ctx, fn)
}

func (w *world) bind(tb testing.TB, b binding.Binding) error {
	tb.Helper()
	return w.in(tb, func(ctx context.Context, tx pgx.Tx) error { return binding.Bind(ctx, tx, b) })
}

func wantCode(tb testing.TB, err error, kind fault.Kind, code string) {
	tb.Helper()
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code {
		tb.Errorf("failure is %v, want %s %s", err, kind, code)
	}
}

func TestANodeIsBoundToItsMachine(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	seen := time.Now().UTC().Truncate(time.Microsecond)
	b := binding.Binding{
		Node: w.node(t, "m1"), Site: site, Profile: profile, SystemID: "abc123", IPMIIP: "10.0.0.1",
		PXEMAC: "52:54:00:00:00:01",
		Status: "Deployed", Power: "on", IPs: []string{"10.1.0.1", "10.1.0.2"}, SeenAt: &seen,
	}
	_, err := binding.OfNode(t.Context(), w.db, b.Node)
	wantCode(t, err, fault.NotFound, "binding_not_found")
	for range 2 {
		if err := w.bind(t, b); err != nil {
			t.Fatal(err)
		}
	}
	for name, look := range map[string]func() (binding.Binding, error){
		"of the node": func() (binding.Binding, error) { return binding.OfNode(t.Context(), w.db, b.Node) },
		"by machine":  func() (binding.Binding, error) { return binding.ByMachine(t.Context(), w.db, site, "abc123") },
	} {
		got, err := look()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Node != b.Node || got.Site != site || got.Profile != profile || got.SystemID != b.SystemID ||
			got.IPMIIP != b.IPMIIP ||
			got.PXEMAC != b.PXEMAC || got.Status != b.Status || got.Power != b.Power || !slices.Equal(got.IPs, b.IPs) ||
			!got.SeenAt.Equal(seen) ||
			got.Drifted || got.BoundAt.IsZero() {
			t.Errorf("%s: %+v", name, got)
		}
	}
	var audited int
	if err := w.owner.QueryRow(t.Context(),
		`SELECT count(*) FROM audit_logs WHERE action = 'node.bind' AND target_id = $1`, b.Node.String()).
		Scan(&audited); err != nil || audited != 2 {
		t.Errorf("%d audit entries, %v", audited, err)
	}
}

func TestAnotherMachineIsAnotherBinding(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	b := binding.Binding{Node: w.node(t, "m1"), Site: site, Profile: profile, SystemID: "before"}
	if err := w.bind(t, b); err != nil {
		t.Fatal(err)
	}
	first, err := binding.OfNode(t.Context(), w.db, b.Node)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.bind(t, b); err != nil {
		t.Fatal(err)
	}
	if again, err := binding.OfNode(t.Context(), w.db, b.Node); err != nil || !again.BoundAt.Equal(first.BoundAt) ||
		!again.LastChangedAt.After(first.LastChangedAt) {
		t.Errorf("the same machine again: %+v, %v", again, err)
	}
	b.SystemID = "after"
	if err := w.bind(t, b); err != nil {
		t.Fatal(err)
	}
	if now, err := binding.OfNode(t.Context(), w.db, b.Node); err != nil || now.SystemID != "after" ||
		!now.BoundAt.After(first.BoundAt) {
		t.Errorf("another machine: %+v, %v", now, err)
	}
	_, err = binding.ByMachine(t.Context(), w.db, site, "before")
	wantCode(t, err, fault.NotFound, "binding_not_found")
}

func TestAMachineIsOneNode(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	elsewhere, other := w.site(t, "dc2")
	b := binding.Binding{Node: w.node(t, "m1"), Site: site, Profile: profile, SystemID: "abc123", IPMIIP: "10.0.0.1"}
	if err := w.bind(t, b); err != nil {
		t.Fatal(err)
	}
	second := b
	second.Node = w.node(t, "m2")
	wantCode(t, w.bind(t, second), fault.Conflict, "machine_bound")
	second.Site, second.Profile = elsewhere, other
	if err := w.bind(t, second); err != nil {
		t.Errorf("the same id in another MAAS: %v", err)
	}
	// Another site of the same MAAS knows the machine, too.
	twin, _ := w.site(t, "twin")
	w.exec(t, `UPDATE maas_sites SET api_base_url = (SELECT api_base_url FROM maas_sites WHERE id = $1) WHERE id = $2`,
		site, twin)
	if found, err := binding.ByMachine(t.Context(), w.db, twin, "abc123"); err != nil || found.Node != b.Node {
		t.Errorf("seen from another site of the same MAAS: %+v %v", found, err)
	}
	// What is deleted stands in nobody's way.
	w.exec(t, `UPDATE nodes SET status = 'deleted' WHERE id = $1`, b.Node)
	_, err := binding.ByMachine(t.Context(), w.db, site, "abc123")
	wantCode(t, err, fault.NotFound, "binding_not_found")
	third := b
	third.Node = w.node(t, "m3")
	if err := w.bind(t, third); err != nil {
		t.Fatal(err)
	}
	if now, err := binding.ByMachine(t.Context(), w.db, site, "abc123"); err != nil || now.Node != third.Node {
		t.Errorf("%+v %v", now, err)
	}
}

func TestUnbindingTwiceIsFine(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	b := binding.Binding{Node: w.node(t, "m1"), Site: site, Profile: profile, SystemID: "abc123"}
	if err := w.bind(t, b); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.in(t, func(ctx context.Context, tx pgx.Tx) error { return binding.Unbind(ctx, tx, b.Node) }); err != nil {
			t.Fatal(err)
		}
	}
	_, err := binding.OfNode(t.Context(), w.db, b.Node)
	wantCode(t, err, fault.NotFound, "binding_not_found")
	stop := errors.New("stop")
	err = w.in(t, func(ctx context.Context, tx pgx.Tx) error {
		if err := binding.Bind(ctx, tx, b); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	_, err = binding.OfNode(t.Context(), w.db, b.Node)
	wantCode(t, err, fault.NotFound, "binding_not_found")
}
