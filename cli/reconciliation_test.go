package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/cli/internal/failure"
)

func TestReconciliationSends(t *testing.T) {
	for args, want := range map[string][2]string{
		"drift resolve c07u31 acknowledge --reason r": {
			"resolve-node-drift",
			`{"reason":"r","resolution":"acknowledge"}`,
		},
		"drift resolve c07u31 adopt --reason r": {
			"resolve-node-drift",
			`{"reason":"r","resolution":"adopt_observed"}`,
		},
		"drift resolve c07u31 quarantine --reason r": {
			"resolve-node-drift",
			`{"reason":"r","resolution":"quarantine"}`,
		},
		"drift resolve c07u31 return-to-service --reason r": {
			"resolve-node-drift",
			`{"reason":"r","resolution":"return_to_service"}`,
		},
		"drift resolve c07u31 reimage --reason r --yes": {
			"resolve-node-drift",
			`{"reason":"r","resolution":"reimage"}`,
		},
		"drift acknowledge " + findingID + " --reason r": {"acknowledge-finding", `{"reason":"r"}`},
		"reconcile --site dc1":                           {"run-reconciliation", `{"site_id":"` + siteID + `"}`},
		"reconcile --site dc1 --dry-run --full --reason r": {
			"run-reconciliation",
			`{"dry_run":true,"full":true,"reason":"r","site_id":"` + siteID + `"}`,
		},
		"reconcile confirm --site dc1 --reason r": {
			"decide-reconciliation-breaker",
			`{"decision":"confirm","node_ids":["` + nodeID + `","` + otherNodeID + `"],"reason":"r"}`,
		},
		"reconcile dismiss --site " + siteID + " --reason outage": {
			"decide-reconciliation-breaker",
			`{"decision":"dismiss","node_ids":["` + nodeID + `","` + otherNodeID + `"],"reason":"outage"}`,
		},
	} {
		f := newFakeAPI(t)
		got := signedIn(t, f).run(strings.Fields(args)...)
		sent := ""
		for _, c := range f.received() {
			if c.operation == want[0] {
				sent = c.body
			}
		}
		if got.exit != failure.OK || sent != want[1] {
			t.Errorf("%s: sent %s, want %s (%+v)", args, sent, want[1], got)
		}
	}
}

func TestReconciliationMisused(t *testing.T) {
	for args, want := range map[string]string{
		"reconcile":                                    "--site is required",
		"reconcile nonsense":                           "nonsense",
		"reconcile confirm --site dc1":                 "--reason is required",
		"reconcile dismiss --reason r":                 "--site is required",
		"reconcile show nonsense":                      "is not the id of a run",
		"drift nonsense":                               "nonsense",
		"drift --limit -1":                             "--limit cannot be negative",
		"drift findings --since someday":               "--since",
		"drift show":                                   "missing NODE",
		"drift resolve c07u31":                         "missing RESOLUTION",
		"drift resolve c07u31 reimage":                 "--reason is required",
		"drift resolve c07u31 adopt_observed --reason": "--reason needs a value",
		"drift resolve c07u31 forget --reason r": "use one of: acknowledge, adopt, quarantine, return-to-service, " +
			"reimage",
		"drift acknowledge " + findingID:      "--reason is required",
		"drift acknowledge c07u31 --reason r": "is not the id of a finding",
	} {
		f := newFakeAPI(t)
		got := signedIn(t, f).run(strings.Fields(args)...)
		if got.exit != failure.Usage || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", args, got)
		}
		for _, c := range f.received() {
			if !strings.HasPrefix(c.operation, "list-") {
				t.Errorf("%s called %s", args, c.operation)
			}
		}
	}
}

// The exit code says whether MAAS was heard, and whether what was asked for was done.
func TestRunsThatDoNotSucceed(t *testing.T) {
	ended := func(outcome, trouble string) http.HandlerFunc {
		return answer(200, strings.Replace(runWaits, `"requested_at"`, `"ended_at":"2026-03-04T05:06:30Z","outcome":"`+
			outcome+`",`+trouble+`"requested_at"`, 1))
	}
	trouble := `"error":{"code":"not_proven_healthy","message":"its agent was not heard of","remedy":"put that right"},`
	for _, c := range []struct {
		args    string
		answer  http.HandlerFunc
		exit    int
		mention string
	}{
		{"reconcile --site dc1", ended("informed", ""), failure.OK, ""},
		{"reconcile --site dc1", ended("partly", ""), failure.Unsuccessful, "MAAS answered only some"},
		{"reconcile --site dc1", ended("no_information", ""), failure.Unsuccessful, "nothing was changed"},
		{"reconcile --site dc1", ended("breaker_open", ""), failure.Unsuccessful, "gpuaas reconcile status --site dc1"},
		{"reconcile --site dc1", ended("skipped", ""), failure.Unsuccessful, "not looked at"},
		{"reconcile --site dc1", ended("of_a_newer_release", ""), failure.Unsuccessful, "of_a_newer_release"},
		{"drift resolve c07u31 return-to-service --reason r", ended("informed", ""), failure.OK, "c07u31 is back in service"},
		{
			"drift resolve c07u31 reimage --reason r --yes", ended("informed", ""), failure.OK,
			"gpuaas decommission watch c07u31",
		},
		{
			"drift resolve c07u31 return-to-service --reason r", ended("refused", trouble), failure.Unsuccessful,
			"its agent was not heard of",
		},
	} {
		f := newFakeAPI(t)
		f.on("get-reconciliation-run", answer(200, runWaits), c.answer)
		got := signedIn(t, f).run(strings.Fields(c.args)...)
		if got.exit != c.exit || !strings.Contains(got.err, c.mention) || c.exit != failure.OK &&
			strings.Contains(got.err, "back in service") {
			t.Errorf("%s: %+v, want %d %q", c.args, got, c.exit, c.mention)
		}
	}
}

