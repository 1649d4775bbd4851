package operation

import (
	"fmt"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// says lets systemctl describe a unit.
func (b *bench) says(load, active, enabled, invocation string) {
	b.Say("systemctl", fmt.Sprintf("LoadState=%s\nActiveState=%s\nSubState=x\nUnitFileState=%s\nMainPID=7\nInvocationID=%s\n",
		load, active, enabled, invocation))
}

func TestServicesAreBroughtIntoTheirState(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/systemctl", "/usr/bin/journalctl")
	act := func(action, more string) agentwire.StepOutcome {
		t.Helper()
		return b.one(agentwire.StepServiceControl, fmt.Sprintf(`{"unit":"demo.service","action":%q%s}`, action, more))
	}
	called := func(what string) bool { return strings.Contains(strings.Join(b.Calls(), "\n"), "systemctl "+what) }

	b.says("loaded", "active", "enabled", "a")
	wantOutcome(t, act("start", ""), agentwire.StepSucceeded, false) // as wanted already
	wantOutcome(t, act("enable", ""), agentwire.StepSucceeded, false)
	b.says("not-found", "inactive", "", "")
	wantOutcome(t, act("stop", ""), agentwire.StepSucceeded, false)
	wantFailure(t, act("start", ""), "unit_missing", agentwire.FailurePermanent)
	if called("start") || called("stop") || called("enable") {
		t.Errorf("%v", b.Calls())
	}

	// A unit that does not come up is a failure with the end of its journal.
	b.says("loaded", "failed", "enabled", "a")
	b.Say("journalctl", "bind: address in use\n")
	o := act("start", "")
	wantFailure(t, o, "start_failed", agentwire.FailurePermanent)
	if out := outputOf[agentwire.ServiceControlResult](t, o); len(out.Journal) != 1 || out.After.Active != "failed" {
		t.Errorf("%+v", out)
	}
	if !called("start -- demo.service") {
		t.Errorf("%v", b.Calls())
	}
	b.says("loaded", "active", "disabled", "a")
	wantOutcome(t, act("restart", `,"reload":true,"stable_seconds":1`), agentwire.StepSucceeded, true)
	if !called("daemon-reload") || !called("restart -- demo.service") {
		t.Errorf("%v", b.Calls())
	}
	b.plan = true
	wantOutcome(t, act("restart", ""), agentwire.StepPlanned, true)
	b.says("not-found", "inactive", "", "")
	if got := act("restart", "").Summary; got != "restarts demo.service, which is not there yet" {
		t.Errorf("%s", got)
	}
}

// A restart that happened before the agent died is not repeated.
func TestARestartThatHappenedIsNotRepeated(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/systemctl", "/usr/bin/journalctl")
	b.says("loaded", "active", "enabled", "new")
	restart := step("only", agentwire.StepServiceControl, `{"unit":"demo.service","action":"restart"}`)
	b.notes.values = map[string]string{"step/0/begun": "1", "step/0/own/invocation": "was old"}
	wantOutcome(t, b.run(restart)[0], agentwire.StepSucceeded, true)
	if strings.Contains(strings.Join(b.Calls(), "\n"), "systemctl restart") {
		t.Errorf("%v", b.Calls())
	}
	// One that did not happen yet is done.
	b.notes = &notes{values: map[string]string{"step/0/begun": "1", "step/0/own/invocation": "was new"}}
	wantOutcome(t, b.run(restart)[0], agentwire.StepSucceeded, true)
	if !strings.Contains(strings.Join(b.Calls(), "\n"), "systemctl restart") {
		t.Errorf("%v", b.Calls())
	}
}
