package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"gpuaas/cli/internal/failure"
)

const onboardFlagsText = " --site dc1 --sku h200-sxm-baremetal-8g"

func TestOnboardSends(t *testing.T) {
	selectors := `"site_id":"` + siteID + `","sku_id":"h200-sxm-baremetal-8g"`
	for args, want := range map[string]string{
		"onboard c07u43 --ipmi-ip 10.176.16.128":                                                      `{"hostname":"c07u43","ipmi_ip":"10.176.16.128",` + selectors + `}`,
		"onboard c07u43 --ipmi-ip 10.176.16.128 --profile default --initialize-disks --yes":           `{"hostname":"c07u43","initialize_disks":true,"ipmi_ip":"10.176.16.128","profile_id":"` + profileID + `",` + selectors + `}`,
		"onboard --csv testdata/onboard/machines.csv":                                                 `{"nodes":[{"hostname":"c07u43","ipmi_ip":"10.176.16.128"},{"hostname":"c07u44","ipmi_ip":"10.176.16.129"}],` + selectors + `}`,
		"onboard --csv testdata/onboard/machines.csv --dry-run":                                       `{"nodes":[{"hostname":"c07u43","ipmi_ip":"10.176.16.128"},{"hostname":"c07u44","ipmi_ip":"10.176.16.129"}],` + selectors + `}`,
		"onboard c07u43 --ipmi-ip 10.176.16.128 --rack c07 --pool training --label fabric=ib0,psu=2n": `{"hostname":"c07u43","ipmi_ip":"10.176.16.128","labels":{"fabric":"ib0","psu":"2n"},"pool":"training","rack":"c07",` + selectors + `}`,
		"onboard --csv testdata/onboard/grouped.csv":                                                  `{"nodes":[{"hostname":"c07u43","ipmi_ip":"10.176.16.128","labels":{"fabric":"ib0","psu":"2n"},"rack":"c07"},{"hostname":"c07u44","ipmi_ip":"10.176.16.129","pool":"training","rack":"c08"}],` + selectors + `}`,
		"onboard c07u43 --ipmi-ip 10.176.16.128 --dry-run":                                            `{"hostname":"c07u43","ipmi_ip":"10.176.16.128",` + selectors + `}`,
	} {
		f := newFakeAPI(t)
		got := signedIn(t, f).run(strings.Fields(args + onboardFlagsText)...)
		calls := f.received()
		last := calls[len(calls)-1]
		if got.exit != failure.OK && !strings.Contains(args, "dry-run") || last.body != want {
			t.Errorf("%s: sent %s, want %s (%+v)", args, last.body, want, got)
		}
		if strings.Contains(args, "dry-run") != (last.operation == "preflight-onboarding") {
			t.Errorf("%s calls %s", args, last.operation)
		}
		if strings.Contains(args, "initialize-disks") != strings.Contains(got.err, "will be DESTROYED") {
			t.Errorf("%s says %s", args, got.err)
		}
	}
}

// Nothing is formatted unless somebody says that it is meant.
func TestOnboardInitializeDisksAsksFirst(t *testing.T) {
	f := newFakeAPI(t)
	args := "onboard c07u43 --ipmi-ip 10.176.16.128 --initialize-disks" + onboardFlagsText
	got := signedIn(t, f).run(strings.Fields(args)...)
	if got.exit != failure.Unconfirmed || !strings.Contains(got.err, "ALL DATA") || !strings.Contains(got.err, "--yes") {
		t.Errorf("it says %+v", got)
	}
	for _, c := range f.received() {
		if c.operation == "create-onboarding" {
			t.Error("it was asked for all the same")
		}
	}
}

// What a profile does to data disks is asked about like the flag: who onboards by it may not
// know what somebody wrote into it.
func TestOnboardByAProfileThatFormatsDisksAsksFirst(t *testing.T) {
	for _, profile := range []string{"", " --profile default"} {
		f := newFakeAPI(t)
		f.answers["list-site-profiles"] = pageOf(
			strings.Replace(profileJSON, `"require_clean"`, `"initialize"`, 1))
		args := strings.Fields("onboard c07u43 --ipmi-ip 10.176.16.128" + profile + onboardFlagsText)
		got := signedIn(t, f).run(args...)
		if got.exit != failure.Unconfirmed || !strings.Contains(got.err, "ALL DATA") || !strings.Contains(got.err, "--yes") {
			t.Errorf("%q: it says %+v", profile, got)
		}
		for _, c := range f.received() {
			if c.operation == "create-onboarding" {
				t.Errorf("%q: it was asked for all the same", profile)
			}
		}
		if got := signedIn(t, f).run(append(args, "--yes")...); got.exit != failure.OK {
			t.Errorf("%q: with --yes it says %+v", profile, got)
		}
	}
}