func TestRunsAreNotWaitedForWithoutEnd(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-reconciliation-run", answer(200, runWaits))
	b := signedIn(t, f)
	at := now()
	b.around.Now = func() time.Time { at = at.Add(time.Minute); return at }
	if got := b.run("reconcile", "--site", "dc1", "--timeout", "3m"); got.exit != failure.Unavailable ||
		!strings.Contains(got.err, "gpuaas reconcile show "+runID) {
		t.Errorf("%+v", got)
	}
	if got := b.run("reconcile", "--site", "dc1", "--no-wait"); got.exit != failure.OK ||
		!strings.Contains(got.stdout, "under way") || !strings.Contains(got.err, "gpuaas reconcile show "+runID) {
		t.Errorf("%+v", got)
	}
	f.on("run-reconciliation", refuse(409, "site_disabled", "the site dc1 is disabled",
		"enable it: gpuaas site enable dc1"))
	if got := b.run("reconcile", "--site", "dc1"); got.exit != failure.Conflict ||
		!strings.Contains(got.err, "gpuaas site enable dc1") {
		t.Errorf("%+v", got)
	}
}

// What destroys something, and what many nodes hang on, is asked about on a terminal.
func TestReconciliationAsks(t *testing.T) {
	for args, want := range map[string]string{
		"drift resolve c07u31 reimage --reason r":    "DESTROYS the installation of c07u31",
		"reconcile confirm --site dc1 --reason r":    "This quarantines 2 nodes of dc1: c07u31, c07u32",
		"reconcile dismiss --site dc1 --reason r":    "This leaves in service 2 nodes of dc1",
		"drift resolve c07u31 quarantine --reason r": "",
	} {
		for _, said := range []string{"yes\n", "no\n"} {
			f := newFakeAPI(t)
			b := signedIn(t, f)
			b.in = said
			b.around.Terminal = func(io.Writer) bool { return true }
			got := b.run(strings.Fields(args)...)
			changed := false
			for _, c := range f.received() {
				changed = changed || c.operation == "resolve-node-drift" || c.operation == "decide-reconciliation-breaker"
			}
			if changed != (said == "yes\n" || want == "") || !strings.Contains(got.err, want) {
				t.Errorf("%s, %q: changed %v (%+v)", args, said, changed, got)
			}
		}
	}
}

// A breaker that opens after the look is not decided unseen.
func TestADecisionWithoutAnOpenBreakerNamesNoNode(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-reconciliation-status", answer(200,
		`{"totals":{"nodes":40,"ok":40,"drifted":0,"unreconciled":0,"stale_sites":0},"sites":[{`+siteStatePart+
			`,"state":"ok"}]}`))
	f.on("decide-reconciliation-breaker", refuse(409, "breaker_changed",
		"the circuit breaker of dc1 holds back other nodes", "look at its nodes: gpuaas reconcile status --site dc1"))
	got := signedIn(t, f).run("reconcile", "confirm", "--site", "dc1", "--reason", "r")
	calls := f.received()
	if sent := calls[len(calls)-1].body; sent != `{"decision":"confirm","node_ids":[],"reason":"r"}` ||
		got.exit != failure.Conflict || !strings.Contains(got.err, "gpuaas reconcile status --site dc1") {
		t.Errorf("sent %s (%+v)", sent, got)
	}
}

