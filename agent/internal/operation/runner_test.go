package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
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
	id    string // of the task
	deps  Deps
	plan  bool
	notes *notes
	mint  func(agentwire.MintRequest) (agentwire.Credential, error)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		Machine: hosttest.New(t), t: t, id: "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3e",
		notes: &notes{values: map[string]string{}},
	}
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
func (b *bench) Mint(ctx context.Context, kind string, intent map[string]string) (agentwire.Credential, error) {
	return b.MintForStep(ctx, "", "", kind, intent)
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
			Envelope: agentwire.Envelope{TaskID: b.id, Type: spec.Type},
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

// MintForStep implements task.StepCredentials.
func (b *bench) MintForStep(_ context.Context, operation, step, kind string, intent map[string]string) (
	agentwire.Credential, error,
) {
	if b.mint == nil {
		return agentwire.Credential{}, errors.New("nobody mints here")
	}
	return b.mint(agentwire.MintRequest{OperationID: operation, StepID: step, CredentialType: kind, Intent: intent})
}

// Whatever kills the agent, at whatever point of a step, the next process
// brings the run to the same end, and no step that was finished is done again.
func TestARunSurvivesADeathAtEveryPoint(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/systemctl")
	steps := []agentwire.OperationStep{
		step("one", agentwire.StepFileRender, render1("/etc/demo/a", "one\n")),
		step("two", agentwire.StepFileRender,
			`{"path":"/etc/demo/b","format":"plain","template":"{{v}}","values":{"v":"${steps.one.path}"}}`),
		step("three", agentwire.StepHealthCheck, `{"probes":[{"kind":"file","path":"/etc/demo/b"}]}`),
	}
	var points []string
	b.deps.Hook = func(p string) { points = append(points, p) }
	want := b.run(steps...)
	for _, o := range want {
		if o.Status != agentwire.StepSucceeded {
			t.Fatalf("%+v", o)
		}
	}
	if len(points) < 10 {
		t.Fatalf("only %v are points", points)
	}
	for _, at := range points {
		t.Run(strings.ReplaceAll(at, ":", "-"), func(t *testing.T) {
			b := newBench(t)
			died := false
			b.deps.Hook = func(p string) {
				if p == at && !died {
					died = true
					runtime.Goexit() // no handler can catch it
				}
			}
			// The journal is as it was when the process died; memory is not.
			var process sync.WaitGroup
			ended := false
			process.Go(func() {
				b.run(steps...)
				ended = true
			})
			process.Wait()
			if !died || ended {
				t.Fatalf("it did not die at %s", at)
			}
			finished := map[string]bool{}
			for i := range steps {
				if b.notes.values[fmt.Sprintf("step/%d/outcome", i)] != "" {
					finished[steps[i].ID] = true
				}
			}
			b.notes = b.notes.copy()
			var again []string
			b.deps.Hook = func(p string) { again = append(again, p) }
			got := b.run(steps...)
			for i, o := range got {
				if o.Status != agentwire.StepSucceeded || o.Changed != want[i].Changed {
					t.Errorf("%s is %s, changed %v", o.ID, o.Status, o.Changed)
				}
			}
			for _, p := range again {
				if id, _, _ := strings.Cut(p, ":"); finished[id] {
					t.Errorf("%s was finished and done again: %s", id, p)
				}
			}
			if b.Read("/etc/demo/a") != "one\n" || b.Read("/etc/demo/b") != "/etc/demo/a" {
				t.Error("the files are not as wanted")
			}
		})
	}
}

// A cancel takes effect between steps, and in the middle of those that can be
// interrupted. What was done is told.
func TestACancelStopsAtASafePoint(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	b.deps.Hook = func(p string) {
		if p == "one:renamed" {
			cancel(errors.New("somebody cancelled the run"))
		}
	}
	out, err := b.try(ctx, &agentwire.OperationRunParams{Steps: []agentwire.OperationStep{
		step("one", agentwire.StepFileRender, render1("/etc/demo/a", "one\n")),
		step("two", agentwire.StepFileRender, render1("/etc/demo/b", "two\n")),
		step("three", agentwire.StepFileRender, render1("/etc/demo/c", "three\n")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, out[0], agentwire.StepSucceeded, true) // it is finished first
	wantOutcome(t, out[1], agentwire.StepCancelled, false)
	wantOutcome(t, out[2], agentwire.StepNotReached, false)
	if b.Exists("/etc/demo/b") || out[1].Error.Class != agentwire.FailureCancelled {
		t.Errorf("%+v", out[1])
	}
	// A check that would go on for an hour ends at once.
	b = newBench(t)
	ctx, cancel = context.WithCancelCause(t.Context())
	time.AfterFunc(0, func() { cancel(errors.New("somebody cancelled the run")) })
	out, err = b.try(ctx, &agentwire.OperationRunParams{Steps: []agentwire.OperationStep{
		step("wait", agentwire.StepHealthCheck, `{"probes":[{"kind":"file","path":"/etc/never"}],"within_seconds":3600}`,
			func(s *agentwire.OperationStep) { s.TimeoutSeconds = 3700 }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, out[0], agentwire.StepCancelled, false)
}

// If the agent itself ends, there is no result: the next process goes on.
func TestTheEndOfTheAgentIsNoEndOfARun(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(task.ErrInterrupted)
	if _, err := b.try(ctx, &agentwire.OperationRunParams{Steps: []agentwire.OperationStep{
		step("one", agentwire.StepFileRender, render1("/etc/demo/a", "one\n")),
	}}); !errors.Is(err, task.ErrInterrupted) {
		t.Fatalf("%v", err)
	}
	wantOutcome(t, b.run(step("one", agentwire.StepFileRender, render1("/etc/demo/a", "one\n")))[0],
		agentwire.StepSucceeded, true)
}

func TestTransientFailuresAreTriedAgain(t *testing.T) {
	b := newBench(t)
	tries := 0
	b.mint = func(agentwire.MintRequest) (agentwire.Credential, error) {
		if tries++; tries < 3 {
			return agentwire.Credential{}, errors.New("busy")
		}
		return agentwire.Credential{CredentialType: "oci_pull", Values: map[string]string{"token": "abcdef"}}, nil
	}
	mint := func(attempts int) agentwire.OperationStep {
		return step("mint", agentwire.StepCredentialMint, `{"credential_type":"oci_pull","values":["token"]}`,
			func(s *agentwire.OperationStep) { s.Attempts = attempts })
	}
	out := b.run(mint(3))
	wantOutcome(t, out[0], agentwire.StepSucceeded, false)
	if out[0].Attempts != 3 {
		t.Errorf("%d attempts", out[0].Attempts)
	}
	tries, b.notes = 0, &notes{values: map[string]string{}}
	wantFailure(t, b.run(mint(2))[0], "mint_failed", agentwire.FailureTransient)
	// A journal that cannot be written lets no step begin.
	b.notes = &notes{values: map[string]string{}, broken: true}
	if _, err := b.try(t.Context(), &agentwire.OperationRunParams{Steps: []agentwire.OperationStep{
		step("one", agentwire.StepFileRender, render1("/etc/demo/z", "one\n")),
	}}); err == nil || b.Exists("/etc/demo/z") {
		t.Errorf("%v", err)
	}
}

func TestEveryKindIsCarriedOut(t *testing.T) {
	var want []string
	for _, k := range agentwire.StepKinds() {
		want = append(want, k.Kind)
	}
	if !slices.Equal(StepKinds(), want) {
		t.Errorf("%v, want %v", StepKinds(), want)
	}
}
