package binding_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/binding"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// bound makes a node that is bound to a machine.
func (w *world) bound(tb testing.TB, site id.Site, profile id.Profile, systemID string) id.Node {
	tb.Helper()
	n := w.node(tb, systemID+id.NewString()[24:])
	if err := w.bind(tb, binding.Binding{Node: n, Site: site, Profile: profile, SystemID: systemID}); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (w *world) read(tb testing.TB, n id.Node) binding.Binding {
	tb.Helper()
	b, err := binding.OfNode(tb.Context(), w.db, n)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func (w *world) do(tb testing.TB, fn func(ctx context.Context, tx pgx.Tx) error) {
	tb.Helper()
	if err := w.in(tb, fn); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) looked(tb testing.TB, seen ...binding.Seen) (changed int64) {
	tb.Helper()
	w.do(tb, func(ctx context.Context, tx pgx.Tx) (err error) {
		changed, err = binding.Looked(ctx, tx, seen)
		return err
	})
	return changed
}

func TestALookWritesOnlyWhatChanged(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	m1, m2 := w.bound(t, site, profile, "m1"), w.bound(t, site, profile, "m2")
	seen := func(n id.Node, status, power string, installation int64, at time.Time, ips ...string) binding.Seen {
		return binding.Seen{Node: n, Status: status, Power: power, IPs: ips, Installation: installation, At: at}
	}
	if got := w.looked(t); got != 0 {
		t.Errorf("no look changed %d", got)
	}
	both := []binding.Seen{
		seen(m1, "Deployed", "on", 7, noon, "10.0.0.1", "10.0.0.2"),
		seen(m2, "Deployed", "on", 0, noon),
	}
	if got := w.looked(t, both...); got != 2 {
		t.Errorf("the first look changed %d", got)
	}
	first := w.read(t, m1)
	if first.Status != "Deployed" || first.Power != "on" || !slices.Equal(first.IPs, []string{"10.0.0.1", "10.0.0.2"}) ||
		first.Installation != 7 || !first.SeenAt.Equal(noon) {
		t.Errorf("after the first look: %+v", first)
	}
	if b := w.read(t, m2); len(b.IPs) != 0 || b.Installation != 0 {
		t.Errorf("a machine without addresses: %+v", b)
	}
	later := noon.Add(time.Hour)
	for _, c := range []struct {
		name    string
		seen    binding.Seen
		changed int64
		kept    int64 // installation
	}{
		{"the same", seen(m1, "Deployed", "on", 7, later, "10.0.0.1", "10.0.0.2"), 0, 7},
		{"in another order", seen(m1, "Deployed", "on", 7, later, "10.0.0.2", "10.0.0.1"), 0, 7},
		{"another installation", seen(m1, "Deployed", "on", 8, later, "10.0.0.1", "10.0.0.2"), 0, 7},
		{"an installation that is not told", seen(m1, "Deployed", "on", 0, later, "10.0.0.1", "10.0.0.2"), 0, 7},
		{"off, and another installation", seen(m1, "Deployed", "off", 8, later, "10.0.0.1", "10.0.0.2"), 1, 7},
		{"another status", seen(m1, "Ready", "off", 0, later, "10.0.0.1", "10.0.0.2"), 1, 7},
		{"fewer addresses", seen(m1, "Ready", "off", 0, later, "10.0.0.1"), 1, 7},
		{"other addresses", seen(m1, "Ready", "off", 0, later, "10.0.0.3"), 1, 7},
		{"more addresses", seen(m1, "Ready", "off", 0, later, "10.0.0.3", "10.0.0.4"), 1, 7},
		{"no addresses", seen(m1, "Ready", "off", 0, later), 1, 7},
		{"a first installation", seen(m2, "Deployed", "on", 9, later), 1, 9},
		{"a node that is bound to nothing", seen(w.node(t, "loose"), "Deployed", "on", 9, later), 0, 9},
	} {
		before := w.read(t, m2)
		if c.seen.Node == m1 {
			before = w.read(t, m1)
		}
		if got := w.looked(t, c.seen); got != c.changed {
			t.Errorf("%s: %d rows changed, want %d", c.name, got, c.changed)
		}
		after := w.read(t, before.Node)
		if after.Installation != c.kept && c.seen.Node == before.Node {
			t.Errorf("%s: installation %d, want %d", c.name, after.Installation, c.kept)
		}
		if after.LastChangedAt.Equal(before.LastChangedAt) != (c.changed == 0) {
			t.Errorf("%s: changed at %s, before at %s", c.name, after.LastChangedAt, before.LastChangedAt)
		}
		if c.changed == 1 && (!after.SeenAt.Equal(later) || after.Status != c.seen.Status || after.Power != c.seen.Power ||
			!slices.Equal(after.IPs, c.seen.IPs)) {
			t.Errorf("%s: %+v", c.name, after)
		}
	}
	// Of many, only those that changed.
	if got := w.looked(t, seen(m1, "Ready", "off", 0, later), seen(m2, "Broken", "on", 9, later)); got != 1 {
		t.Errorf("%d of two changed", got)
	}
}

func TestATouchIsNoChange(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	m1, m2, m3 := w.bound(t, site, profile, "m1"), w.bound(t, site, profile, "m2"), w.bound(t, site, profile, "m3")
	before := w.read(t, m1)
	w.do(t, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(binding.Touch(ctx, tx, nil, noon), binding.Touch(ctx, tx, []id.Node{m1, m2}, noon))
	})
	if after := w.read(t, m1); !after.SeenAt.Equal(noon) || !after.LastChangedAt.Equal(before.LastChangedAt) {
		t.Errorf("%+v", after)
	}
	if other := w.read(t, m3); other.SeenAt != nil {
		t.Errorf("another machine was touched: %+v", other)
	}
}

func TestAnotherInstallationIsTakenOverWhenAccepted(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	n := w.bound(t, site, profile, "m1")
	w.looked(t, binding.Seen{Node: n, Status: "Deployed", Installation: 7, At: noon})
	w.do(t, func(ctx context.Context, tx pgx.Tx) error { return binding.Rebase(ctx, tx, n, 8) })
	if b := w.read(t, n); b.Installation != 8 {
		t.Errorf("%+v", b)
	}
	// Whoever is bound anew runs on what is seen next.
	if err := w.bind(t, binding.Binding{Node: n, Site: site, Profile: profile, SystemID: "m1"}); err != nil {
		t.Fatal(err)
	}
	if b := w.read(t, n); b.Installation != 0 {
		t.Errorf("%+v", b)
	}
	w.looked(t, binding.Seen{Node: n, Status: "Deployed", Installation: 9, At: noon})
	if b := w.read(t, n); b.Installation != 9 {
		t.Errorf("%+v", b)
	}
	err := w.in(t, func(ctx context.Context, tx pgx.Tx) error { return binding.Rebase(ctx, tx, w.node(t, "loose"), 8) })
	wantCode(t, err, fault.NotFound, "binding_not_found")
}

func TestTheSameServerUnderAnotherID(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	n, other, former := w.bound(t, site, profile, "before"), w.bound(t, site, profile, "other"),
		w.bound(t, site, profile, "after")
	w.exec(t, `UPDATE nodes SET status = 'deleted' WHERE id = $1`, former)
	w.looked(t, binding.Seen{
		Node: n, Status: "Deployed", Power: "on", IPs: []string{"10.0.0.1"}, Installation: 7,
		At: noon,
	})
	before := w.read(t, n)
	rebind := func(node id.Node, systemID string) error {
		return w.in(t, func(ctx context.Context, tx pgx.Tx) error { return binding.Rebind(ctx, tx, node, systemID, 11) })
	}
	wantCode(t, rebind(n, "other"), fault.Conflict, "machine_bound")
	if b := w.read(t, n); b.SystemID != "before" || b.Installation != 7 {
		t.Errorf("a refused change was made: %+v", b)
	}
	if err := rebind(n, "after"); err != nil {
		t.Fatal(err)
	}
	b := w.read(t, n)
	if b.SystemID != "after" || b.Installation != 11 || !b.BoundAt.After(before.BoundAt) || b.Site != site ||
		b.Status != "Deployed" {
		t.Errorf("%+v", b)
	}
	if found, err := binding.ByMachine(t.Context(), w.db, site, "after"); err != nil || found.Node != n {
		t.Errorf("%+v %v", found, err)
	}
	if b := w.read(t, other); b.SystemID != "other" {
		t.Errorf("another node was bound anew: %+v", b)
	}
	wantCode(t, rebind(w.node(t, "loose"), "m9"), fault.NotFound, "binding_not_found")
	var audited int
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action = 'node.rebind' AND target_id = $1
		AND metadata ->> 'prior_maas_system_id' = 'before'`, n.String()).Scan(&audited); err != nil || audited != 1 {
		t.Errorf("%d audit entries, %v", audited, err)
	}
}

func TestDriftBeginsAndEnds(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	n, other := w.bound(t, site, profile, "m1"), w.bound(t, site, profile, "m2")
	drift := func(details string, at time.Time) binding.Binding {
		t.Helper()
		var raw json.RawMessage
		if details != "" {
			raw = json.RawMessage(details)
		}
		w.do(t, func(ctx context.Context, tx pgx.Tx) error { return binding.Drift(ctx, tx, n, raw, at) })
		return w.read(t, n)
	}
	untouched := w.read(t, n)
	if b := drift("", noon); b.Drifted || b.DriftEndedAt != nil || !b.LastChangedAt.Equal(untouched.LastChangedAt) {
		t.Errorf("what never began ended: %+v", b)
	}
	began := drift(`{"rule": "machine_off"}`, noon)
	if !began.Drifted || string(began.Drift) != `{"rule": "machine_off"}` || began.DriftEndedAt != nil {
		t.Errorf("begun: %+v", began)
	}
	if again := drift(`{"rule":"machine_off"}`, noon); !again.LastChangedAt.Equal(began.LastChangedAt) {
		t.Errorf("the same drift was written again: %+v", again)
	}
	if more := drift(`{"rule": "machine_released"}`, noon); !more.Drifted ||
		string(more.Drift) != `{"rule": "machine_released"}` {
		t.Errorf("another: %+v", more)
	}
	ended := drift("", noon.Add(time.Hour))
	if ended.Drifted || string(ended.Drift) != `{}` || ended.DriftEndedAt == nil ||
		!ended.DriftEndedAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("ended: %+v", ended)
	}
	if still := drift("", noon.Add(2*time.Hour)); !still.DriftEndedAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("ended twice: %+v", still)
	}
	if anew := drift(`{"rule": "machine_off"}`, noon.Add(3*time.Hour)); !anew.Drifted || anew.DriftEndedAt != nil {
		t.Errorf("begun anew: %+v", anew)
	}
	if err := w.bind(t, binding.Binding{Node: n, Site: site, Profile: profile, SystemID: "m1"}); err != nil {
		t.Fatal(err)
	}
	if b := w.read(t, n); !b.Drifted {
		t.Errorf("binding it again ended the drift: %+v", b)
	}
	if b := w.read(t, other); b.Drifted {
		t.Errorf("another node drifted: %+v", b)
	}
}

func nodesOf(bindings []binding.Binding) []id.Node {
	var out []id.Node
	for _, b := range bindings {
		out = append(out, b.Node)
	}
	return out
}

// sorted are nodes in the order of their ids.
func sorted(nodes ...id.Node) []id.Node {
	slices.SortFunc(nodes, func(a, b id.Node) int { return bytes.Compare(a[:], b[:]) })
	return nodes
}

func TestTheSweepBeginsWithWhatWasSeenLongestAgo(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	elsewhere, other := w.site(t, "dc2")
	never, old, older, fresh, gone := w.bound(t, site, profile, "m1"), w.bound(t, site, profile, "m2"),
		w.bound(t, site, profile, "m3"),
		w.bound(t, site, profile, "m4"), w.bound(t, site, profile, "m5")
	w.bound(t, elsewhere, other, "m6")
	w.exec(t, `UPDATE nodes SET status = 'deleted' WHERE id = $1`, gone)
	for n, at := range map[id.Node]time.Time{old: noon.Add(-time.Hour), older: noon.Add(-2 * time.Hour), fresh: noon} {
		w.do(t, func(ctx context.Context, tx pgx.Tx) error { return binding.Touch(ctx, tx, []id.Node{n}, at) })
	}
	for name, c := range map[string]struct {
		before time.Time
		limit  int32
		want   []id.Node
	}{
		"all":      {noon.Add(time.Second), 10, []id.Node{never, older, old, fresh}},
		"due":      {noon, 10, []id.Node{never, older, old}},
		"some":     {noon, 2, []id.Node{never, older}},
		"long due": {noon.Add(-time.Hour), 10, []id.Node{never, older}},
	} {
		got, err := binding.ForSweep(t.Context(), w.db, site, c.before, c.limit)
		if err != nil || !slices.Equal(nodesOf(got), c.want) {
			t.Errorf("%s: %v, want %v: %v", name, nodesOf(got), c.want, err)
		}
	}
}

func TestBindingsAreReadTogether(t *testing.T) {
	w := newWorld(t)
	site, profile := w.site(t, "dc1")
	twin, twins := w.site(t, "twin")
	elsewhere, other := w.site(t, "dc2")
	w.exec(t, `UPDATE maas_sites SET api_base_url = (SELECT api_base_url FROM maas_sites WHERE id = $1) WHERE id = $2`,
		site, twin)
	m1, m2, gone := w.bound(t, site, profile, "m1"), w.bound(t, site, profile, "m2"), w.bound(t, site, profile, "m3")
	again := w.bound(t, twin, twins, "m1")
	w.bound(t, twin, twins, "m3")
	w.bound(t, elsewhere, other, "m2")
	w.exec(t, `UPDATE nodes SET status = 'deleted' WHERE id = $1`, gone)

	got, err := binding.ByMachines(t.Context(), w.db, site, []string{"m2", "m1", "m3", "unknown"})
	if err != nil || !slices.Equal(nodesOf(got), []id.Node{m1, m2}) {
		t.Errorf("by machines: %v, %v", nodesOf(got), err)
	}
	for _, at := range []id.Site{site, twin} {
		shared, err := binding.Shared(t.Context(), w.db, at)
		if err != nil || len(shared) != 1 || !slices.Equal(shared["m1"], sorted(m1, again)) {
			t.Errorf("shared machines: %v, %v", shared, err)
		}
	}
	if shared, err := binding.Shared(t.Context(), w.db, elsewhere); err != nil || len(shared) != 0 {
		t.Errorf("of another MAAS: %v, %v", shared, err)
	}
}
