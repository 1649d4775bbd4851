package reconciliation_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// tampering is what somebody does to a machine past the control plane.
type tampering struct {
	finds []reconciliation.Type
	shows bool // in the exceptions or events of MAAS; otherwise only a read shows it
	do    func(w *world, n int)
}

var tamperings = map[string]tampering{
	"release": {
		[]reconciliation.Type{reconciliation.TypeReleased},
		true,
		func(w *world, n int) { w.maas.set(machineOf(n), "Ready", reconciliation.Free) },
	},
	"redeploy": {[]reconciliation.Type{reconciliation.TypeRedeploying}, true, func(w *world, n int) {
		w.maas.machines[machineOf(n)].Installation += 500
		w.maas.set(machineOf(n), "Deploying", reconciliation.Deploying)
	}},
	"break": {
		[]reconciliation.Type{reconciliation.TypeHardwareFailed},
		true,
		func(w *world, n int) { w.maas.set(machineOf(n), "Broken", reconciliation.Failed) },
	},
	"commission": {
		[]reconciliation.Type{reconciliation.TypeRecommissioning},
		true,
		func(w *world, n int) { w.maas.set(machineOf(n), "Testing", reconciliation.Maintenance) },
	},
	"reinstall": {[]reconciliation.Type{reconciliation.TypeDeployedElsewhere}, true, func(w *world, n int) {
		w.maas.machines[machineOf(n)].Installation += 500
		w.maas.set(machineOf(n), "Deployed", reconciliation.Installed)
	}},
	"delete": {
		[]reconciliation.Type{reconciliation.TypeAbsent},
		false,
		func(w *world, n int) { delete(w.maas.machines, machineOf(n)) },
	},
	"stop syncing": {[]reconciliation.Type{reconciliation.TypeHWSyncStale}, false, func(w *world, n int) {
		w.maas.machines[machineOf(n)].LastSync = new(w.time.Add(-24 * time.Hour))
	}},
}

// ordeal is a site to which anything may happen.
type ordeal struct {
	*world
	tampered map[int]string // what was done to a machine; absent: it is healthy
	since    map[int]int    // cycles since then in which MAAS answered everything
	moves    map[int]int    // how often somebody tampered since the node was last returned
}

func (o *ordeal) faulty() bool {
	m := o.maas
	return m.away || m.noEvents || m.noExceptions || m.noReads || m.noDirect || m.emptyExceptions || m.emptyReads ||
		len(m.hidden) > 0
}

func (o *ordeal) step(t *rapid.T, what string) {
	n := rapid.IntRange(0, len(o.nodes)-1).Draw(t, "node")
	switch what {
	case "tamper":
		how := rapid.SampledFrom(slices.Sorted(maps.Keys(tamperings))).Draw(t, "how")
		if o.tampered[n] == "" {
			tamperings[how].do(o.world, n)
			o.tampered[n], o.since[n] = how, 0
			o.moves[n]++
		}
	case "heal":
		if o.tampered[n] != "" {
			o.maas.machines[machineOf(n)] = o.healthy(n)
			o.maas.events = append(o.maas.events, machineOf(n))
			delete(o.tampered, n)
			delete(o.since, n)
		}
	case "fault":
		o.fault(rapid.IntRange(0, 7).Draw(t, "fault"), n)
	case "answer":
		o.repair()
	case "restart":
		o.restart()
	case "die":
		o.die(t)
	case "cycle":
		o.cycle(o.tb)
		if !o.faulty() {
			for k := range o.since {
				o.since[k]++
			}
		}
	}
	o.check(t)
}

func (o *ordeal) fault(kind, n int) {
	m := o.maas
	switch kind {
	case 0:
		m.away = true
	case 1:
		m.noEvents = true
	case 2:
		m.noExceptions = true
	case 3:
		m.noReads = true
	case 4:
		m.noDirect = true
	case 5:
		m.emptyExceptions = true
	case 6:
		m.emptyReads, m.noDirect = true, true
	case 7:
		m.hidden[machineOf(n)] = true
	}
}

