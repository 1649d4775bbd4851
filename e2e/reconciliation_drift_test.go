package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/testkit"
)

// TestDriftAppearsActsAndHeals does to machines in MAAS what people do there
// behind the back of the control plane. Each shows itself with an explanation, is
// acted on once, and is over when it is put right.
func TestDriftAppearsActsAndHeals(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	site := startLabProcess(t, state, 8)
	w := watch(t, site.record, state, false, "GPUAAS_NODES_AGENT_FOLDER="+buildAgents(t),
		"GPUAAS_NODES_AGENT_VERSION="+firstAgent)
	w.onboardAll(t, site.record.Machines)
	host := func(i int) string { return site.record.Machines[i].Hostname }
	released, failed, redeployed, off, moved, deleted, recreated, healthy := host(0), host(1), host(2), host(3), host(4),
		host(5), host(6), host(7)
	before := time.Now()
	address := w.host(t, moved)

	w.happens(t, "power-off", off) // is not believed while the agent was heard of within a minute
	w.happens(t, "release", released)
	w.happens(t, "fail", failed, "hardware")
	w.happens(t, "redeploy", redeployed)
	w.happens(t, "change-ip", moved)

	t.Run("what MAAS shows is acted on", func(t *testing.T) {
		w.appears(t, released, "quarantine", "quarantined", "Ready", "released")
		w.appears(t, failed, "quarantine", "quarantined", "Failed testing", "hardware_failed")
		// "redeploying" is over when it is installed
		w.appears(t, redeployed, "quarantine", "quarantined", "", "deployed_elsewhere")
		f := w.awaitFinding(t, moved, "closed", "ip_changed")
		if now := w.host(t, moved); now == address || f.Expected != address || !strings.Contains(f.Observed, now) {
			t.Errorf("%s is reached at %s, and was at %s: %+v", moved, now, address, f)
		}
		if err := w.p.nodeIs(moved, "active"); err != nil {
			t.Error(err)
		}
	})
	t.Run("more than is likely needs an operator", func(t *testing.T) { w.breaks(t, deleted, recreated) })
	t.Run("power", func(t *testing.T) {
		w.appears(t, off, "mark_offline", "offline", "power off", "powered_off")
		w.happens(t, "power-on", off)
		w.awaitFinding(t, off, "closed", "powered_off")
		w.awaitNode(t, off, "active")
	})
	t.Run("hardware that is mended", func(t *testing.T) { w.mends(t, failed) })
	t.Run("hardware that fails again", func(t *testing.T) { w.failsAgain(t, failed) })
	t.Run("what was known when", func(t *testing.T) { w.remembers(t, released, before) })
	t.Run("who was told", func(t *testing.T) { w.told(t, failed, off, moved, released, redeployed, deleted, recreated) })
	if list := w.findings(t, healthy); len(list) != 0 {
		t.Errorf("nothing happened to %s, and there is %s", healthy, summary(list))
	}
	w.count(t, 0, `SELECT count(*) FROM node_events WHERE node_id = $1 AND actor_id = 'system:reconciliation' AND kind <> 'observed'`, w.p.nodeID(t, healthy))
	w.count(t, 0, `SELECT count(*) FROM (SELECT node_id FROM node_events WHERE event = 'quarantine' GROUP BY node_id HAVING count(*) > 1) twice`)
}

// host is the address that a node is reached by.
func (w *watched) host(t *testing.T, hostname string) string {
	t.Helper()
	var n struct {
		Host string `json:"host"`
	}
	w.p.do(t, http.MethodGet, "/api/v1/admin/nodes/"+w.p.nodeID(t, hostname), nil, http.StatusOK, &n)
	return n.Host
}

// appears waits until a drift is acted on, and looks at how it is explained.
func (w *watched) appears(t *testing.T, hostname, action, status, observed string, types ...string) {
	t.Helper()
	f := w.awaitFinding(t, hostname, "acted", types...)
	if f.Action == nil || string(*f.Action) != action || !strings.Contains(f.Observed, observed) || f.Looks < 2 {
		t.Errorf("%s of %s: action %v, observed %q, %d looks", f.Type, hostname, f.Action, f.Observed, f.Looks)
	}
	if !strings.Contains(f.Message, hostname) || f.Means == "" || f.Title == "" || len(f.Advice) == 0 {
		t.Errorf("%s of %s is not explained: %+v", f.Type, hostname, f)
	}
	d := w.drift(t, hostname)
	if d == nil || !d.Drifted || string(d.NodeStatus) != status || d.Schedulable || len(d.Advice) == 0 {
		t.Errorf("%s drifts as %+v, want a node that is %s", hostname, d, status)
	}
	if shown := succeed(t, w.cli, "drift", "show", hostname); !strings.Contains(shown, f.Message) {
		t.Errorf("gpuaas drift show %s does not say %q:\n%s", hostname, f.Message, shown)
	}
}

