package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
)

func TestDecommissionSends(t *testing.T) {
	selector := `"mode":"drain","reason":"r","selector":{"hostname_prefix":"c07","node_ids":["` + nodeID +
		`"],"region_code":"eu-1","site_id":"` + siteID + `","sku_id":"h200-sxm-slice","statuses":["active","offline"]}`
	for args, want := range map[string][2]string{
		"decommission start c07u31 --mode reimage --erase secure --storage-cleanup all --reason r --plan-hash " +
			planHash: {"decommission-node", `{"erase":"secure","mode":"reimage","plan_hash":"` + planHash +
			`","reason":"r","storage_cleanup":"all"}`},
		"decommission start c07u31 --mode full_decommission --reason r": {
			"decommission-node",
			`{"mode":"full_decommission","reason":"r"}`,
		},
		"decommission plan c07u31 --mode drain": {
			"plan-node-decommission",
			`{"mode":"drain"}`,
		},
		"node reset c07u31 --reason r --storage-cleanup none": {
			"decommission-node",
			`{"mode":"soft_reset","reason":"r","storage_cleanup":"none"}`,
		},
		"node reimage c07u31 --reason r --erase none": {
			"decommission-node",
			`{"erase":"none","mode":"reimage","reason":"r"}`,
		},
		"node storage-cleanup c07u31 --scope weka --reason r": {
			"clean-node-storage",
			`{"reason":"r","scope":"weka"}`,
		},
		"node drain c07u31 --reason r":  {"drain-node", `{"reason":"r"}`},
		"node retire c07u31 --reason r": {"retire-node", `{"reason":"r"}`},
		"node reactivate c07u31 --reason r": {
			"reactivate-node",
			`{"reason":"r"}`,
		},
		"node remove c07u31 --reason r": {"remove-node", `{"reason":"r"}`},
		"decommission override c07u31 --stage drain_node --residual-risk data --reason r": {
			"override-decommission",
			`{"reason":"r","residual_risk":"data","stage":"drain_node"}`,
		},
		"decommission batch start --mode drain --node c07u31 --site dc1 --region eu-1 --sku h200-sxm-slice " +
			"--hostname-prefix c07 --status active,offline --reason r": {
			"create-decommission-batch", `{` + selector + `}`,
		},
		"decommission batch start --mode drain --status active --max-parallel 3 --max-failures 2 --skip-ineligible --reason r": {
			"create-decommission-batch",
			`{"max_failures":2,"max_parallel":3,"mode":"drain","reason":"r","selector":{"statuses":["active"]},"skip_ineligible":true}`,
		},
	} {
		f := newFakeAPI(t)
		words := strings.Fields(args)
		if _, asks := warnings[strings.ReplaceAll(words[1], "-", "_")]; asks || words[1] == "reset" || words[1] == "start" {
			words = append(words, "--yes")
		}
		got := signedIn(t, f).run(words...)
		calls := f.received()
		last := calls[len(calls)-1]
		if got.exit != failure.OK || last.operation != want[0] || last.body != want[1] {
			t.Errorf("%s: sent %s %s, want %s (%+v)", args, last.operation, last.body, want, got)
		}
	}
}

