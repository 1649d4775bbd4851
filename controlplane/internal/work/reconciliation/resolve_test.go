package reconciliation_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// settle carries out an operator's decision.
func (w *world) settle(tb testing.TB, n int, r reconciliation.Resolution) reconciliation.Run {
	tb.Helper()
	run, err := w.service.Resolve(w.ctx, w.nodes[n], r, "an operator decided so")
	if err != nil {
		tb.Fatal(err)
	}
	if run.EndedAt != nil {
		return run
	}
	return w.run(tb, run.ID)
}

func TestReturnToServiceNeedsProof(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	w.maas.set("m000", "Failed testing", reconciliation.Failed)
	w.cycle(t)
	if run := w.settle(t, 0, reconciliation.ReturnToService); run.Outcome != reconciliation.Refused ||
		run.ErrorCode != "not_proven_healthy" {
		t.Fatalf("while it is broken: %+v", run)
	}
	w.maas.set("m000", "Deployed", reconciliation.Installed)
	w.silence(0)
	if run := w.settle(t, 0, reconciliation.ReturnToService); run.Outcome != reconciliation.Refused {
		t.Fatalf("while its agent is silent: %+v", run)
	}
	w.exec(t, `UPDATE node_contacts SET last_contact_at = now() + interval '30 days'`)
	w.maas.machines["m000"].Installation = 9
	if run := w.settle(t, 0, reconciliation.ReturnToService); run.Outcome != reconciliation.Refused {
		t.Fatalf("while something else is installed: %+v", run)
	}
	w.maas.machines["m000"].Installation = 1000
	run := w.settle(t, 0, reconciliation.ReturnToService)
	if run.Outcome != reconciliation.Informed || w.status(t, 0) != node.Active || len(w.open(t, 0)) != 0 {
		t.Errorf("outcome %s %s, node %s with %v", run.Outcome, run.ErrorMessage, w.status(t, 0), w.open(t, 0))
	}
	if run := w.settle(t, 0, reconciliation.ReturnToService); run.ErrorCode != "node_not_quarantined" {
		t.Errorf("a second time: %+v", run)
	}
	w.maas.away = true
	if run := w.settle(t, 0, reconciliation.ReturnToService); run.Outcome != reconciliation.Unheard {
		t.Errorf("without MAAS: %+v", run)
	}
}

func TestAdoptingWhatIsObserved(t *testing.T) {
	w := newWorld(t, 3)
	w.cycle(t)
	t.Run("nothing that can be", func(t *testing.T) {
		if run := w.settle(t, 0, reconciliation.AdoptObserved); run.ErrorCode != "nothing_to_adopt" {
			t.Errorf("%+v", run)
		}
	})
	t.Run("another installation, proven by the agent", func(t *testing.T) {
		w.maas.machines["m000"].Installation = 77
		w.silence(0)
		if run := w.settle(t, 0, reconciliation.AdoptObserved); run.ErrorCode != "agent_silent" {
			t.Fatalf("without proof: %+v", run)
		}
		w.exec(t, `UPDATE node_contacts SET last_contact_at = now() + interval '30 days'`)
		if run := w.settle(t, 0, reconciliation.AdoptObserved); run.Outcome != reconciliation.Informed {
			t.Fatalf("%+v", run)
		}
		if w.cycle(t); len(w.open(t, 0)) != 0 || w.status(t, 0) != node.Active {
			t.Errorf("left is %v, node %s", w.open(t, 0), w.status(t, 0))
		}
	})
	t.Run("the same server under another id", func(t *testing.T) {
		m := *w.maas.machines["m001"]
		delete(w.maas.machines, "m001")
		m.SystemID, m.Status, m.State = "new1", "New", reconciliation.Free
		w.maas.machines["new1"] = &m
		if run := w.settle(t, 1, reconciliation.AdoptObserved); run.ErrorCode != "twin_not_deployed" {
			t.Fatalf("while it is New: %+v", run)
		}
		m.Status, m.State = "Deployed", reconciliation.Installed
		if run := w.settle(t, 1, reconciliation.AdoptObserved); run.Outcome != reconciliation.Informed {
			t.Fatalf("%+v", run)
		}
		if n := w.count(t, `SELECT count(*) FROM node_maas_state WHERE node_id = $1 AND maas_system_id = 'new1'`,
			w.nodes[1]); n != 1 {
			t.Error("the node is not bound to it")
		}
		if w.cycle(t); len(w.open(t, 1)) != 0 {
			t.Errorf("left is %v", w.open(t, 1))
		}
	})
	t.Run("another address", func(t *testing.T) {
		w.maas.machines["m002"].IPs = []string{"10.0.0.200"}
		if run := w.settle(t, 2, reconciliation.AdoptObserved); run.Outcome != reconciliation.Informed {
			t.Fatalf("%+v", run)
		}
		if n, err := node.Get(w.ctx, w.db, w.nodes[2]); err != nil || n.Host != "10.0.0.200" {
			t.Errorf("host is %s, %v", n.Host, err)
		}
	})
}

