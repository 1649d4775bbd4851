package reconciliation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// drifts are the scenarios of the specification as MAAS shows them, and what
// becomes of the node.
var drifts = []struct {
	name   string
	happen func(w *world)
	finds  reconciliation.Type
	status node.Status
	heal   func(w *world)
}{
	{
		"admin releases node in MAAS UI", func(w *world) { w.maas.set("m000", "Ready", reconciliation.Free) },
		reconciliation.TypeReleased, node.Quarantined, nil,
	},
	{
		"admin redeploys from MAAS CLI", func(w *world) { w.maas.set("m000", "Deploying", reconciliation.Deploying) },
		reconciliation.TypeRedeploying, node.Quarantined, nil,
	},
	{"somebody else's installation runs on it", func(w *world) {
		w.maas.machines["m000"].Installation = 7
		w.maas.events = append(w.maas.events, "m000")
	}, reconciliation.TypeDeployedElsewhere, node.Quarantined, nil},
	{
		"node hardware failure", func(w *world) { w.maas.set("m000", "Failed testing", reconciliation.Failed) },
		reconciliation.TypeHardwareFailed, node.Quarantined, nil,
	},
	{"node powered off externally", func(w *world) {
		w.maas.machines["m000"].Power = "off"
		w.maas.events = append(w.maas.events, "m000")
		w.silence(0)
	}, reconciliation.TypePoweredOff, node.Offline, func(w *world) { w.maas.machines["m000"].Power = "on"; w.hear(0) }},
	{"MAAS firmware update reboots node", func(
		w *world,
	) {
		w.maas.set("m000", "Commissioning", reconciliation.Maintenance)
	}, reconciliation.TypeRecommissioning, node.Active, nil},
	{"node IP changes after redeploy", func(w *world) {
		w.maas.machines["m000"].IPs = []string{"10.0.9.9"}
		w.maas.events = append(w.maas.events, "m000")
	}, reconciliation.TypeIPChanged, node.Active, func(*world) {}},
	{"machine deleted from MAAS", func(w *world) {
		delete(w.maas.machines, "m000")
		w.suspect(0)
	}, reconciliation.TypeAbsent, node.Quarantined, nil},
	{"machine deleted and added again", func(w *world) {
		m := *w.maas.machines["m000"]
		delete(w.maas.machines, "m000")
		m.SystemID, m.Status, m.State = "new1", "New", reconciliation.Free
		w.maas.machines["new1"] = &m
		w.suspect(0)
	}, reconciliation.TypeRecreated, node.Quarantined, func(w *world) { delete(w.maas.machines, "new1") }},
	{
		"a status that nobody knows", func(w *world) { w.maas.set("m000", "Contemplating", reconciliation.Strange) },
		reconciliation.TypeStatusUnknown, node.Active, nil,
	},
}

func TestEveryDriftIsFoundActedOnOnceAndHeals(t *testing.T) {
	t.Parallel()
	for _, d := range drifts {
		t.Run(d.name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.tb = t
			w.cycle(t)
			if got := w.open(t, 0); len(got) != 0 {
				t.Fatalf("a healthy node has findings: %v", got)
			}
			d.happen(w)
			w.cycle(t)
			found, ok := w.open(t, 0)[d.finds]
			if !ok && d.finds != reconciliation.TypeIPChanged {
				t.Fatalf("found %v, not %s", w.open(t, 0), d.finds)
			}
			if got := w.status(t, 0); got != d.status {
				t.Errorf("the node is %s, not %s (%+v)", got, d.status, found)
			}
			w.cycle(t)
			w.cycle(t)
			if n := w.count(t, `SELECT count(*) FROM node_events WHERE node_id = $1 AND event = 'quarantine'`,
				w.nodes[0]); n > 1 {
				t.Errorf("it was quarantined %d times", n)
			}
			for n := 1; n < 3; n++ {
				if got := w.open(t, n); len(got) != 0 || w.status(t, n) != node.Active {
					t.Errorf("node %d is %s with %v", n, w.status(t, n), got)
				}
			}
			w.maas.machines["m000"] = w.healthy(0)
			if d.finds == reconciliation.TypeIPChanged {
				w.maas.machines["m000"].IPs = []string{"10.0.9.9"}
			}
			if d.heal != nil {
				d.heal(w)
			}
			w.cycle(t)
			if got := w.open(t, 0); len(got) != 0 {
				t.Errorf("after it healed there is %v", got)
			}
			if w.count(t, `SELECT count(*) FROM node_maas_state WHERE node_id = $1 AND drift_detected`, w.nodes[0]) != 0 {
				t.Error("its state still says that it drifted")
			}
		})
	}
}

