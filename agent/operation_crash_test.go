package agent

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpuaas/contract/agentwire"
)

// A real kill at every point of an operation: the next process ends it rightly,
// no finished step is done again, and a command that nobody may repeat is
// ambiguous if it was under way.
func TestAnOperationIsKilledAtEveryPoint(t *testing.T) {
	step := func(id, kind, with string) agentwire.OperationStep {
		return agentwire.OperationStep{
			ID: id, Kind: kind, With: json.RawMessage(with), TimeoutSeconds: 120, Attempts: 1,
			OnFailure: agentwire.OnFailureStop,
		}
	}
	params := agentwire.OperationRunParams{
		OperationID: "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c", TargetID: "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3d",
		Definition: "test.op@v1", Digest: "sha256:" + strings.Repeat("0", 64), Steps: []agentwire.OperationStep{
			step("one", agentwire.StepFileRender,
				`{"path":"/etc/demo/a","format":"plain","template":"x","folders":true}`),
			step("two", agentwire.StepCommandExec,
				`{"profile":{"id":"p","command":"/bin/true","timeout_seconds":60}}`),
			step("three", agentwire.StepFileRender,
				`{"path":"/etc/demo/b","format":"plain","template":"{{v}}","values":{"v":"${steps.one.path}"}}`),
		},
	}
	for _, point := range []string{
		"one:begun", "one:backed-up", "one:renamed", "one:applied", "one:done", "one:written",
		"two:begun", "two:applied", "two:done", "two:written", "three:begun", "three:renamed", "three:written",
	} {
		t.Run(strings.ReplaceAll(point, ":", "-"), func(t *testing.T) {
			r := newRig(t)
			program, err := os.ReadFile("/bin/true")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(r.root, "bin"), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(r.root, "bin/true"), program, 0o700); err != nil {
				t.Fatal(err)
			}
			r.accounts()
			first := r.child(point)
			e := r.Envelope(agentwire.TypeOperationRun, params, nil)
			r.Deliver(e)
			var exit *exec.ExitError
			if err := first.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the agent was not killed at %s: %v", point, err)
			}
			before := r.points()
			r.child("")
			got := r.Result(e.TaskID)
			var out agentwire.OperationRunOutput
			if err := json.Unmarshal(got.Output, &out); err != nil || got.Status != agentwire.ResultSucceeded {
				t.Fatalf("%+v %v", got, err)
			}
			after := r.points()[len(before):]
			for _, p := range before {
				id, at, _ := strings.Cut(p, ":")
				for _, q := range after {
					if at == "written" && strings.HasPrefix(q, id+":") {
						t.Errorf("%s was finished and went through %s again", id, q)
					}
				}
			}
			// The program may have run, so only what was written down counts.
			doubt := point == "two:begun" || point == "two:applied" || point == "two:done"
			switch second := out.Steps[1]; {
			case doubt && (second.Status != agentwire.StepFailed || second.Error.Class != agentwire.FailureAmbiguous):
				t.Errorf("%+v", second)
			case !doubt && (second.Status != agentwire.StepSucceeded || out.Steps[2].Status != agentwire.StepSucceeded):
				t.Errorf("%+v", out.Steps)
			}
			if content, err := os.ReadFile(filepath.Join(r.root, "etc/demo/a")); err != nil || string(content) != "x" {
				t.Errorf("%q %v", content, err)
			}
		})
	}
}

// accounts gives the machine its files of accounts.
func (r *rig) accounts() {
	r.t.Helper()
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0::/:/bin/sh\n", "etc/group": "root:x:0:\n",
	} {
		if err := os.WriteFile(filepath.Join(r.root, name), []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// points are those that operations passed so far.
func (r *rig) points() []string {
	r.t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.root, "points"))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Fields(string(raw))
}
