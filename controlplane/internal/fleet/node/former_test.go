package node_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// leaves takes a node out of the inventory for good.
func (w *world) leaves(tb testing.TB, n id.Node) {
	tb.Helper()
	w.drive(tb, n, node.Drain, node.Drained, node.Remove, node.Uninstalled)
}

func TestAMachineThatLeftUncleanComesBackTainted(t *testing.T) {
	w := newWorld(t)
	old := w.active(t, "m1")
	w.taint(t, old.node)
	w.leaves(t, old.node)
	back := w.active(t, "m1")
	n := w.read(t, back.node)
	if !n.Tainted() || n.Schedulable || n.Status != node.Active || !n.HeldUnclean {
		t.Fatalf("the machine came back as %+v", n)
	}
	if told := w.count(t,
		`SELECT count(*) FROM node_events WHERE node_id = $1 AND kind = 'created' AND cause LIKE '%' || $2 || '%'`, back.node,
		old.node.String()); told != 1 {
		t.Error("its history does not say which node it was")
	}
	w.clean(t, back.node)
	if n := w.read(t, back.node); !n.Schedulable {
		t.Errorf("proven clean, it is %+v", n)
	}
	w.leaves(t, back.node)
	if n := w.read(t, w.active(t, "m1").node); n.Tainted() || !n.Schedulable {
		t.Errorf("it left proven clean, and came back as %+v", n)
	}
}

func TestANameInAnotherRegionIsAnotherMachine(t *testing.T) {
	w := newWorld(t)
	old := w.active(t, "m1")
	w.taint(t, old.node)
	w.leaves(t, old.node)
	made, _, err := w.service.Create(system(t), node.NewNode{Hostname: "m1", SKU: someSKU, RegionCode: "eu-2"})
	if err != nil || made.Tainted() {
		t.Errorf("%+v, %v", made, err)
	}
}

// MAAS knows a machine by more than its name.
func TestAMachineOfMAASIsKnownUnderAnotherName(t *testing.T) {
	w := newWorld(t)
	site, profile := w.maas(t)
	for name, same := range map[string]struct{ ipmi, mac, system string }{
		"bmc":     {ipmi: "10.1.0.7"},
		"mac":     {mac: "52:54:00:00:00:07"},
		"machine": {system: "abc123"},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			onboarded := func(n id.Node, hostname string) {
				w.exec(t, `INSERT INTO node_onboardings (id, site_id, profile_id, hostname, ipmi_ip, pxe_mac, maas_system_id, sku_id, node_id, status, completed_at, current_stage, workflow_id, requested_by, correlation_id)
					VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'completed', now(), 'x', 'w', 'o', 'c')`,
					id.New[id.Onboarding](), site, profile, hostname, same.ipmi, same.mac, same.system, someSKU, n)
			}
			old := w.active(t, "old-"+name)
			onboarded(old.node, "old-"+name)
			w.taint(t, old.node)
			w.leaves(t, old.node)
			anew := id.New[id.Node]()
			onboarded(anew, "new-"+name)
			var made node.Node
			w.in(t, func(ctx context.Context, tx pgx.Tx) (err error) {
				made, err = node.CreateInTx(ctx, tx, node.NewNode{
					ID: anew, Hostname: "new-" + name, SKU: someSKU,
					RegionCode: "eu-1", Mode: node.MAAS,
				})
				return err
			})
			if made.Tainted() != (name != "nothing") {
				t.Errorf("tainted is %t", made.Tainted())
			}
		})
	}
}

func (w *world) maas(tb testing.TB) (id.Site, id.Profile) {
	tb.Helper()
	s, p := id.New[id.Site](), id.New[id.Profile]()
	w.exec(tb, `INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
		VALUES ($1, 'dc1', 'eu-1', 'http://maas.example:5240/MAAS', 'ens19', 0, 'eno1', decode(repeat('00', 16), 'hex'))`, s)
	w.exec(tb, `INSERT INTO maas_site_profiles (id, site_id, name) VALUES ($1, $2, 'default')`, p, s)
	return s, p
}

// An operator may hold a node with the very words that the inventory uses. The
// hold is still the operator's.
func TestAProofLiftsNoHoldOfAnOperatorWhateverItsWords(t *testing.T) {
	w := newWorld(t)
	kept, held := w.active(t, "kept"), w.active(t, "held")
	w.in(t, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.KeepOut(ctx, tx, kept.node, "its reset was stopped")
		return err
	})
	words := w.read(t, kept.node).HoldReason
	w.reason(t, held.node, words)
	for _, n := range []id.Node{kept.node, held.node} {
		w.taint(t, n)
		w.clean(t, n)
	}
	if n := w.read(t, kept.node); !n.Schedulable {
		t.Errorf("what the inventory kept out is %+v", n)
	}
	if n := w.read(t, held.node); n.Schedulable || n.HoldReason != words {
		t.Errorf("what an operator holds is %+v", n)
	}
	// If an operator replaces such a hold with their own words, it stays.
	w.taint(t, kept.node)
	w.in(t, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.KeepOut(ctx, tx, kept.node, "once more")
		return err
	})
	w.reason(t, kept.node, words)
	w.clean(t, kept.node)
	if n := w.read(t, kept.node); n.Schedulable {
		t.Errorf("taken over by an operator, it is %+v", n)
	}
}

func TestNobodyIsLetInWhileAnOperationHoldsTheNode(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	let := func() error {
		return w.db.InTx(system(t), func(ctx context.Context,
			tx pgx.Tx,
		) error {
			return node.LetIn(ctx, tx, a.node, "", "a tenant")
		})
	}
	w.hold(t, a.node, reset)
	err := let()
	wantCode(t, err, fault.Conflict, "node_held")
	if err == nil || !contains([]byte(err.Error()), reset) || w.read(t, a.node).Tainted() {
		t.Errorf("refused as %v", err)
	}
	if err := w.unhold(t, a.node, reset); err != nil {
		t.Fatal(err)
	}
	if err := let(); err != nil || !w.read(t, a.node).Tainted() {
		t.Errorf("let in: %v", err)
	}
}