func TestIPChangedUpdatesTheHost(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	w.maas.machines["m000"].IPs = []string{"10.0.9.9"}
	w.maas.events = append(w.maas.events, "m000")
	w.cycle(t)
	n, err := node.Get(w.ctx, w.db, w.nodes[0])
	if err != nil || n.Host != "10.0.9.9" || n.Status != node.Active {
		t.Fatalf("host is %s, status %s, %v", n.Host, n.Status, err)
	}
	w.cycle(t)
	if got := w.open(t, 0); len(got) != 0 {
		t.Errorf("still %v", got)
	}
}

func TestOneLookIsNotBelieved(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	w.maas.set("m000", "Ready", reconciliation.Free)
	in := reconciliation.Input{Site: w.at, Run: newRun()}
	looked, err := w.service.Reconcile(w.ctx, in)
	if err != nil || looked.Again == 0 {
		t.Fatalf("no second look is asked for: %v %v", looked, err)
	}
	if f := w.open(t, 0)[reconciliation.TypeReleased]; f.Status != reconciliation.Open || w.status(t, 0) != node.Active {
		t.Fatalf("after one look it is %s and the node %s", f.Status, w.status(t, 0))
	}
	w.maas.set("m000", "Deployed", reconciliation.Installed)
	w.time = w.time.Add(looked.Again)
	if err := w.service.ReconcileAgain(w.ctx, in); err != nil {
		t.Fatal(err)
	}
	if len(w.open(t, 0)) != 0 || w.status(t, 0) != node.Active {
		t.Errorf("a flicker left %v and the node %s", w.open(t, 0), w.status(t, 0))
	}
}

func TestNothingIsDerivedFromWhatWasNotAnswered(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*plainMAAS){
		"nothing is answered":       func(m *plainMAAS) { m.away = true },
		"an empty listing":          func(m *plainMAAS) { m.emptyExceptions, m.noReads = true, true },
		"a listing that breaks off": func(m *plainMAAS) { m.noExceptions, m.noReads = true, true },
		"empty answers by id":       func(m *plainMAAS) { m.emptyExceptions, m.emptyReads, m.noDirect = true, true, true },
		"answers by id that leave some": func(m *plainMAAS) {
			m.emptyExceptions, m.noDirect = true, true
			m.hidden["m000"], m.hidden["m001"] = true, true
		},
		"events and reads that time out": func(m *plainMAAS) { m.noEvents, m.noReads, m.emptyExceptions = true, true, true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4)
			w.cycle(t)
			w.maas.set("m000", "Ready", reconciliation.Free)
			w.cycle(t)
			before := w.open(t, 0)[reconciliation.TypeReleased]
			fault(w.maas)
			for range 15 { // longer than a sweep
				w.cycle(t)
			}
			after, ok := w.open(t, 0)[reconciliation.TypeReleased]
			if !ok || after.Status != before.Status || after.ID != before.ID {
				t.Errorf("the finding was %+v and is %+v", before, after)
			}
			for n := 1; n < 4; n++ {
				if w.status(t, n) != node.Active || len(w.open(t, n)) != 0 {
					t.Errorf("node %d is %s with %v", n, w.status(t, n), w.open(t, n))
				}
			}
		})
	}
}