func TestDecommissionMisused(t *testing.T) {
	for args, want := range map[string]string{
		"decommission start c07u31 --mode reimage":                   "--reason is required",
		"decommission start c07u31 --reason r":                       "--mode is required",
		"decommission start c07u31 --mode drain --reason r":          "--mode must be one of soft_reset, reimage, full_decommission",
		"decommission plan c07u31":                                   "--mode is required",
		"decommission override c07u31 --stage drain_node --reason r": "--residual-risk is required",
		"decommission batch start --mode drain --reason r":           "say which nodes are meant",
		"decommission batch start --status active --reason r":        "--mode is required",
		"decommission batch show nonsense":                           "is not the id of a batch",
		"decommission stages nonsense":                               "there is no mode",
		"decommission watch c07u31 --batch " + decommissionBatchID:   "not both",
		"decommission retry c07u31":                                  "--reason is required",
		"node drain c07u31":                                          "--reason is required",
		"node reset c07u31":                                          "--reason is required",
		"node reset c07u31 --reason r --erase quick":                 "unknown flag: --erase",
		"node storage-cleanup c07u31 --reason r":                     "--scope is required",
		"node drain":                                                 "missing NODE",
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

// What cannot be undone is asked about on a terminal; elsewhere it is done only with --yes.
func TestDestructionIsConfirmed(t *testing.T) {
	for args, operation := range map[string]string{
		"node reset c07u31 --reason r":                                                  "decommission-node",
		"node retire c07u31 --reason r":                                                 "retire-node",
		"node storage-cleanup c07u31 --scope local --reason r":                          "clean-node-storage",
		"onboarding restart-clean c07u43 --reason r":                                    "restart-onboarding-clean",
		"drift resolve c07u31 reimage --reason r":                                       "resolve-node-drift",
		"node reimage c07u31 --reason r":                                                "decommission-node",
		"node remove c07u31 --reason r":                                                 "remove-node",
		"decommission start c07u31 --mode reimage --reason r":                           "decommission-node",
		"decommission start c07u31 --mode full_decommission --reason r":                 "decommission-node",
		"decommission batch start --mode soft_reset --status active --reason r":         "create-decommission-batch",
		"node task run c07u31 node.drain --reason r":                                    "create-node-task",
		"node agent start c07u31 --mode reimage --scenario repair_reinstall --reason r": "begin-agent-run",
	} {
		for _, c := range []struct {
			name, in, more string
			terminal, done bool
		}{
			{"agreed", "yes\n", "", true, true},
			{"declined", "no\n", "", true, false},
			{"silent", "", "", true, false},
			{"in advance", "", " --yes", true, true},
			{"in a script", "", "", false, false},
			{"in a script that says so", "", " --yes", false, true},
		} {
			f := newFakeAPI(t)
			b := signedIn(t, f)
			b.in = c.in
			b.around.Terminal = func(io.Writer) bool { return c.terminal }
			got := b.run(strings.Fields(args + c.more)...)
			called := false
			for _, r := range f.received() {
				called = called || r.operation == operation
			}
			asked := strings.Contains(got.err, "Type yes to continue")
			refusal := map[bool]int{true: failure.Interrupted, false: failure.Unconfirmed}[c.terminal]
			if called != c.done || asked != (c.terminal && c.more == "") || !c.done &&
				(got.exit != refusal || !strings.Contains(got.err, "nothing was done")) ||
				!c.done && !c.terminal && !strings.Contains(got.err, "--yes") {
				t.Errorf("%s, %s: called %v, asked %v (%+v)", args, c.name, called, asked, got)
			}
		}
	}
	f := newFakeAPI(t)
	b := signedIn(t, f)
	b.around.Terminal = func(io.Writer) bool { return true }
	if got := b.run("node", "drain", "c07u31", "--reason", "r"); got.exit != failure.OK ||
		strings.Contains(got.err, "Type yes") {
		t.Errorf("drain: %+v", got)
	}
}

// What was asked about is what is begun: nodes that begin to fit later are not meant.
func TestABatchIsAboutTheNodesThatWereShown(t *testing.T) {
	named := func(id, hostname, status string) string {
		return strings.NewReplacer(nodeID, id, `"hostname":"c07u31"`, `"hostname":"`+hostname+`"`, `"status":"active"`,
			`"status":"`+status+`"`).Replace(nodeJSON)
	}
	for name, c := range map[string]struct {
		args, yes, asks, query, expected string
		nodes                            []string
	}{
		"seen": {
			"--hostname-prefix c07 --status active,offline --site dc1 --region eu-1 --sku h200 --skip-ineligible", "",
			"This begins a soft_reset of 2 nodes: c07u31, c07u32\nThose of them that cannot",
			"hostname=c07&page_size=200&region_code=eu-1&site_id=" + siteID + "&sku=h200&statuses=active&statuses=offline",
			`"expected_node_ids":["` + nodeID + `","` + otherNodeID + `"],`,
			[]string{named(nodeID, "c07u31", "active"), named(otherNodeID, "c07u32", "offline")},
		},
		"nobody asks": {"--hostname-prefix c07", " --yes", "", "", "", nil},
		"by name":     {"--node " + nodeID, "", "This begins a soft_reset of 1 node: " + nodeID + "\n", "", "", nil},
		"none":        {"--hostname-prefix zz", "", "", "hostname=zz&page_size=200", `"expected_node_ids":[],`, []string{}},
	} {
		f := newFakeAPI(t)
		f.on("list-nodes", pageOf(c.nodes...))
		b := signedIn(t, f)
		b.in = "yes\n"
		b.around.Terminal = func(io.Writer) bool { return true }
		got := b.run(strings.Fields("decommission batch start --mode soft_reset --reason r " + c.args + c.yes)...)
		looked, sent := "", ""
		for _, r := range f.received() {
			switch r.operation {
			case "list-nodes":
				looked = r.query
			case "create-decommission-batch":
				sent = r.body
			}
		}
		if got.exit != failure.OK || !strings.Contains(got.err, c.asks) ||
			(c.asks != "") != strings.Contains(got.err, "Type yes") || !sameQuery(looked, c.query) {
			t.Errorf("%s: looked %s (%+v)", name, looked, got)
		}
		if !strings.HasPrefix(sent, `{`+c.expected+`"mode":`) {
			t.Errorf("%s: sent %s, want %s", name, sent, c.expected)
		}
	}
}

// What a task destroys is read before it is asked for, on a terminal; one that does no harm is not held up.
func TestTasksThatDestroyAreConfirmed(t *testing.T) {
	for kind, want := range map[string]string{
		"node.drain":          "node.drain of c07u31: Tenants who work there are cut off.",
		"node.validate_clean": "",
		"of.a_newer_release":  "",
	} {
		f := newFakeAPI(t)
		b := signedIn(t, f)
		b.in = "no\n"
		b.around.Terminal = func(io.Writer) bool { return true }
		got := b.run("node", "task", "run", "c07u31", kind, "--reason", "r")
		done := slices.ContainsFunc(f.received(), func(r received) bool { return r.operation == "create-node-task" })
		if done != (want == "") || !strings.Contains(got.err, want) || strings.Contains(got.err, "Type yes") == done {
			t.Errorf("%s: done %v (%+v)", kind, done, got)
		}
	}
}

func TestPlanIsReadable(t *testing.T) {
	block := `{"code":"node_busy","message":"node c07u31 is being onboarded","remedy":"cancel it first"}`
	for mode, command := range map[string]string{
		"soft_reset": "gpuaas decommission start c07u31 --mode soft_reset --storage-cleanup local --plan-hash " +
			planHash,
		"reimage": "gpuaas decommission start c07u31 --mode reimage --erase quick --storage-cleanup local " +
			"--plan-hash " + planHash,
		"full_decommission": "gpuaas decommission start c07u31 --mode full_decommission --erase quick --plan-hash " +
			planHash,
		"storage_cleanup": "gpuaas node storage-cleanup c07u31 --scope local --plan-hash " + planHash,
		"drain":           "gpuaas node drain c07u31",
	} {
		f := newFakeAPI(t)
		f.on("plan-node-decommission", answer(200, planJSON(mode, "")), answer(200, planJSON(mode, block)))
		b := signedIn(t, f)
		got := b.run("decommission", "plan", "c07u31", "--mode", mode)
		destroys, ends := strings.Index(got.stdout, "DESTROYS"), strings.Index(got.stdout, "sessions end")
		if got.exit != failure.OK || !strings.HasSuffix(got.stdout, "\n  "+command+"\n") || destroys < 0 || destroys > ends {
			t.Errorf("%s: %+v", mode, got)
		}
		got = b.run("decommission", "plan", "c07u31", "--mode", mode)
		if got.exit != failure.Unsuccessful || strings.Contains(got.stdout, planHash) ||
			!strings.Contains(got.stdout, "cancel it first (node_busy)") {
			t.Errorf("%s, blocked: %+v", mode, got)
		}
	}
}

// What a reimage asks of the machine is part of its plan, and of the command that carries it out.
func TestAPlanKeepsWhatTheMachineIsAcceptedBy(t *testing.T) {
	f := newFakeAPI(t)
	f.on("plan-node-decommission", answer(200, planJSON("reimage", "")))
	got := signedIn(t, f).run("decommission", "plan", "c07u31", "--mode", "reimage", "--keep-out-of-service",
		"--require-hardware-match")
	command := " --keep-out-of-service --require-hardware-match --plan-hash " + planHash + "\n"
	if got.exit != failure.OK || !strings.HasSuffix(got.stdout, command) {
		t.Errorf("%+v", got)
	}
	sent := f.received()
	body := sent[len(sent)-1].body
	if !strings.Contains(body, `"keep_out_of_service":true`) || !strings.Contains(body, `"require_hardware_match":true`) {
		t.Errorf("the plan was asked for with %s", body)
	}
}

// Each mode has its own stages on the board.
func TestDecommissionIsWatchedOnATerminal(t *testing.T) {
	f := newFakeAPI(t)
	b := signedIn(t, f)
	b.around.Terminal = func(io.Writer) bool { return true }
	b.environ = append(b.environ, "COLUMNS=120", "LINES=30")
	got := b.run("decommission", "watch", "--batch", decommissionBatchID)
	screens := screens(got.stdout)
	if got.exit != failure.OK || !strings.Contains(screens[0], " 2/20  running") ||
		!strings.Contains(screens[len(screens)-1], "20/20  completed") ||
		!strings.Contains(got.err, "1 decommission reached the goal") {
		t.Errorf("%+v", got)
	}
	for _, c := range f.received() {
		if (c.operation == "stream-decommissions" || c.operation == "list-decommissions") &&
			!strings.Contains(c.query, "batch_id="+decommissionBatchID) {
			t.Errorf("%s asks %s", c.operation, c.query)
		}
	}
}

// Nobody waits for what a halted batch does not begin.
func TestAHaltedBatchIsNotWaitedFor(t *testing.T) {
	f := newFakeAPI(t)
	waits := strings.NewReplacer(`"status":"running"`, `"status":"pending"`, decommissionID, eventID, "c07u31",
		"c07u32").Replace(decommissionRunning)
	f.on("list-decommissions", pageOf(`{`+decommissionParkedPart+`}`, waits))
	f.on("stream-decommissions", feedOf(), refuse(401, "token_revoked", "revoked", ""))
	got := signedIn(t, f).run("decommission", "watch", "--batch", decommissionBatchID)
	if got.exit != failure.Unsuccessful || !strings.Contains(got.err, "1 of 2 need an operator: c07u31") ||
		!strings.Contains(got.err, "1 machine not begun: the batch is halted") {
		t.Errorf("%+v", got)
	}
	f.on("get-decommission-batch", answer(200, strings.Replace(decommissionBatchJSON, `"halted"`, `"running"`, 1)))
	f.on("stream-decommissions", feedOf(), refuse(401, "token_revoked", "revoked", ""))
	if got := signedIn(t, f).run("decommission", "watch", "--batch",
		decommissionBatchID); got.exit != failure.Unauthenticated {
		t.Errorf("one that goes on: %+v", got)
	}
}

func TestParkedDecommissionTellsWhatToDo(t *testing.T) {
	f := newFakeAPI(t)
	b := signedIn(t, f)
	f.on("stream-decommissions", feedOf())
	if got := b.run("node", "drain", "c07u31", "--reason", "r", "--wait"); got.exit != failure.Unsuccessful ||
		!strings.Contains(got.err, "gpuaas decommission explain c07u31") {
		t.Errorf("%+v", got)
	}
	if got := b.run("decommission", "explain", "c07u31"); got.exit != failure.OK ||
		!strings.Contains(got.stdout, "or, if that cannot be fixed:\n  gpuaas decommission override "+decommissionID) {
		t.Errorf("%+v", got)
	}
	if got := b.run("decommission", "explain", "c07u3"); got.exit != failure.NotFound ||
		!strings.Contains(got.err, "was ever decommissioned") {
		t.Errorf("%+v", got)
	}
	f.on("drain-node", refuse(409, "node_busy", "node c07u31 is in a reimage already",
		"look at it: gpuaas decommission explain X"))
	if got := b.run("node", "drain", "c07u31", "--reason", "r"); got.exit != failure.Conflict ||
		!strings.Contains(got.err, "look at it: gpuaas decommission explain X") {
		t.Errorf("%+v", got)
	}
	f.on("drain-node", answer(202, strings.TrimSuffix(decommissionRunning, "}")+`,"created":false}`))
	if got := b.run("node", "drain", "c07u31", "--reason", "r"); got.exit != failure.OK ||
		!strings.Contains(got.err, "it was already in progress") {
		t.Errorf("%+v", got)
	}
}

func TestDecommissionActionsAreNamedAsCommands(t *testing.T) {
	commands := map[string]bool{}
	for _, r := range decommissionRecoveries() {
		commands[r.word] = true
	}
	for _, action := range []string{
		"retry_stage", "resume", "rerun", "restart_clean", "cancel", "adopt_observed_state",
		"mark_manual_intervention_required",
	} {
		if !commands[actionWord(action)] {
			t.Errorf("%s is called %s", action, actionWord(action))
		}
	}
}
