package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

// fill makes /bin of a fake machine hold the real program, so that what a
// confined process may do is seen.
func (b *bench) real(path string) {
	b.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Mkdir(filepath.Dir(path))
	if err := os.WriteFile(b.Path(path), raw, 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func command(path string, more string, args ...string) string {
	raw, err := json.Marshal(append([]string{}, args...))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"profile":{"id":"test","command":%q,"base_args":%s,"timeout_seconds":60%s}}`, path, raw, more)
}

func TestACommandRunsByItsProfile(t *testing.T) {
	b := newBench(t)
	b.real("/bin/echo")
	o := b.one(agentwire.StepCommandExec, command("/bin/echo", "", "$(id)", "; reboot", "`x`"))
	wantOutcome(t, o, agentwire.StepSucceeded, true)
	out := outputOf[agentwire.CommandResult](t, o)
	if out.Stdout != "$(id) ; reboot `x`\n" || out.ExitCode != 0 {
		t.Errorf("%+v", out)
	}
	b.real("/bin/false")
	wantFailure(t, b.one(agentwire.StepCommandExec, command("/bin/false", "")), "bad_exit", agentwire.FailurePermanent)
	wantOutcome(t, b.one(agentwire.StepCommandExec, command("/bin/false", `,"expected_exit_codes":[1]`)),
		agentwire.StepSucceeded, true)
	wantFailure(t, b.one(agentwire.StepCommandExec, command("/bin/missing", "")), "program_missing",
		agentwire.FailureCapability)
	wantFailure(t, b.one(agentwire.StepCommandExec, command("/bin/echo", `,"user":"nobodyelse"`)), "account_missing",
		agentwire.FailureCapability)
	b.real("/usr/bin/yes")
	wantFailure(t, b.one(agentwire.StepCommandExec, command("/usr/bin/yes", `,"limits":{"output_bytes":1000}`)),
		"output_limit", agentwire.FailureAmbiguous)
	b.real("/bin/sleep")
	long := strings.Replace(command("/bin/sleep", `,"safe_to_repeat":true`, "3600"), `"timeout_seconds":60`, `"timeout_seconds":1`, 1)
	wantFailure(t, b.one(agentwire.StepCommandExec, long), "command_timeout", agentwire.FailureTransient)
}

// A confined program has no new privileges, its own /tmp, its limits and only
// the environment of its profile.
func TestACommandIsConfined(t *testing.T) {
	b := newBench(t)
	b.real("/bin/cat")
	b.real("/usr/bin/env")
	o := b.one(agentwire.StepCommandExec, command("/bin/cat", `,"limits":{"open_files":77,"memory_mib":512}`,
		"/proc/self/status", "/proc/self/limits", "/proc/self/mountinfo"))
	wantOutcome(t, o, agentwire.StepSucceeded, true)
	out := outputOf[agentwire.CommandResult](t, o).Stdout
	for _, want := range []string{"NoNewPrivs:\t1", "Max open files            77"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if os.Geteuid() == 0 {
		mounts := b.one(agentwire.StepCommandExec, command("/bin/cat", "", "/proc/self/mountinfo"))
		if text := string(mounts.Output); !strings.Contains(text, b.Path("/tmp")) {
			t.Errorf("it has no /tmp of its own: %s", text)
		}
		if raw, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(raw), b.Path("/tmp")) {
			t.Error("its /tmp is seen outside")
		}
	}
	t.Setenv("LEAKED", "from the agent")
	b.Install("/usr/local/bin/printer")
	b.real("/usr/bin/printenv")
	o = b.one(agentwire.StepCommandExec,
		`{"profile":{"id":"e","command":"/usr/bin/printenv","env":["APP_MODE"],"timeout_seconds":60},"env":{"APP_MODE":"x y"}}`)
	wantOutcome(t, o, agentwire.StepSucceeded, true)
	text := outputOf[agentwire.CommandResult](t, o).Stdout
	if !strings.Contains(text, "APP_MODE=x y\n") || strings.Contains(text, "LEAKED") {
		t.Errorf("%s", text)
	}
}

// due has the deadline of a run that never ends by itself, so that only the step
// decides when it stops.
type due struct {
	context.Context
	at time.Time
}

func (d due) Deadline() (time.Time, bool) { return d.at, true }

// A step that no cancel interrupts ends with the time of its run, not only with
// its own.
func TestTheTimeOfARunLimitsEveryStep(t *testing.T) {
	b := newBench(t)
	b.real("/bin/sleep")
	long := strings.Replace(command("/bin/sleep", "", "30"), `"timeout_seconds":60`, `"timeout_seconds":3600`, 1)
	out, err := b.try(due{t.Context(), time.Now().Add(time.Second)}, &agentwire.OperationRunParams{
		Steps: []agentwire.OperationStep{step("only", agentwire.StepCommandExec, long)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := out[0]; o.Status != agentwire.StepFailed || o.Error.Class != agentwire.FailureAmbiguous ||
		!strings.Contains(o.Error.Code, "_timeout") {
		t.Errorf("%+v %+v", o, o.Error)
	}
}

// What a profile that was interrupted did is not known, so it is not repeated.
func TestAnInterruptedCommandIsAmbiguous(t *testing.T) {
	b := newBench(t)
	b.real("/bin/echo")
	b.notes.values["step/0/begun"] = "1"
	o := b.run(step("only", agentwire.StepCommandExec, command("/bin/echo", "", "x")))[0]
	wantFailure(t, o, "command_interrupted", agentwire.FailureAmbiguous)
	b.notes = &notes{values: map[string]string{"step/0/begun": "1"}}
	o = b.run(step("only", agentwire.StepCommandExec, command("/bin/echo", `,"safe_to_repeat":true`, "x")))[0]
	wantOutcome(t, o, agentwire.StepSucceeded, true)
}