func TestOneQuestionThatFailsDoesNotBlockTheOthers(t *testing.T) {
	w := newWorld(t, 2)
	w.cycle(t)
	w.maas.noEvents = true
	w.maas.set("m000", "Broken", reconciliation.Failed)
	run := w.cycle(t)
	if run.Outcome != reconciliation.Partly || w.status(t, 0) != node.Quarantined {
		t.Errorf("outcome %s, node %s", run.Outcome, w.status(t, 0))
	}
	w.maas.noEvents, w.maas.noExceptions = false, true
	w.maas.set("m001", "Broken", reconciliation.Failed)
	if w.cycle(t); w.status(t, 1) != node.Quarantined {
		t.Errorf("node 1 is %s although its event was read", w.status(t, 1))
	}
}

func TestWhatOnlyAReadShowsIsFoundWithinASweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 30)
	w.cycle(t)
	delete(w.maas.machines, "m007") // no event, no exception
	for range 12 {
		w.cycle(t)
	}
	if w.status(t, 7) != node.Quarantined {
		t.Errorf("node 7 is %s after a sweep", w.status(t, 7))
	}
}

func TestANodeOfAJobIsLeftToItAndTheJobIsTold(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	w.exec(t, `UPDATE nodes SET held_by = 'decommission 1', schedulable = false WHERE id = $1`, w.nodes[0])
	w.jobs.under = []bringup.Working{{
		Kind: "decommission", ID: "1", Node: w.nodes[0], SystemID: "m000",
		Hostname: w.hostname(0),
	}}
	w.maas.set("m000", "Failed deployment", reconciliation.Failed)
	run := w.cycle(t)
	if w.status(t, 0) != node.Active || len(w.open(t, 0)) != 0 {
		t.Errorf("the node is %s with %v", w.status(t, 0), w.open(t, 0))
	}
	if len(w.jobs.noticed) == 0 || len(run.Report.Left) != 1 {
		t.Errorf("the job was told %v, the report says %v", w.jobs.noticed, run.Report.Left)
	}
}

func TestAParkedJobWhoseGoalIsReachedIsSettled(t *testing.T) {
	w := newWorld(t, 1)
	w.jobs.under = []bringup.Working{
		{Kind: "onboarding", ID: "1", Parked: true},
		{Kind: "onboarding", ID: "2", Parked: true},
		{Kind: "onboarding", ID: "3"},
	}
	w.jobs.reached["1"], w.jobs.reached["3"] = true, true
	run := w.cycle(t)
	if len(run.Report.Settled) != 1 || run.Report.Settled[0].Job != "onboarding 1" {
		t.Errorf("settled are %v", run.Report.Settled)
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.cycle(t)
	w.maas.set("m000", "Ready", reconciliation.Free)
	const state = `SELECT count(*) FROM reconciliation_findings WHERE site_id = $1`
	run := w.asked(t, reconciliation.RunRequest{DryRun: true})
	if len(run.Report.Intended) != 1 || run.Report.Intended[0].Action != reconciliation.Quarantine ||
		run.Report.Intended[0].Done {
		t.Errorf("intended are %+v", run.Report.Intended)
	}
	if w.count(t, state, w.at) != 0 || w.status(t, 0) != node.Active {
		t.Errorf("it left %d findings, node %s", w.count(t, state, w.at), w.status(t, 0))
	}
	w.settings.DryRun = true
	w.restart()
	w.cycle(t)
	if f := w.open(t, 0)[reconciliation.TypeReleased]; f.Status != reconciliation.Confirmed || f.Withheld == "" ||
		w.status(t, 0) != node.Active {
		t.Errorf("while it only watches: %+v, node %s", f, w.status(t, 0))
	}
	w.settings.DryRun = false
	w.restart()
	if w.cycle(t); w.status(t, 0) != node.Quarantined {
		t.Errorf("afterwards the node is %s", w.status(t, 0))
	}
}

func TestHardwareSyncIsReseededABoundedNumberOfTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.cycle(t)
	for range 6 {
		w.maas.machines["m000"].LastSync = new(w.time.Add(-3 * time.Hour))
		w.maas.events = append(w.maas.events, "m000")
		w.cycle(t)
		w.maas.machines["m000"].LastSync = new(w.time)
		w.cycle(t)
	}
	if len(w.tasks.tasks) != 3 {
		t.Errorf("it was given its token %d times in an hour", len(w.tasks.tasks))
	}
	list := w.count(t, `SELECT max(occurrence) FROM reconciliation_findings WHERE node_id = $1`, w.nodes[0])
	if list != 6 {
		t.Errorf("the last of six findings is number %d", list)
	}
}