// breaks lets two more machines go than may be quarantined without being asked.
func (w *watched) breaks(t *testing.T, deleted, recreated string) {
	t.Helper()
	w.happens(t, "delete", deleted)
	w.happens(t, "recreate", recreated)
	testkit.Succeeds(t, "the breaker to hold both back", 2*time.Minute, func() error {
		o := w.overview(t)
		if o.Breaker == nil || o.State != "breaker_open" || len(o.Breaker.Nodes) != 2 {
			return fmt.Errorf("the site is %s, breaker %+v", o.State, o.Breaker)
		}
		return nil
	})
	for hostname, kind := range map[string]string{deleted: "absent", recreated: "recreated"} {
		testkit.Succeeds(t, kind+" to be held back", time.Minute, func() error { // it is believed first, and then weighed
			f := w.awaitFinding(t, hostname, "confirmed", kind)
			if f.Withheld == nil || !strings.Contains(*f.Withheld, "breaker") {
				return fmt.Errorf("there is %+v", f)
			}
			return nil
		})
		if err := w.p.nodeIs(hostname, "active"); err != nil {
			t.Error(err)
		}
	}
	if _, said, code := command(t, w.cli, "reconcile", "--site", "lab"); code != 8 ||
		!strings.Contains(said, "too many nodes") {
		t.Errorf("a run while the breaker is open: exit code %d\n%s", code, said)
	}
	succeed(t, w.cli, "reconcile", "confirm", "--site", "lab", "--reason", "they are gone indeed", "--yes")
	w.appears(t, deleted, "quarantine", "quarantined", "", "absent")
	w.appears(t, recreated, "quarantine", "quarantined", "", "recreated")
	testkit.Succeeds(t, "the breaker to close", time.Minute, func() error {
		if o := w.overview(t); o.Breaker != nil || o.State != "ok" {
			return fmt.Errorf("the site is %s, breaker %+v", o.State, o.Breaker)
		}
		return nil
	})
}

// mends returns a node to service, which is refused until its machine is mended.
func (w *watched) mends(t *testing.T, hostname string) {
	t.Helper()
	comeBack := []string{"drift", "resolve", hostname, "return-to-service", "--reason", "the disk was replaced"}
	if _, said, code := command(t, w.cli, comeBack...); code != 8 || !strings.Contains(said, "not proven healthy") {
		t.Errorf("a node whose machine has failed returns: exit code %d\n%s", code, said)
	}
	w.happens(t, "heal", hostname)
	w.awaitFinding(t, hostname, "closed", "hardware_failed")
	if err := w.p.nodeIs(hostname, "quarantined"); err != nil { // the profile leaves that to people
		t.Error(err)
	}
	succeed(t, w.cli, comeBack...)
	if err := w.p.nodeIs(hostname, "active"); err != nil {
		t.Error(err)
	}
}

// failsAgain lets a machine fail once more, and heals it before somebody decides
// about it: what the breaker held back is over, and it closes by itself.
func (w *watched) failsAgain(t *testing.T, hostname string) {
	t.Helper()
	w.happens(t, "fail", hostname, "hardware")
	f := w.awaitFinding(t, hostname, "confirmed", "hardware_failed")
	if f.Occurrence != 2 {
		t.Errorf("%s is said to have failed %d times", hostname, f.Occurrence)
	}
	testkit.Succeeds(t, "the breaker to hold it back", time.Minute, func() error {
		if o := w.overview(t); o.Breaker == nil || len(o.Breaker.Nodes) != 1 || o.Breaker.Nodes[0].Hostname != hostname {
			return fmt.Errorf("it holds back %+v", o.Breaker)
		}
		return nil
	})
	w.happens(t, "heal", hostname)
	w.over(t, w.p.nodeID(t, hostname), "hardware_failed")
	testkit.Succeeds(t, "the breaker to close", time.Minute, func() error {
		if o := w.overview(t); o.Breaker != nil {
			return fmt.Errorf("it holds back %+v", o.Breaker.Nodes)
		}
		return nil
	})
	if err := w.p.nodeIs(hostname, "active"); err != nil {
		t.Error(err)
	}
}

// over waits until a kind of finding about a node, by its id, is closed.
func (w *watched) over(t *testing.T, node, kind string) {
	t.Helper()
	testkit.Succeeds(t, kind+" to be over", time.Minute, func() error {
		list := all[apiclient.ReconciliationFindingView](t, w.p,
			reconciliationAPI+"/findings?status=present&type="+kind+"&node_id="+node)
		if len(list) > 0 {
			return fmt.Errorf("there is %s", summary(list))
		}
		return nil
	})
}

