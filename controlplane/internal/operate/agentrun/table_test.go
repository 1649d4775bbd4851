package agentrun_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/agentrun"
)

// broken puts the node into the state that a scenario is about.
func (w *world) broken(s agentrun.Scenario) {
	switch s {
	case agentrun.BootstrapInstall:
		w.change(`status = 'bootstrap_issued', schedulable = false, reported_agent_version = '', reported_agent_commit = '',
			certificate_not_after = NULL, agent_instance = ''`)
	case agentrun.CertificateRepair:
		w.change(`certificate_not_after = clock_timestamp() - interval '1 day', status = 'offline', schedulable = false`)
	case agentrun.DriftReconcile:
		w.change(`desired_agent_version = $2`, target)
	case agentrun.InPlaceUpgrade, agentrun.RepairReinstall:
	}
}

// TestTheTable goes through each row: what is begun, what is left to somebody on the
// machine, and that the run succeeds when the node has proven it and not before.
func TestTheTable(t *testing.T) {
	if len(agentrun.Table) != 15 {
		t.Fatalf("%d rows", len(agentrun.Table))
	}
	for _, rule := range agentrun.Table {
		t.Run(string(rule.Scenario)+" by "+string(rule.Mode), func(t *testing.T) {
			w := newWorld(t)
			w.broken(rule.Scenario)
			o := agentrun.Order{Mode: rule.Mode, Scenario: rule.Scenario}
			switch {
			case rule.Scenario == agentrun.InPlaceUpgrade,
				rule.Scenario == agentrun.RepairReinstall && rule.Way == agentrun.BySelfUpdate:
				o.Target = target
			case rule.Scenario == agentrun.BootstrapInstall && rule.Way == agentrun.ByDecommission:
				w.refuses(o, "agent_run_node_joining") // it was never in service: its onboarding installs it
				return
			}
			b := w.begin(o)
			if b.Way != rule.Way {
				t.Fatalf("it goes by %s, not %s", b.Way, rule.Way)
			}
			switch rule.Way {
			case agentrun.ByDecommission:
				w.goesByDecommission(b)
			case agentrun.BySelfUpdate:
				w.goesBySelfUpdate(b)
			case agentrun.ByOperator:
				w.goesByOperator(b, rule)
			}
			w.proves(b)
		})
	}
}

func (w *world) goesByDecommission(b agentrun.Begun) {
	w.t.Helper()
	w.stands(w.look(b.ID), agentrun.Reimaging)
	r := w.stands(w.look(b.ID), agentrun.Reimaging)
	if b.Bootstrap != nil || len(w.reinstalls) != 1 || r.Reinstalls != w.reinstalls[0] ||
		r.Next().Action != agentrun.FollowDecommission {
		w.t.Fatalf("%+v, %d decommissions", r.Next(), len(w.reinstalls))
	}
	w.exec(`UPDATE jobs SET status = 'completed', phase = 'over', completed_at = clock_timestamp() WHERE id = $1`, r.Reinstalls)
	w.enrols(before)
}

func (w *world) goesBySelfUpdate(b agentrun.Begun) {
	w.t.Helper()
	w.stands(w.look(b.ID), agentrun.Delivering)
	if b.Bootstrap != nil || len(w.reinstalls) != 0 {
		w.t.Fatal("somebody is asked to act")
	}
}

func (w *world) goesByOperator(b agentrun.Begun, rule agentrun.Rule) {
	w.t.Helper()
	action := agentrun.InstallByHand
	if rule.Brokered != "" {
		action = agentrun.BrokeredBootstrap
	}
	next := w.stands(b.Run, agentrun.AwaitingOperator).Next()
	if b.Bootstrap == nil || b.Bootstrap.Command == "" || next.Action != action ||
		!strings.Contains(next.Text, rule.Brokered) || !strings.HasPrefix(next.Command, "gpuaas node bootstrap n1") {
		w.t.Fatalf("%+v, bootstrap %+v", next, b.Bootstrap)
	}
	w.stands(w.look(b.ID), agentrun.AwaitingOperator) // nobody has acted
	w.enrols(before)
}

// proves lets the node come to the end, by an update in place where what came with the
// installation is not what is meant.
func (w *world) proves(b agentrun.Begun) {
	w.t.Helper()
	for range 6 {
		if r := w.look(b.ID); r.Status == agentrun.Verifying || r.Status.Over() {
			break
		}
		w.works("")
	}
	w.stands(w.get(b.ID), agentrun.Verifying)
	w.stands(w.look(b.ID), agentrun.Verifying) // nothing was heard since
	w.heard()
	r := w.stands(w.look(b.ID), agentrun.Succeeded)
	if r.FinishedAt == nil {
		w.t.Error("it has no end")
	}
	if n := w.count(`SELECT count(*) FROM nodes WHERE id = $1 AND last_delivery_result = 'delivered'
		AND ($2 = '' OR reported_agent_version = $2)`, w.node, r.Target); n != 1 {
		w.t.Errorf("the node does not say that %q was delivered", r.Target)
	}
}

// An agent that cannot be told to replace itself leaves the step to somebody there.
func TestRebootstrapBrokersWhatItCannotReach(t *testing.T) {
	for name, c := range map[string]struct{ set, because string }{
		"no certificate": {`certificate_not_after = clock_timestamp() - interval '1 day'`, "no valid certificate"},
		"silent":         {`status = 'offline', schedulable = false`, "is not heard"},
		"too old":        {`capabilities = '{"agent.protocol": "0"}'`, "too old"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.change(c.set)
			b := w.begin(agentrun.Order{Mode: node.ByRebootstrap, Scenario: agentrun.InPlaceUpgrade, Target: target})
			next := w.stands(b.Run, agentrun.AwaitingOperator).Next()
			if next.Action != agentrun.BrokeredBootstrap || !strings.Contains(next.Text, c.because) || b.Bootstrap == nil {
				t.Errorf("%+v", next)
			}
		})
	}
}