// A pinned machine learns the digest of the program that reports from the
// signed task itself. Older agents refuse the unknown field.
func TestAReseedNamesTheProgramThatMAASHandsOutNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.exec(t, `UPDATE maas_sites SET hw_sync_http = 'pinned' WHERE id = $1`, w.at)
	w.cycle(t)
	reseeds := func(want int, named string) {
		t.Helper()
		w.maas.machines["m000"].LastSync = new(w.time.Add(-3 * time.Hour))
		w.maas.events = append(w.maas.events, "m000")
		w.cycle(t)
		w.tasks.tasks = slices.DeleteFunc(w.tasks.tasks,
			func(r agenttask.Request) bool { return strings.HasPrefix(r.IdempotencyKey, "hw-sync-pin/") })
		if len(w.tasks.tasks) != want {
			t.Fatalf("%d tasks, want %d", len(w.tasks.tasks), want)
		}
		if want > 0 {
			if p := w.tasks.tasks[want-1].Params.(agentwire.HWSyncParams); p.RunScripts != named {
				t.Errorf("the task names %q, want %q", p.RunScripts, named)
			}
		}
	}
	w.exec(t, `UPDATE nodes SET hardware_said = true WHERE id = $1`, w.nodes[0])
	reseeds(0, "")
	w.maas.program = strings.Repeat("ab", 32)
	reseeds(1, w.maas.program)
	w.maas.machines["m000"].LastSync = new(w.time)
	w.cycle(t)
	w.exec(t, `UPDATE nodes SET hardware_said = false WHERE id = $1`, w.nodes[0])
	reseeds(2, "")
}