// between makes something happen after the look at a node and before the
// decision is carried out.
func (w *world) between(happen func()) {
	once := sync.OnceFunc(happen)
	w.maas.sought = once
	w.maas.now = func() time.Time { once(); return w.time }
}

func (w *world) recreate(n int) *reconciliation.Machine {
	m := *w.maas.machines[machineOf(n)]
	delete(w.maas.machines, m.SystemID)
	m.SystemID = "new" + m.SystemID
	w.maas.machines[m.SystemID] = &m
	return &m
}

func TestADecisionIsNotCarriedOutOnWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	type w = *world
	quarantined := func(w w) {
		w.exec(w.tb, `UPDATE nodes SET status = 'quarantined', schedulable = false WHERE id = $1`, w.nodes[0])
	}
	drifts := map[string]struct {
		decision reconciliation.Resolution
		happen   func(w w)
	}{
		"return":       {reconciliation.ReturnToService, quarantined},
		"installation": {reconciliation.AdoptObserved, func(w w) { w.maas.machines["m000"].Installation = 77 }},
		"address":      {reconciliation.AdoptObserved, func(w w) { w.maas.machines["m000"].IPs = []string{"10.0.0.200"} }},
		"id":           {reconciliation.AdoptObserved, func(w w) { w.recreate(0) }},
	}
	for name, c := range map[string]struct{ change, code string }{
		"a job takes it": {
			`UPDATE nodes SET held_by = 'decommission x', schedulable = false WHERE id = $1`,
			"node_owned",
		},
		"it is drained":          {`UPDATE nodes SET status = 'draining', schedulable = false WHERE id = $1`, "node_owned"},
		"it is bound otherwise":  {`UPDATE node_maas_state SET maas_system_id = 'other1' WHERE node_id = $1`, "node_changed"},
		"it is installed anew":   {`UPDATE node_maas_state SET installation_id = 5000 WHERE node_id = $1`, "node_changed"},
		"it is bound to nothing": {`DELETE FROM node_maas_state WHERE node_id = $1`, "node_not_bound"},
	} {
		for drift, d := range drifts {
			t.Run(drift+", "+name, func(t *testing.T) {
				w := newWorld(t, 1)
				w.cycle(t)
				d.happen(w)
				show := func() (shown string) {
					row := w.db.QueryRow(w.ctx, `SELECT n.status || n.host || coalesce(b.maas_system_id || b.installation_id, '')
						FROM nodes n LEFT JOIN node_maas_state b ON b.node_id = n.id WHERE n.id = $1`, w.nodes[0])
					if err := row.Scan(&shown); err != nil {
						t.Fatal(err)
					}
					return shown
				}
				before := ""
				w.between(func() { w.exec(t, c.change, w.nodes[0]); before = show() })
				run := w.settle(t, 0, d.decision)
				if run.Outcome != reconciliation.Refused || run.ErrorCode != c.code || run.ErrorRemedy == "" || before == "" ||
					show() != before {
					t.Errorf("%s %s (%s): it was %q and is %q", run.Outcome, run.ErrorCode, run.ErrorMessage, before, show())
				}
			})
		}
	}
}