func (o *ordeal) repair() {
	m := o.maas
	m.away, m.noEvents, m.noExceptions, m.noReads, m.noDirect, m.emptyExceptions, m.emptyReads = false, false, false,
		false, false, false, false
	clear(m.hidden)
}

// die acts as a worker that is killed between the two looks of a run. Another
// one starts the run again from its beginning.
func (o *ordeal) die(t *rapid.T) {
	in := reconciliation.Input{Site: o.at, Run: newRun()}
	for range 2 {
		if _, err := o.service.Reconcile(o.ctx, in); err != nil {
			t.Fatal(err)
		}
		o.restart()
	}
	o.time = o.time.Add(20 * time.Second)
	for range 2 {
		if err := o.service.ReconcileAgain(o.ctx, in); err != nil {
			t.Fatal(err)
		}
	}
}

// check checks what must always hold.
func (o *ordeal) check(t *rapid.T) {
	for n := range o.nodes {
		moved := o.count(o.tb, `SELECT count(*) FROM node_events WHERE node_id = $1 AND event = 'quarantine'`, o.nodes[n])
		if moved > o.moves[n] {
			t.Fatalf("node %d was quarantined %d times, and tampered with %d times", n, moved, o.moves[n])
		}
	}
	recent := o.count(o.tb,
		`SELECT count(*) FROM reconciliation_findings WHERE site_id = $1 AND action = 'quarantine' AND action_note = '' AND acted_at > $2`, o.at, o.time.Add(-time.Hour))
	if recent > 3 {
		t.Fatalf("%d nodes of a site of %d were quarantined within an hour", recent, len(o.nodes))
	}
	repeated := o.count(o.tb,
		`SELECT count(*) FROM (SELECT action_note FROM reconciliation_findings WHERE site_id = $1 AND status = 'open' AND acted_at IS NOT NULL) x`, o.at)
	if repeated > 0 {
		t.Fatal("a finding acted that was not confirmed")
	}
}

// found checks what must have been found by now.
func (o *ordeal) found(t *rapid.T, sweep bool) {
	for n, how := range o.tampered {
		if !tamperings[how].shows && !sweep || o.since[n] < 2 {
			continue
		}
		present := o.open(o.tb, n)
		for _, f := range tamperings[how].finds {
			if f == reconciliation.TypeHWSyncStale && o.status(o.tb, n) != node.Active { // the rule is for nodes in service
				continue
			}
			if _, ok := present[f]; !ok {
				t.Fatalf("node %d: %s was not found in %d cycles; present are %v", n, how, o.since[n], present)
			}
		}
	}
}

func TestWhateverHappensHealthyNodesStayAndDriftIsFound(t *testing.T) {
	t.Parallel()
	db, owner := postgrestest.NewWithOwner(t)
	worlds := 0
	rapid.Check(t, func(t1 *rapid.T) {
		worlds++
		o := &ordeal{
			world: newWorldIn(t, db, owner, fmt.Sprintf("dc%d", worlds), 8), tampered: map[int]string{},
			since: map[int]int{}, moves: map[int]int{},
		}
		o.cycle(t)
		steps := rapid.SliceOfN(rapid.SampledFrom(
			[]string{"tamper", "tamper", "heal", "fault", "answer", "restart", "die", "cycle", "cycle"}), 5, 25).Draw(t1,
			"steps")
		for _, s := range steps {
			o.step(t1, s)
		}
		o.repair()
		for range 2 {
			o.step(t1, "cycle")
		}
		o.found(t1, false)
		for range 12 {
			o.step(t1, "cycle")
		}
		o.found(t1, true)
		for n := range o.nodes {
			if o.moves[n] == 0 && o.status(t, n) != node.Active {
				t1.Fatalf("node %d is %s although nobody tampered with it", n, o.status(t, n))
			}
		}
	})
}
