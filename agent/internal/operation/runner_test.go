package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/agent/internal/hostexec/hosttest"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// bench is a fake machine with a runner.
type bench struct {
	*hosttest.Machine
	t     *testing.T
	deps  Deps
	plan  bool
	notes *notes
	mint  func(agentwire.MintRequest) (agentwire.Credential, error)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Machine: hosttest.New(t), t: t, notes: &notes{values: map[string]string{}}}
	b.deps = Deps{Host: b.Host(), Clock: time.Now}
	return b
}

// notes is a journal that outlives the runner.
type notes struct {
	mu     sync.Mutex
	values map[string]string
	steps  []string
	broken bool
}

func (n *notes) Step(name, status, _ string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.steps = append(n.steps, name+" "+status)
}

func (n *notes) Checkpoint(key, value string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken {
		return errors.New("the disk is full")
	}
	n.values[key] = value
	return nil
}

func (n *notes) Recall(key string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.values[key]
}

func (n *notes) copy() *notes {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &notes{values: maps.Clone(n.values)}
}

// Mint implements task.Credentials.
func (b *bench) Mint(_ context.Context, kind string, intent map[string]string) (agentwire.Credential, error) {
	if b.mint == nil {
		return agentwire.Credential{}, errors.New("nobody mints here")
	}
	return b.mint(agentwire.MintRequest{CredentialType: kind, Intent: intent})
}