// A preflight goes on until every machine was looked at, says how far it is, and
// forgets nothing that an earlier part found.
func TestOnboardDryRunLooksAtEveryPart(t *testing.T) {
	f := newFakeAPI(t)
	part := 0
	f.answers["preflight-onboarding"] = func(w http.ResponseWriter, r *http.Request) {
		part++
		answer(200, []string{
			`{"ok":false,"checks":[{"name":"machines_in_maas","ok":false,"detail":"c07u43 is Deployed","remedy":"leave it out","code":"machine_in_use"}],"machines":2,"looked_at":1,"next_machine":1}`,
			`{"ok":true,"checks":[{"name":"machines","ok":true,"detail":"2"},{"name":"machines_in_maas","ok":true,"detail":"machines 2 to 2 of 2: MAAS has all 1"}],"machines":2,"looked_at":2}`,
		}[part-1])(w, r)
	}
	args := "onboard --csv testdata/onboard/machines.csv --dry-run" + onboardFlagsText
	got := signedIn(t, f).run(strings.Fields(args)...)
	calls := f.received()
	if part != 2 || !strings.Contains(calls[len(calls)-1].body, `"from_machine":1`) || got.exit != failure.Unsuccessful ||
		!strings.Contains(got.err, "MAAS was asked about 1 of 2 machines") || strings.Contains(got.stdout, "machines: 2") ||
		!strings.Contains(got.stdout, "✗ machines_in_maas: c07u43 is Deployed") ||
		!strings.Contains(got.stdout, "✓ machines_in_maas: machines 2 to 2") {
		t.Errorf("%d parts: %+v", part, got)
	}
}

func TestOnboardMisused(t *testing.T) {
	for args, want := range map[string]string{
		"onboard" + onboardFlagsText:                                       "name the server",
		"onboard a" + onboardFlagsText:                                     "--ipmi-ip is required",
		"onboard a --ipmi-ip 10.0.0.1 --sku x":                             "--site is required",
		"onboard a --ipmi-ip 10.0.0.1 --site dc1":                          "--sku is required",
		"onboard a --csv x" + onboardFlagsText:                             "the servers are in the file",
		"onboard a b" + onboardFlagsText:                                   `unexpected "b"`,
		"onboard a --ipmi-ip 10.0.0.1 --dry-run --wait" + onboardFlagsText: "nothing that could be waited for",
		"onboard --csv testdata/onboard/none.csv" + onboardFlagsText:       "read CSV",
		"onboarding retry c07u43":                                          "--reason is required",
		"onboarding watch c07u43 --batch " + batchID:                       "not both",
		"onboarding batch show nonsense":                                   "is not the id of a batch",
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

// Every bad row is named by its line, and nothing is sent.
func TestBadRowsAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		csv  string
		want []string
	}{
		"empty":         {"", []string{"-: it is empty: the first line must name the columns"}},
		"only comments": {"# machines\n", []string{"it is empty"}},
		"no rows":       {"hostname,ipmi_ip\n", []string{"it has no rows"}},
		"missing":       {"hostname\nc1\n", []string{"line 1: the column ipmi_ip is missing"}},
		"twice": {
			"hostname,ipmi_ip,hostname\na,10.0.0.1,b\n",
			[]string{"line 1: the column hostname appears twice"},
		},
		"other columns": {
			"hostname,ipmi_ip,pxe_mac,roce_ip0,colour\n",
			[]string{
				`the column "pxe_mac" cannot be used: it is detected`,
				`"roce_ip0" cannot be used: RoCE addresses belong to the site`, `"colour" cannot be used`,
			},
		},
		"positional": {"c07u43,10.176.16.128\n", []string{`line 1: the column "c07u43" cannot be used`}},
		"bad rows": {
			"hostname,ipmi_ip\nok1,10.0.0.1\nbad " +
				"name,10.0.0.2\nok2,nonsense\nok3,127.0.0.1\nok4,224.0.0.1\nok5,169.254.1.1\nok1,10.0.0.9\nok6,::ffff:10.0.0.1\nok7\n",
			[]string{
				`line 3: "bad name" is not a host name`, `-: line 4: "nonsense" is not an IP address`,
				"line 5: 127.0.0.1 is not an address", "line 6: 224.0.0.1",
				"line 7: 169.254.1.1", "line 8: ok1 is already in line 2", "line 9: 10.0.0.1 is already in line 2",
				"line 10: has 1 columns, not 2",
			},
		},
		"too many": {"hostname,ipmi_ip\n" + manyRows(mostMachines+1), []string{"split it into files of at most 1000"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			b := signedIn(t, f)
			b.in = c.csv
			got := b.run(strings.Fields("onboard --csv -" + onboardFlagsText)...)
			for _, want := range c.want {
				if got.exit != failure.Usage || !strings.Contains(got.err, want) {
					t.Errorf("no %q in %+v", want, got)
				}
			}
			if len(f.received()) > 0 {
				t.Errorf("called %v", f.received())
			}
		})
	}
}

