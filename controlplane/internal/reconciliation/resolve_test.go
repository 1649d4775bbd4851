package reconciliation_test

import (
	"testing"

	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/node"
	"gpuaas/controlplane/internal/reconciliation"
)

// settle is a decision of an operator, carried out.
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
	if run := w.settle(t, 0, reconciliation.ReturnToService); run.Outcome != reconciliation.Refused || run.ErrorCode != "not_proven_healthy" {
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
		if n := w.count(t, `SELECT count(*) FROM node_maas_state WHERE node_id = $1 AND maas_system_id = 'new1'`, w.nodes[1]); n != 1 {
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
	if run := w.settle(t, 0, reconciliation.Reimage); len(run.Report.Left) != 1 || run.Report.Left[0].Job != "decommission 1" {
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
				w.settle(t, 0, reconciliation.QuarantineNode)
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
	w.exec(t, `UPDATE maas_sites SET api_base_url = (SELECT api_base_url FROM maas_sites WHERE id = $1) WHERE id = $2`, w.at, other)
	w.exec(t, `UPDATE node_maas_state SET site_id = $1 WHERE node_id = $2`, other, w.nodes[1])
	w.maas.set("m001", "Ready", reconciliation.Free)
	if run := w.cycle(t); run.Report.Unmanaged != 0 || w.count(t, `SELECT count(*) FROM reconciliation_findings`) != 0 {
		t.Errorf("%+v", run.Report)
	}
}