// Machines that were deployed before programs were pinned run as root whatever plain
// HTTP brings: their agents are told the digest without anybody asking, until they
// say that they go by it.
func TestAttackMachinesOfBeforeArePinned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.maas.program = strings.Repeat("ab", 32)
	w.exec(t, `UPDATE maas_sites SET hw_sync_http = 'undecided' WHERE id = $1`, w.at)
	w.exec(t, `UPDATE nodes SET hardware_said = id <> $1`, w.nodes[0]) // an agent of before refuses the digest
	w.exec(t, `INSERT INTO node_onboardings (id, site_id, profile_id, sku_id, hostname, ipmi_ip, node_id, status, current_stage, facts, workflow_id, requested_by,
		correlation_id, completed_at) SELECT gen_random_uuid(), site_id, profile_id, 'h200-sxm-baremetal-8g', 'm1', '', node_id, 'completed', 'x',
		'{"deployed_at": "2026-01-01T00:00:00Z", "sync_pinned": true}', 'x', 'x', 'x', now() FROM node_maas_state WHERE node_id = $1`, w.nodes[1])
	w.exec(t, `UPDATE nodes SET held_by = 'decommission x', schedulable = false WHERE id = $1`, w.nodes[2])
	given := func(want ...id.Node) {
		t.Helper()
		w.tasks.tasks = nil
		w.cycle(t)
		var got []id.Node
		for _, r := range w.tasks.tasks {
			p, ok := r.Params.(agentwire.HWSyncParams)
			if !ok || r.Type != agentwire.TypeHWSyncReseed || p.RunScripts != w.maas.program || p.SystemID == "" ||
				p.Interval == "" || p.MAASURL == "" {
				t.Errorf("task %+v", r)
			}
			got = append(got, r.Node)
		}
		if !slices.Equal(got, want) {
			t.Errorf("pinned are %v, want %v", got, want)
		}
	}
	reports := func(n id.Node, output string) {
		w.exec(t, `INSERT INTO node_tasks (id, node_id, type, params, status, concurrency_class, generation, max_attempts, deadline_at, requested_by, correlation_id, output,
			created_at, finished_at) SELECT gen_random_uuid(), id, $2, '{"run_scripts_sha256": "x"}', 'succeeded', 'exclusive', generation, 1, now(), 'x', 'x', $3, $4, now()
			FROM nodes WHERE id = $1`, n, agentwire.TypeHWSyncReseed, output, w.time)
	}
	given(w.nodes[3])
	reports(w.nodes[3], `{"credentials_written": true}`) // by an agent that does not know how
	given()
	w.exec(t, `UPDATE nodes SET held_by = '' WHERE id = $1`, w.nodes[2])
	given(w.nodes[2])
	reports(w.nodes[2], `{"pinned": true}`)
	w.time = w.time.Add(25 * time.Hour)
	given(w.nodes[3])
	w.exec(t, `UPDATE maas_sites SET hw_sync_http = 'accepted' WHERE id = $1`, w.at)
	given()
	w.exec(t, `UPDATE maas_sites SET hw_sync_http = 'pinned' WHERE id = $1`, w.at)
	w.maas.program = ""
	given()
}

// When MAAS begins to speak https, the machines that it deployed before go on over
// plain HTTP: their agents are told the digest at such a site as well.
func TestAttackTheSiteTurnsToHTTPSAndItsMachinesGoOnOverPlainHTTP(t *testing.T) {
	w := newWorld(t, 4)
	w.maas.program = strings.Repeat("ab", 32)
	w.exec(t, `UPDATE maas_sites SET api_base_url = 'https://maas.example/MAAS' WHERE id = $1`, w.at)
	w.exec(t, `UPDATE nodes SET hardware_said = true`)
	w.exec(t, `UPDATE nodes SET status = 'quarantined', schedulable = false WHERE id = $1`, w.nodes[1])
	for i, url := range map[int]string{2: "http://maas.example/MAAS", 3: "https://maas.example/MAAS"} {
		w.exec(t, `INSERT INTO node_onboardings (id, site_id, profile_id, sku_id, hostname, ipmi_ip, node_id, status, current_stage, facts, workflow_id, requested_by,
			correlation_id, completed_at) SELECT gen_random_uuid(), site_id, profile_id, 'h200-sxm-baremetal-8g', 'm1', '', node_id, 'completed', 'x',
			jsonb_build_object('deployed_at', '2026-01-01T00:00:00Z', 'sync_url', $2::text), 'x', 'x', 'x', now() FROM node_maas_state WHERE node_id = $1`, w.nodes[i], url)
	}
	given := func() (got []id.Node) {
		w.tasks.tasks = nil
		w.cycle(t)
		for _, r := range w.tasks.tasks {
			if strings.HasPrefix(r.IdempotencyKey, "hw-sync-pin/") {
				got = append(got, r.Node)
			}
		}
		return got
	}
	got := given()
	if len(got) != 3 || slices.Contains(got, w.nodes[3]) {
		t.Errorf("pinned are %v of %v", got, w.nodes)
	}
	// A machine does not know the CA of the site: it could fetch nothing.
	w.exec(t, `UPDATE maas_sites SET ca_certificate = 'x' WHERE id = $1`, w.at)
	if got := given(); len(got) != 0 {
		t.Errorf("pinned are %v", got)
	}
	// From another MAAS than the site has now, the digest says nothing.
	w.exec(t, `UPDATE maas_sites SET api_base_url = 'http://other.example/MAAS', ca_certificate = '', hw_sync_http = 'pinned' WHERE id = $1`, w.at)
	if got := given(); len(got) != 2 || slices.Contains(got, w.nodes[2]) {
		t.Errorf("pinned are %v of %v", got, w.nodes)
	}
}