// If a worker dies after it carried out the decision, the next attempt does the
// rest, although there seems to be nothing left to do.
func TestADecisionThatWasCarriedOutIsNotRefusedByTheNextAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decision reconciliation.Resolution
		happen   func(w *world)
	}{
		"return": {reconciliation.ReturnToService, func(w *world) {
			w.maas.set("m000", "Failed testing", reconciliation.Failed)
			w.cycle(w.tb)
			w.maas.set("m000", "Deployed", reconciliation.Installed)
		}},
		"installation": {reconciliation.AdoptObserved, func(w *world) { w.maas.machines["m000"].Installation = 77 }},
		"id":           {reconciliation.AdoptObserved, func(w *world) { w.recreate(0) }},
	} {
		for after, away := range map[string]bool{"and MAAS answers": false, "and MAAS is away": true} {
			t.Run(name+", "+after, func(t *testing.T) {
				w := newWorld(t, 1)
				w.cycle(t)
				c.happen(w)
				run, err := w.service.Resolve(w.ctx, w.nodes[0], c.decision, "an operator decided so")
				if err != nil {
					t.Fatal(err)
				}
				alive := w.ctx
				dying, die := context.WithCancel(alive)
				defer die()
				done := 0
				w.maas.asked = func() {
					if done = w.count(t,
						`SELECT count(*) FROM reconciliation_runs WHERE id = $1 AND outcome = 'informed' AND ended_at IS NULL`,
						run.ID); done == 1 {
						die()
					}
				}
				if _, err := w.service.Reconcile(dying, reconciliation.Input{Site: w.at, Run: run.ID}); err == nil || done != 1 {
					t.Fatalf("it did not die after it was done: %v", err)
				}
				w.maas.asked, w.maas.away = nil, away
				w.exec(t, `UPDATE reconciliation_sites SET running_id = NULL, running_until = NULL`)
				w.restart()
				again := w.run(t, run.ID)
				if again.Outcome != reconciliation.Informed || again.ErrorCode != "" || again.EndedAt == nil ||
					w.status(t, 0) != node.Active {
					t.Errorf("outcome %s %s %s, node %s", again.Outcome, again.ErrorCode, again.ErrorMessage, w.status(t, 0))
				}
				if !away && len(w.open(t, 0)) != 0 {
					t.Errorf("left is %v", w.open(t, 0))
				}
			})
		}
	}
}

func TestADecisionAboutANodeThatWasUnboundEnds(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	run, err := w.service.Resolve(w.ctx, w.nodes[0], reconciliation.ReturnToService, "an operator decided so")
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, `DELETE FROM node_maas_state WHERE node_id = $1`, w.nodes[0])
	if got := w.run(t, run.ID); got.Outcome != reconciliation.Refused || got.ErrorCode != "node_not_bound" ||
		got.EndedAt == nil {
		t.Errorf("%+v", got)
	}
}

// Anybody can change a name, so it does not prove a server.
func TestAServerUnderAnotherIDMustBeProvenTheSame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by, address, other string
		code               string
	}{
		"by its name":                   {"hostname", "10.9.9.9", "", "twin_not_proven"},
		"by its name and address":       {"hostname", "10.0.0.1", "", ""},
		"by its interface":              {"mac_address", "10.9.9.9", "", ""},
		"by its BMC":                    {"power_address", "10.9.9.9", "", ""},
		"that of a node at another MAC": {"mac_address", "10.9.9.9", `pxe_mac = '02:00:00:00:00:99'`, ""},
		"that of a node by interface":   {"mac_address", "10.9.9.9", `pxe_mac = '02:00:00:00:00:AA'`, "twin_taken"},
		"that of a node by BMC":         {"mac_address", "10.9.9.9", `ipmi_ip = '10.255.0.1'`, "twin_taken"},
		"that of a deleted node":        {"mac_address", "10.9.9.9", `pxe_mac = '02:00:00:00:00:aa'`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.cycle(t)
			w.exec(t, `UPDATE node_maas_state SET ipmi_ip = '10.255.0.1' WHERE node_id = $1`, w.nodes[0])
			m := w.recreate(0)
			m.IPs, m.MACs, w.maas.foundBy = []string{c.address}, []string{"02:00:00:00:00:aa"}, c.by
			if c.other != "" {
				w.exec(t, `UPDATE node_maas_state SET site_id = $2, maas_system_id = $3, `+c.other+` WHERE node_id = $1`,
					w.nodes[1], w.site(t, "dc2", nil), m.SystemID)
			}
			if name == "that of a deleted node" {
				w.exec(t, `UPDATE nodes SET status = 'deleted', schedulable = false WHERE id = $1`, w.nodes[1])
			}
			run := w.settle(t, 0, reconciliation.AdoptObserved)
			if run.ErrorCode != c.code || (run.Outcome == reconciliation.Refused) != (c.code != "") || c.code != "" &&
				run.ErrorRemedy == "" {
				t.Errorf("%s %s: %s", run.Outcome, run.ErrorCode, run.ErrorMessage)
			}
			if n := w.count(t, `SELECT count(*) FROM node_maas_state WHERE node_id = $1 AND maas_system_id = $2`, w.nodes[0],
				m.SystemID); (n == 1) != (c.code == "") {
				t.Errorf("bound to it: %d", n)
			}
		})
	}
}