// remembers asks for a node as it was before it drifted, and for what changed it.
func (w *watched) remembers(t *testing.T, hostname string, before time.Time) {
	t.Helper()
	var then struct {
		Status   string `json:"status"`
		Observed struct {
			Status string `json:"status"`
		} `json:"observed"`
	}
	out := succeed(t, w.cli, "node", "show", hostname, "--at", before.UTC().Format(time.RFC3339Nano), "-o", "json")
	if err := json.Unmarshal([]byte(out), &then); err != nil || then.Status != "active" {
		t.Errorf("before it drifted %s was %+v, %v", hostname, then, err)
	}
	list := w.findings(t, hostname)
	i := slices.IndexFunc(list, func(f apiclient.ReconciliationFindingView) bool {
		return f.Type == "released" &&
			f.ActedAt != nil
	})
	if i < 0 {
		t.Fatalf("about %s there is %s", hostname, summary(list))
	}
	quarantined := list[i].ActedAt.Add(time.Second)
	out = succeed(t, w.cli, "node", "show", hostname, "--at", quarantined.UTC().Format(time.RFC3339Nano), "-o", "json")
	if err := json.Unmarshal([]byte(out), &then); err != nil || then.Status != "quarantined" ||
		then.Observed.Status != "Ready" {
		t.Errorf("when it was acted on %s was %+v, %v", hostname, then, err)
	}
	sources := map[string]bool{}
	for _, e := range all[apiclient.NodeHistoryView](t, w.p, "/api/v1/admin/nodes/"+w.p.nodeID(t, hostname)+"/history") {
		sources[string(e.Source)] = true
		if e.Event != nil && *e.Event == "quarantine" && (e.Source != "drift" || !strings.Contains(e.Cause, "released")) {
			t.Errorf("the quarantine came from %s: %s", e.Source, e.Cause)
		}
	}
	for _, source := range []string{"drift", "workflow"} {
		if !sources[source] {
			t.Errorf("nothing in the history of %s came from %s: %v", hostname, source, sources)
		}
	}
	if shown := succeed(t, w.cli, "node", "history", hostname); !strings.Contains(shown, "drift") ||
		!strings.Contains(shown, "released") {
		t.Errorf("gpuaas node history %s:\n%s", hostname, shown)
	}
}

// told looks whether everything was announced, and is counted.
func (w *watched) told(t *testing.T, hostnames ...string) {
	t.Helper()
	awaitDelivered(t, w.p)
	told := map[string][]string{}
	for _, e := range readEvents(t, w.p, "") {
		payload, err := json.Marshal(e.Payload)
		if err != nil {
			t.Fatal(err)
		}
		var about struct {
			Hostname, Finding, Message string
		}
		if strings.HasPrefix(e.EventType, "node.drift.") || strings.HasPrefix(e.EventType, "reconciliation.") {
			if err := json.Unmarshal(payload, &about); err != nil || about.Message == "" {
				t.Errorf("%s says %s, %v", e.EventType, payload, err)
			}
		}
		told[e.EventType] = append(told[e.EventType], about.Hostname)
	}
	for _, kind := range []string{"node.drift.detected", "node.drift.acted"} {
		for _, hostname := range hostnames {
			if !slices.Contains(told[kind], hostname) {
				t.Errorf("no %s about %s: %v", kind, hostname, told[kind])
			}
		}
	}
	for _, hostname := range hostnames[:3] { // those that healed
		if !slices.Contains(told["node.drift.resolved"], hostname) {
			t.Errorf("no node.drift.resolved about %s: %v", hostname, told["node.drift.resolved"])
		}
	}
	for _, kind := range []string{"reconciliation.breaker_opened", "reconciliation.breaker_closed"} {
		if len(told[kind]) != 2 {
			t.Errorf("%d of %s, want two", len(told[kind]), kind)
		}
	}
	metrics := string(w.p.do(t, http.MethodGet, "/metrics", nil, http.StatusOK, nil).body)
	for _, line := range []string{
		`gpuaas_reconciliation_findings{severity="critical",type="absent"} 1`,
		`gpuaas_reconciliation_findings{severity="critical",type="recreated"} 1`,
		`gpuaas_reconciliation_findings{severity="critical",type="released"} 1`,
		`gpuaas_reconciliation_findings{severity="critical",type="hardware_failed"} 0`,
		`gpuaas_reconciliation_breakers_open 0`,
		`gpuaas_reconciliation_drifted_nodes{site="lab"} 4`,
	} {
		if !metricShown(metrics, line) {
			t.Errorf("the metrics do not have %s", line)
		}
	}
}

// metricShown looks for a line of metrics, whatever other labels it has.
func metricShown(metrics, line string) bool {
	name, value, _ := strings.Cut(line, " ")
	name, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
	for got := range strings.Lines(metrics) {
		got = strings.TrimSpace(got)
		if !strings.HasPrefix(got, name) || !strings.HasSuffix(got, " "+value) {
			continue
		}
		if !slices.ContainsFunc(strings.Split(labels, ","), func(l string) bool { return !strings.Contains(got, l) }) {
			return true
		}
	}
	return false
}