func manyRows(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("n" + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + ",10." + octet(i/60000) + "." +
			octet(i/250%250) + "." + octet(i%250+1) + "\n")
	}
	return b.String()
}

func octet(n int) string {
	const digits = "0123456789"
	if n < 10 {
		return digits[n : n+1]
	}
	return octet(n/10) + digits[n%10:n%10+1]
}

func TestBatchIsWatchedOnATerminal(t *testing.T) {
	f := newFakeAPI(t)
	f.on("stream-onboardings", feedOf(
		onboardingEvent("42", "05:07:07", "stage", "running", "wait_for_agent_enrollment", `the machine boots \u001b[31m`),
		onboardingEvent("43", "05:06:00", "stage", "running", "load_site_config", "of long ago"),
		onboardingEvent("44", "05:08:07", "completed", "completed", "wait_for_agent_enrollment", "the agent has polled")))
	b := signedIn(t, f)
	b.around.Terminal = func(io.Writer) bool { return true }
	b.environ = append(b.environ, "COLUMNS=120", "LINES=30")
	got := b.run("onboarding", "watch", "--batch", batchID)
	screens := screens(got.stdout)
	last := screens[len(screens)-1]
	if got.exit != failure.OK || !strings.Contains(screens[0], "█████░░░░░░░░░░░  5/16  running") ||
		!strings.Contains(last, strings.Repeat("█", 16)+" 16/16  completed") ||
		!strings.Contains(last, "1 machine, 1 completed") || !strings.Contains(last, "8m") {
		t.Errorf("%+v", got)
	}
	if strings.Contains(got.stdout, "of long ago") ||
		strings.Contains(strings.Join(screens, ""), "\x1b") {
		t.Errorf("shown: %q", got.stdout)
	}
	for _, c := range f.received() {
		if (c.operation == "stream-onboardings" || c.operation == "list-onboardings") &&
			!strings.Contains(c.query, "batch_id="+batchID) {
			t.Errorf("%s asks %s", c.operation, c.query)
		}
	}
}