// step describes one step for tests.
func step(id, kind, with string, change ...func(*agentwire.OperationStep)) agentwire.OperationStep {
	s := agentwire.OperationStep{
		ID: id, Kind: kind, With: json.RawMessage(with), TimeoutSeconds: 120, Attempts: 1,
		OnFailure: agentwire.OnFailureStop,
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func (b *bench) task(p *agentwire.OperationRunParams) *task.Task {
	b.t.Helper()
	p.OperationID, p.TargetID = "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c", "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3d"
	p.Definition, p.Digest, p.Plan = "test.op@v1", "sha256:"+strings.Repeat("0", 64), p.Plan || b.plan
	raw, err := json.Marshal(p)
	if err != nil {
		b.t.Fatal(err)
	}
	spec, _ := agentwire.Lookup(agentwire.TypeOperationRun)
	decoded, err := spec.Decode(raw)
	if err != nil {
		b.t.Fatalf("%s: %v", raw, err)
	}
	return &task.Task{
		Verified: agentwire.Verified{
			Envelope: agentwire.Envelope{TaskID: "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3e", Type: spec.Type},
			Spec:     spec, Params: decoded,
		},
		Reporter: b.notes, Credentials: b,
	}
}

// run carries out steps as the loop does.
func (b *bench) run(steps ...agentwire.OperationStep) []agentwire.StepOutcome {
	b.t.Helper()
	out, err := b.try(b.t.Context(), &agentwire.OperationRunParams{Steps: steps})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) try(ctx context.Context, p *agentwire.OperationRunParams) ([]agentwire.StepOutcome, error) {
	b.t.Helper()
	r, t := New(b.deps), b.task(p)
	out, done, err := r.Check(ctx, t)
	if err == nil && !done {
		out, err = r.Apply(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := t.Spec.DecodeOutput(raw); err != nil {
		b.t.Fatalf("output %s: %v", raw, err)
	}
	got, ok := out.(agentwire.OperationRunOutput)
	if !ok {
		b.t.Fatalf("output of type %T", out)
	}
	return got.Steps, nil
}

// one runs one step anew, as another task would.
func (b *bench) one(kind, with string) agentwire.StepOutcome {
	b.t.Helper()
	b.notes = &notes{values: map[string]string{}}
	return b.run(step("only", kind, with))[0]
}

func wantOutcome(t *testing.T, o agentwire.StepOutcome, status string, changed bool) {
	t.Helper()
	if o.Status != status || o.Changed != changed {
		t.Fatalf("%s is %s, changed %v (%+v), want %s, %v", o.ID, o.Status, o.Changed, o.Error, status, changed)
	}
}

func wantFailure(t *testing.T, o agentwire.StepOutcome, code, class string) {
	t.Helper()
	if o.Status != agentwire.StepFailed || o.Error == nil || o.Error.Code != code || o.Error.Class != class {
		t.Fatalf("%s is %s with %+v, want %s of the class %s", o.ID, o.Status, o.Error, code, class)
	}
	if o.Error.Message == "" || o.Error.Remedy == "" {
		t.Errorf("%s has message %q and remedy %q", code, o.Error.Message, o.Error.Remedy)
	}
}

func outputOf[O any](t *testing.T, o agentwire.StepOutcome) O {
	t.Helper()
	var out O
	if err := json.Unmarshal(o.Output, &out); err != nil {
		t.Fatalf("output %s of %s: %v", o.Output, o.ID, err)
	}
	return out
}

func render1(path, text string) string {
	return fmt.Sprintf(`{"path":%q,"format":"plain","template":%q,"folders":true}`, path, text)
}

func TestStepsAreDoneInOrderAndStopAtAFailure(t *testing.T) {
	b := newBench(t)
	out := b.run(
		step("first", agentwire.StepFileRender, render1("/etc/demo/a", "one\n")),
		step("second", agentwire.StepFileRender,
			`{"path":"/etc/demo/b","format":"plain","template":"{{from}} {{bytes}}","values":{"from":"${steps.first.path}","bytes":"${steps.first.bytes}"}}`),
		step("third", agentwire.StepHealthCheck, `{"probes":[{"kind":"file","path":"/etc/demo/c"}]}`),
		step("fourth", agentwire.StepFileRender, render1("/etc/demo/d", "x")),
	)
	wantOutcome(t, out[0], agentwire.StepSucceeded, true)
	wantOutcome(t, out[1], agentwire.StepSucceeded, true)
	wantFailure(t, out[2], "probe_failed", agentwire.FailureTransient)
	wantOutcome(t, out[3], agentwire.StepNotReached, false)
	if b.Read("/etc/demo/b") != "/etc/demo/a 4" || b.Exists("/etc/demo/d") {
		t.Errorf("%q", b.Read("/etc/demo/b"))
	}
	if want := []string{
		"first started", "first succeeded", "second started", "second succeeded", "third started", "third failed",
	}; !slices.Equal(b.notes.steps, want) {
		t.Errorf("%v", b.notes.steps)
	}
	// The same task delivered to the next process does nothing again.
	if err := os.Remove(b.Path("/etc/demo/a")); err != nil {
		t.Fatal(err)
	}
	b.run(
		step("first", agentwire.StepFileRender, render1("/etc/demo/a", "one\n")),
		step("second", agentwire.StepFileRender,
			`{"path":"/etc/demo/b","format":"plain","template":"{{from}} {{bytes}}","values":{"from":"${steps.first.path}","bytes":"${steps.first.bytes}"}}`),
		step("third", agentwire.StepHealthCheck, `{"probes":[{"kind":"file","path":"/etc/demo/c"}]}`),
		step("fourth", agentwire.StepFileRender, render1("/etc/demo/d", "x")),
	)
	if b.Exists("/etc/demo/a") {
		t.Error("a finished step was done again")
	}
}

func TestAPlanOnlyLooks(t *testing.T) {
	b := newBench(t)
	b.plan = true
	out := b.run(step("first", agentwire.StepFileRender, render1("/etc/demo/a", "one\n")))
	wantOutcome(t, out[0], agentwire.StepPlanned, true)
	if b.Exists("/etc/demo") || !strings.Contains(out[0].Summary, "creates /etc/demo/a") {
		t.Errorf("%+v", out[0])
	}
	if diff := outputOf[agentwire.FileRenderResult](t, out[0]).Diff; !strings.Contains(diff, "+one") {
		t.Errorf("diff %q", diff)
	}
}