// What somebody does already is no advice.
func TestDriftShowDoesNotAdviseItself(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-node-drift", answer(200, `{"node_id":"`+nodeID+`","hostname":"c07u31","site_id":"`+siteID+
		`","site_name":"dc1","node_status":"active","schedulable":true,"maas_system_id":"4y3h7n",`+
		`"drifted":true,"findings":[],"history":[],"advice":[{"command":"gpuaas drift show c07u31","what":"what MAAS showed"},{"command":"gpuaas drift show c07u32","what":"the other node"},`+
		`{"what":"Look at the machine on site"}]}`))
	b := signedIn(t, f)
	want := "best option first:\n  1. gpuaas drift show c07u32\n     the other node\n  2. Look at the machine on site\n"
	if got := b.run("drift", "show", "c07u31"); got.exit != failure.OK || !strings.Contains(got.stdout, want) {
		t.Errorf("%+v", got)
	}
	if got := b.run("drift", "show", "c07u31", "-o", "json"); !strings.Contains(got.stdout, "gpuaas drift show c07u31") {
		t.Errorf("%+v", got)
	}
	f.on("get-node-drift", answer(200, `{"node_id":"`+nodeID+`","hostname":"c07u31","site_id":"`+siteID+
		`","site_name":"dc1","node_status":"active","schedulable":true,"maas_system_id":"4y3h7n",`+
		`"drifted":true,"findings":[],"history":[],"advice":[{"command":"gpuaas drift show c07u31","what":"what MAAS showed"}]}`))
	if got := b.run("drift", "show", "c07u31"); strings.Contains(got.stdout, "what you can do") {
		t.Errorf("%+v", got)
	}
}

func TestABreakerThatIsOpenSaysWhatToDo(t *testing.T) {
	open := func(nodes int, confirmed string) string {
		var list []string
		for n := range nodes {
			list = append(list, fmt.Sprintf(`{"node_id":"%s","hostname":"c07u%02d"}`, nodeID, n))
		}
		return `{"totals":{"nodes":40,"ok":35,"drifted":4,"unreconciled":1,"stale_sites":0},"sites":[{` + siteStatePart +
			`,"state":"breaker_open","remedy":"gpuaas reconcile status --site dc1",` +
			`"breaker":{"since":"2026-03-04T05:06:07Z","nodes":[` + strings.Join(list, ",") + `]` + confirmed + `}}]}`
	}
	decide := "gpuaas reconcile confirm --site dc1; if not: gpuaas reconcile dismiss --site dc1\n"
	for name, c := range map[string]struct {
		answer      string
		want, never []string
	}{
		"few":  {open(20, ""), []string{"\nc07u00 ", "\nc07u19 ", decide}, []string{" more"}},
		"many": {open(23, ""), []string{"\nc07u00 ", "\nc07u19 ", "\nand 3 more", decide}, []string{"c07u20"}},
		"confirmed": {
			open(2, `,"confirmed_at":"2026-03-04T05:07:07Z"`),
			[]string{"c07u01", "gpuaas reconcile runs --site dc1\n"},
			[]string{"dismiss"},
		},
	} {
		f := newFakeAPI(t)
		f.on("get-reconciliation-status", answer(200, c.answer))
		b := signedIn(t, f)
		got := b.run("reconcile", "status", "--site", "dc1")
		for _, w := range c.want {
			if !strings.Contains(got.stdout, w) {
				t.Errorf("%s: no %q in %s", name, w, got.stdout)
			}
		}
		for _, w := range append(c.never, "reconcile status --site dc1\n") {
			if strings.Contains(got.stdout, w) {
				t.Errorf("%s: %q in %s", name, w, got.stdout)
			}
		}
		if got := b.run("reconcile", "status", "--site", "dc1", "-o", "json"); got.exit != failure.OK ||
			!json.Valid([]byte(got.stdout)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDriftWithoutFindings(t *testing.T) {
	f := newFakeAPI(t)
	f.on("list-drift", pageOf())
	f.on("get-node-drift", answer(200, `{"node_id":"`+nodeID+`","hostname":"c07u31","site_id":"`+siteID+
		`","site_name":"dc1","node_status":"active","schedulable":true,"maas_system_id":"4y3h7n",`+
		`"drifted":false,"findings":[],"advice":[],"history":[]}`))
	f.on("get-reconciliation-status", answer(200,
		`{"totals":{"nodes":0,"ok":0,"drifted":0,"unreconciled":0,"stale_sites":0},"sites":[]}`))
	b := signedIn(t, f)
	if got := b.run("drift"); got.exit != failure.OK || got.stdout != "" ||
		!strings.Contains(got.err, "no node has drifted") {
		t.Errorf("%+v", got)
	}
	if got := b.run("drift", "-o", "json"); got.exit != failure.OK || got.stdout != "[]\n" {
		t.Errorf("%+v", got)
	}
	if got := b.run("drift", "show", "c07u31"); got.exit != failure.OK ||
		!strings.HasPrefix(got.stdout, "c07u31 at dc1 is as expected.\n") ||
		!strings.Contains(got.stdout, "looked at      never") {
		t.Errorf("%+v", got)
	}
	if got := b.run("reconcile", "status"); got.exit != failure.OK || !strings.Contains(got.err, "there are no sites") {
		t.Errorf("%+v", got)
	}
	if got := b.run("reconcile", "status", "--site", "dc9"); got.exit != failure.NotFound {
		t.Errorf("%+v", got)
	}
}