// What needs somebody is shown first, then what moves; nothing wraps or scrolls.
func TestManyRowsFitATerminal(t *testing.T) {
	var rows []string
	for i := range 60 {
		row := onboardingRunning
		if i >= 50 {
			row = strings.ReplaceAll(onboardingParked, `"error_message":"commissioning failed"`, `"error_message":"`+
				strings.Repeat("commissioning failed ", 12)+`"`)
		}
		id := "0190b2f4-7c1e-7d3a-8f5b-0000000001" + octet(i/10) + octet(i%10)
		rows = append(rows, strings.NewReplacer(onboardingID, id, "c07u43", "node"+octet(i)).Replace(row))
	}
	for name, c := range map[string]struct {
		environ       []string
		columns, rows int
		hidden        string
	}{
		"of the usual size": {nil, 80, 20, "… and 40 more: 40 running\n"},
		"wide":              {[]string{"COLUMNS=150", "LINES=40"}, 150, 36, "… and 24 more: 24 running\n"},
		"tiny":              {[]string{"COLUMNS=30", "LINES=5"}, 30, 1, "… and 59 more: 50 running, 9…\n"},
		"all fit":           {[]string{"COLUMNS=100", "LINES=63"}, 100, 60, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.on("list-onboardings", pageOf(rows...))
			f.on("stream-onboardings", feedOf(), refuse(401, "token_revoked", "revoked", ""))
			b := signedIn(t, f)
			b.environ = append(b.environ, c.environ...)
			b.around.Terminal = func(io.Writer) bool { return true }
			got := b.run("onboarding", "watch", "--batch", batchID)
			screen := screens(got.stdout)[0]
			lines := strings.Split(strings.TrimSuffix(screen, c.hidden), "\n")
			first := "node50"
			if c.hidden == "" {
				first = "node0 " // all are there: by name
			}
			if !strings.HasPrefix(screen, "60 machines, 50 running") || !strings.HasPrefix(lines[2], first) ||
				!strings.HasSuffix(screen, c.hidden) || len(lines) != c.rows+3 {
				t.Errorf("shown:\n%s", screen)
			}
			for _, line := range strings.Split(screen, "\n") {
				if utf8.RuneCountInString(line) > c.columns {
					t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
				}
			}
			if strings.Contains(screen, "█") != (c.columns >= barFrom) || got.exit != failure.Unauthenticated {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Programs learn in the end how the onboardings stand, in the shape that show and list have.
func TestWaitPrintsTheEnd(t *testing.T) {
	for _, c := range []struct{ args, begins string }{
		{"onboard c07u43 --ipmi-ip 10.176.16.128 --wait -o json" + onboardFlagsText, "{\n"},
		{"onboard --csv testdata/onboard/machines.csv --wait -o json" + onboardFlagsText, "[\n"},
		{"onboarding watch -o json", ""},
		{"onboarding watch -o json --timeout 50ms", ""},
	} {
		f := newFakeAPI(t)
		if strings.Contains(c.args, "timeout") {
			f.on("stream-onboardings", held)
		}
		got := signedIn(t, f).run(strings.Fields(c.args)...)
		var last any
		d := json.NewDecoder(strings.NewReader(got.stdout))
		for d.More() {
			if err := d.Decode(&last); err != nil {
				t.Fatalf("%s: %v in %s", c.args, err, got.stdout)
			}
		}
		if all, many := last.([]any); many && len(all) == 1 {
			last = all[0]
		}
		one, _ := last.(map[string]any)
		if one["onboarding_id"] != onboardingID || one["node_id"] != nodeID || !strings.HasPrefix(got.stdout, c.begins) {
			t.Errorf("%s: %+v", c.args, got)
		}
	}
}

// A feed that breaks is taken up again where it broke, and the rows are read anew: what
// happened meanwhile is not lost.
func TestWatchSurvivesABrokenFeed(t *testing.T) {
	f := newFakeAPI(t)
	f.on("stream-onboardings", feedOf(onboardingEvent("42", "05:07:07", "stage", "running", "wait_for_ready",
		"still commissioning")),
		refuse(503, "server_shutting_down", "bye", ""), feedOf())
	f.on("list-onboardings", pageOf(onboardingRunning), pageOf(onboardingParked))
	got := signedIn(t, f).run("onboarding", "watch", "--batch", batchID)
	if got.exit != failure.Unsuccessful || !strings.Contains(got.stdout, "still commissioning") ||
		!strings.Contains(got.err, "gpuaas onboarding explain c07u43") ||
		!strings.Contains(got.err, "1 of 1 need an operator: c07u43 (failed_commission)") {
		t.Errorf("%+v", got)
	}
	var after []string
	for _, c := range f.received() {
		if c.operation == "stream-onboardings" {
			after = append(after, c.header.Get("Last-Event-ID"))
		}
	}
	if strings.Join(after, " ") != " 42 42" {
		t.Errorf("resumed after %q", after)
	}
}

func TestWatchWithoutAFeedLooksAgain(t *testing.T) {
	f := newFakeAPI(t)
	f.on("stream-onboardings", refuse(503, "nats_unavailable", "NATS does not answer", ""))
	f.on("list-onboardings", pageOf(onboardingRunning), pageOf(onboardingRunning), pageOf(onboardingParked))
	got := signedIn(t, f).run("onboarding", "watch", "--batch", batchID)
	if got.exit != failure.Unsuccessful || !strings.Contains(got.err, "there is no live feed") ||
		strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("%+v", got)
	}
}

func TestNothingToWatch(t *testing.T) {
	f := newFakeAPI(t)
	f.on("list-onboardings", pageOf())
	if got := signedIn(t, f).run("onboarding", "watch"); got.exit != failure.OK ||
		!strings.Contains(got.err, "nothing is being onboarded") {
		t.Errorf("%+v", got)
	}
}

func TestCancelledIsNoSuccess(t *testing.T) {
	f := newFakeAPI(t)
	f.on("stream-onboardings", feedOf(onboardingEvent("42", "05:07:07", "cancelled", "cancelled", "wait_for_ready",
		"undone")))
	if got := signedIn(t, f).run("onboarding", "watch", "--batch", batchID); got.exit != failure.Unsuccessful ||
		!strings.Contains(got.err, "were cancelled: c07u43") {
		t.Errorf("%+v", got)
	}
}

// held is a feed that says nothing more until its reader leaves.
func held(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, feedBegins)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestWatchIsInterruptedOrTakesTooLong(t *testing.T) {
	f := newFakeAPI(t)
	f.on("stream-onboardings", held)
	b := signedIn(t, f)
	if got := b.run("onboarding", "watch", "--batch", batchID, "--timeout", "50ms"); got.exit != failure.Unavailable ||
		!strings.Contains(got.err, "within 50ms") ||
		!strings.Contains(got.err, "gpuaas onboarding watch --batch "+batchID) {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.on("stream-onboardings", func(w http.ResponseWriter, r *http.Request) {
		cancel()
		held(w, r)
	})
	if got := b.runContext(ctx, "onboarding", "watch", "--batch", batchID); got.exit != failure.Interrupted ||
		!strings.Contains(got.err, "it goes on") {
		t.Errorf("%+v", got)
	}
}

func TestOnboardingByName(t *testing.T) {
	f := newFakeAPI(t)
	b := signedIn(t, f)
	if got := b.run("onboarding", "explain", "C07U43"); got.exit != failure.OK ||
		!strings.Contains(got.stdout, "DESTROYS DATA: starts from nothing") ||
		strings.Contains(got.stdout, "mark-manual-intervention") {
		t.Errorf("%+v", got)
	}
	if got := b.run("onboarding", "explain", "c07u4"); got.exit != failure.NotFound ||
		!strings.Contains(got.err, "was ever onboarded") {
		t.Errorf("%+v", got)
	}
	f.on("retry-onboarding", refuse(409, "action_not_allowed",
		"the onboarding of c07u43 is running: retry_stage is not possible now",
		"possible now: cancel, restart_clean, adopt_observed_state, mark_manual_intervention_required"))
	if got := b.run("onboarding", "retry", "c07u43", "--reason", "x"); got.exit != failure.Conflict ||
		!strings.Contains(got.err, "running: retry is not") ||
		!strings.Contains(got.err, "possible now: cancel, restart-clean, adopt, mark-manual-intervention\n") {
		t.Errorf("%+v", got)
	}
}

// Actions are named as they can be typed.
func TestActionsAreNamedAsCommands(t *testing.T) {
	f := newFakeAPI(t)
	parked := strings.Replace(onboardingParked, `"recommended_action":"rerun"`,
		`"recommended_action":"adopt_observed_state","pending_action":"retry_stage"`, 1)
	f.on("list-onboardings", pageOf(parked))
	f.on("get-onboarding", answer(200, strings.TrimSuffix(parked, "}")+`,"facts":{},"events":[],"explanation":`+
		onboardingExplanation+`}`))
	b := signedIn(t, f)
	for _, args := range []string{"onboarding list", "onboarding show c07u43"} {
		if got := b.run(strings.Fields(args)...); got.exit != failure.OK || !strings.Contains(got.stdout, " adopt ") &&
			!strings.Contains(got.stdout, " adopt\n") ||
			strings.Contains(got.stdout, "adopt_") || strings.Contains(got.stdout, "retry_stage") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	for _, r := range append(recoveries(), decommissionRecoveries()...) {
		if actionWord(string(r.action)) != r.word {
			t.Errorf("%s is called %s", r.action, r.word)
		}
	}
}

// A machine that needs nothing is not said to be best cancelled.
func TestExplainOfWhatGoesOn(t *testing.T) {
	f := newFakeAPI(t)
	running := strings.NewReplacer(`"status":"failed_manual_intervention"`, `"status":"running"`,
		`,"remedy":"see the results in MAAS"`, "").Replace(onboardingExplanation)
	waits := strings.Replace(onboardingExplanation, `"status":"failed_manual_intervention"`, `"status":"pending"`, 1)
	f.on("get-onboarding-explanation", answer(200, running), answer(200, waits), answer(200, onboardingExplanation))
	b := signedIn(t, f)
	for _, want := range []string{
		"nothing to do: it continues automatically\n\nwhat you can do to intervene:\n  1. ",
		"what else you can do:\n  1. ", "what you can do, best option first:\n  1. ",
	} {
		if got := b.run("onboarding", "explain", onboardingID); got.exit != failure.OK ||
			!strings.Contains(got.stdout, want) {
			t.Errorf("no %q in %s", want, got.stdout)
		}
	}
}