// In the run in which the breaker opens, nothing is touched any more.
func TestMachinesAreNotPinnedWhileTheBreakerOpens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10)
	w.cycle(t)
	w.maas.program = strings.Repeat("ab", 32)
	w.exec(t, `UPDATE maas_sites SET hw_sync_http = 'pinned' WHERE id = $1`, w.at)
	w.exec(t, `UPDATE nodes SET hardware_said = true`)
	for system := range w.maas.machines {
		w.maas.set(system, "Ready", reconciliation.Free)
	}
	if run := w.cycle(t); run.Outcome != reconciliation.Tripped || len(w.tasks.tasks) != 0 {
		t.Errorf("the run is %s, %d tasks", run.Outcome, len(w.tasks.tasks))
	}
}

func TestRetiredMachinesAreLeftSwitchedOffOrReleasedAsTheProfileSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	policy := func(p site.RetiredMachines) {
		w.exec(t, `UPDATE maas_site_profiles SET retired_machines = $2 WHERE site_id = $1`, w.at, p)
	}
	w.exec(t, `UPDATE nodes SET status = 'retired', schedulable = false WHERE id = $1`, w.nodes[0])
	policy(site.RetiredLeave)
	run := w.asked(t, reconciliation.RunRequest{Full: true})
	if len(w.maas.releases)+len(w.maas.switchedOff) != 0 ||
		w.open(t, 0)[reconciliation.TypeRetiredDeployed].Withheld == "" {
		t.Fatalf("released %v, switched off %v; %+v", w.maas.releases, w.maas.switchedOff, run.Report)
	}
	policy(site.RetiredPowerOff)
	w.cycle(t)
	w.cycle(t)
	w.cycle(t)
	if !slices.Equal(w.maas.switchedOff, []string{"m000"}) || len(w.maas.releases) != 0 || len(w.open(t, 0)) != 0 {
		t.Fatalf("switched off %v, released %v; left is %v", w.maas.switchedOff, w.maas.releases, w.open(t, 0))
	}
	policy(site.RetiredRelease)
	w.asked(t, reconciliation.RunRequest{Full: true})
	w.cycle(t)
	w.cycle(t)
	if !slices.Equal(w.maas.releases, []string{"m000"}) {
		t.Errorf("released %v", w.maas.releases)
	}
	if len(w.open(t, 0)) != 0 {
		t.Errorf("left is %v", w.open(t, 0))
	}
}

func TestASuspicionIsLookedIntoAtOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.tb = t
	w.cycle(t)
	delete(w.maas.machines, "m001")
	w.suspect(1)
	if err := w.service.Tend(w.ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.service.Tend(w.ctx); err != nil {
		t.Fatal(err)
	}
	var run idOfRun
	if err := w.db.QueryRow(w.ctx, `SELECT id FROM reconciliation_runs WHERE trigger = 'suspicion' AND site_id = $1`,
		w.at).Scan(&run); err != nil {
		t.Fatal(err)
	}
	reads := w.maas.askedExceptions
	w.run(t, run)
	if w.status(t, 1) != node.Quarantined || w.maas.askedExceptions != reads {
		t.Errorf("node is %s; the listing was asked %d times more", w.status(t, 1), w.maas.askedExceptions-reads)
	}
	if n := w.count(t, `SELECT count(*) FROM reconciliation_suspicions`); n != 0 {
		t.Errorf("%d suspicions are left", n)
	}
}