// If one part cannot be adopted, nothing is: a refusal means that nothing was
// changed.
func TestARefusedAdoptionChangesNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	w.maas.machines["m000"].IPs, w.maas.machines["m000"].Installation = []string{"10.0.0.200", "10.0.0.201"}, 77
	run := w.settle(t, 0, reconciliation.AdoptObserved)
	if n := w.count(t, `SELECT installation_id FROM node_maas_state WHERE node_id = $1`,
		w.nodes[0]); run.ErrorCode != "address_ambiguous" || n != 1000 {
		t.Errorf("%s %s, and the installation is %d", run.Outcome, run.ErrorCode, n)
	}
}

func TestDecisionsThatNeedNoLook(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	w.maas.set("m000", "Testing", reconciliation.Maintenance)
	w.cycle(t)
	if run := w.settle(t, 0, reconciliation.Acknowledge); run.Outcome != reconciliation.Informed {
		t.Fatalf("%+v", run)
	}
	if f := w.open(t, 0)[reconciliation.TypeRecommissioning]; f.AcknowledgedAt == nil || f.Acknowledgement == "" {
		t.Errorf("acknowledged is %+v", f)
	}
	if run := w.settle(t, 0, reconciliation.Reimage); len(run.Report.Left) != 1 ||
		run.Report.Left[0].Job != "decommission 1" {
		t.Errorf("reimage: %+v", run.Report)
	}
	if w.settle(t, 0, reconciliation.QuarantineNode); w.status(t, 0) != node.Quarantined {
		t.Errorf("node is %s", w.status(t, 0))
	}
	for reason, c := range map[string]struct {
		r    reconciliation.Resolution
		code string
	}{"": {reconciliation.Acknowledge, "reason_missing"}, "why": {"explode", "resolution_unknown"}} {
		if _, err := w.service.Resolve(w.ctx, w.nodes[0], c.r, reason); fault.CodeOf(err) != c.code {
			t.Errorf("%q: %v", c.r, err)
		}
	}
}

func TestAHealedNodeReturnsByItselfOnlyIfPolicyAllowsAndReconciliationTookIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy, operator bool
		want             node.Status
	}{
		"without the policy":         {false, false, node.Quarantined},
		"with the policy":            {true, false, node.Active},
		"an operator quarantined it": {true, true, node.Quarantined},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.exec(t, `UPDATE maas_site_profiles SET return_healed_nodes = $1`, c.policy)
			w.cycle(t)
			if c.operator {
				if _, err := node.New(node.Config{DB: w.db}).Quarantine(w.ctx, w.nodes[0], "a disk is noisy"); err != nil {
					t.Fatal(err)
				}
			}
			w.maas.set("m000", "Failed testing", reconciliation.Failed)
			w.cycle(t)
			w.maas.set("m000", "Deployed", reconciliation.Installed)
			w.cycle(t)
			if got := w.status(t, 0); got != c.want {
				t.Errorf("the node is %s, not %s", got, c.want)
			}
		})
	}
}

func TestMachinesOfSitesOfTheSameMAASAreNotUnmanaged(t *testing.T) {
	w := newWorld(t, 2)
	other := w.site(t, "dc2", nil)
	w.exec(t, `UPDATE maas_sites SET api_base_url = (SELECT api_base_url FROM maas_sites WHERE id = $1) WHERE id = $2`,
		w.at, other)
	w.exec(t, `UPDATE node_maas_state SET site_id = $1 WHERE node_id = $2`, other, w.nodes[1])
	w.maas.set("m001", "Ready", reconciliation.Free)
	if run := w.cycle(t); run.Report.Unmanaged != 0 || w.count(t, `SELECT count(*) FROM reconciliation_findings`) != 0 {
		t.Errorf("%+v", run.Report)
	}
}
