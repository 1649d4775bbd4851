package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec/hosttest"
	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/update"
	"gpuaas/contract/agentwire"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

const allocation = "11111111-2222-3333-4444-555555555555"

// bench is a fake machine with everything the handlers need.
type bench struct {
	*hosttest.Machine
	t         *testing.T
	gpu       *fakeGPU
	terminals *fakeTerminals
	packages  *fakePackages
	verifiers agentwire.VerifierSet
	minted    agentwire.Credential
	mintErr   error
	deps      Deps
	now       time.Time
	handed    []agentwire.Inventory // baselines
}

func newBench(t *testing.T) *bench {
	b := &bench{
		Machine: hosttest.New(t), t: t, gpu: &fakeGPU{}, terminals: &fakeTerminals{open: map[string]string{}},
		packages: &fakePackages{},
		now:      time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
	b.gpu.report = gpu.Report{Type: "report", Vendor: gpu.None}
	b.gpu.scrub = gpu.ScrubReport{Vendor: gpu.None, Outcome: gpu.NotApplicable, Notes: []string{"no driver"}}
	b.deps = Deps{
		Host: b.Host(), GPU: b.gpu, Terminals: b.terminals, Packages: b.packages,
		Verifiers: func() agentwire.VerifierSet { return b.verifiers },
		Updates:   update.New(b.Host(), "1.0", func() time.Time { return b.now }),
		LastPoll:  func() time.Time { return b.now.Add(-10 * time.Second) },
		Clock:     func() time.Time { return b.now },
		Baseline: func(_ context.Context, now agentwire.Inventory) error {
			b.handed = append(b.handed, now)
			return nil
		},
	}
	return b
}

// job is a task with its handler, as the loop would have it.
type job struct {
	b       *bench
	handler task.Handler
	task    *task.Task
	steps   *recorder
}

func (b *bench) job(kind string, params any) *job {
	b.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	spec, known := agentwire.Lookup(kind)
	if !known {
		b.t.Fatalf("no task type %s", kind)
	}
	decoded, err := spec.Decode(raw)
	if err != nil {
		b.t.Fatalf("parameters of %s: %v", kind, err)
	}
	steps := &recorder{values: map[string]string{}}
	return &job{b: b, handler: Registry(b.deps)[kind], steps: steps, task: &task.Task{
		Verified: agentwire.Verified{Envelope: agentwire.Envelope{TaskID: "task-1", Type: kind}, Spec: spec, Params: decoded},
		Reporter: steps, Credentials: b,
	}}
}

// Mint implements task.Credentials.
func (b *bench) Mint(_ context.Context, kind string, intent map[string]string) (agentwire.Credential, error) {
	if kind != agentwire.CredentialMAASMachineToken || intent["system_id"] != "abc123" {
		return agentwire.Credential{}, fmt.Errorf("unexpected %s for %v", kind, intent)
	}
	return agentwire.Credential{CredentialType: kind, Values: maps.Clone(b.minted.Values)}, b.mintErr
}

func (j *job) check() (any, bool) {
	j.b.t.Helper()
	out, done, err := j.handler.Check(j.b.t.Context(), j.task)
	if err != nil {
		j.b.t.Fatalf("check: %v", err)
	}
	if done {
		j.conforms(out)
	}
	return out, done
}

func (j *job) mustCheck(want bool) {
	j.b.t.Helper()
	if _, done := j.check(); done != want {
		j.b.t.Fatalf("check says done=%v, want %v", done, want)
	}
}

func (j *job) apply() any {
	j.b.t.Helper()
	out, err := j.handler.Apply(j.b.t.Context(), j.task)
	if err != nil && !errors.Is(err, task.ErrStop) {
		j.b.t.Fatalf("apply: %v", err)
	}
	j.conforms(out)
	return out
}

// applyFails wants a failure with this code.
func (j *job) applyFails(code string) *task.Error {
	j.b.t.Helper()
	_, err := j.handler.Apply(j.b.t.Context(), j.task)
	return wantCode(j.b.t, err, code)
}

func wantCode(t *testing.T, err error, code string) *task.Error {
	t.Helper()
	var failure *task.Error
	if !errors.As(err, &failure) || failure.Code != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
	if failure.Message == "" || failure.Remedy == "" {
		t.Errorf("failure %s has message %q and remedy %q", code, failure.Message, failure.Remedy)
	}
	return failure
}

// cancelIn applies, cancels once the program was started, and expects that as
// the reason of the end.
func (j *job) cancelIn(program string) {
	j.b.t.Helper()
	j.b.Hang(program)
	defer j.b.Heal(program)
	ctx, cancel := context.WithCancel(j.b.t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := j.handler.Apply(ctx, j.task)
		done <- err
	}()
	j.b.AwaitCall(program)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		j.b.t.Fatalf("cancelled in %s: %v", program, err)
	}
}

// conforms checks an output against the contract.
func (j *job) conforms(out any) {
	j.b.t.Helper()
	raw, err := json.Marshal(out)
	if err != nil {
		j.b.t.Fatal(err)
	}
	if strings.Contains(string(raw), ":null") {
		j.b.t.Errorf("output with null: %s", raw)
	}
	if _, err := j.task.Spec.DecodeOutput(raw); err != nil {
		j.b.t.Errorf("output %s: %v", raw, err)
	}
}

type recorder struct {
	mu     sync.Mutex
	lines  []string
	values map[string]string
}

func (r *recorder) Step(name, status, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, strings.TrimSpace(name+" "+status+" "+message))
}

func (r *recorder) Checkpoint(key, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values[key] = value
	return nil
}

func (r *recorder) Recall(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values[key]
}

type fakeTerminals struct {
	open   map[string]string // session to user
	refuse error
}

func (f *fakeTerminals) Open(_ context.Context, p agentwire.TerminalOpenParams) error {
	if f.refuse == nil {
		f.open[p.SessionID] = p.Username
	}
	return f.refuse
}

func (f *fakeTerminals) Close(session string) bool {
	_, existed := f.open[session]
	delete(f.open, session)
	return existed
}

func (f *fakeTerminals) CloseUser(name string) int {
	before := len(f.open)
	maps.DeleteFunc(f.open, func(_, user string) bool { return user == name })
	return before - len(f.open)
}

func (f *fakeTerminals) CloseAll() int {
	n := len(f.open)
	clear(f.open)
	return n
}

func (f *fakeTerminals) Count() int { return len(f.open) }

type fakeGPU struct {
	report     gpu.Report
	inspectErr error
	scrub      gpu.ScrubReport
	scrubErr   error
	asked      []string
	scrubs     int
}

func (f *fakeGPU) Inspect(context.Context) (gpu.Report, error) { return f.report, f.inspectErr }

func (f *fakeGPU) Scrub(_ context.Context, uuids []string, progress func(gpu.Phase)) (gpu.ScrubReport, error) {
	f.asked = uuids
	f.scrubs++
	for _, g := range f.scrub.GPUs {
		progress(gpu.Phase{UUID: g.UUID, Phase: "fill", Bytes: g.BytesCovered, DeviceMS: 1})
	}
	return f.scrub, f.scrubErr
}

type fakePackages struct {
	raw     []byte
	err     error
	fetched int
}

func (f *fakePackages) Package(context.Context, string) (io.ReadCloser, error) {
	f.fetched++
	return io.NopCloser(strings.NewReader(string(f.raw))), f.err
}

func TestTheRegistryHasEveryTypeThatIsNotTheLoops(t *testing.T) {
	have := slices.Sorted(maps.Keys(Registry(newBench(t).deps)))
	var want []string
	for _, s := range agentwire.Catalog() {
		if s.Type != agentwire.TypeHeartbeatCheck && s.Type != agentwire.TypeUpdateVerifiers &&
			!strings.HasPrefix(s.Type, "operation.") {
			want = append(want, s.Type)
		}
	}
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

func TestParametersOfAnotherTypeAreAnError(t *testing.T) {
	b := newBench(t)
	for kind, h := range Registry(b.deps) {
		_, _, checkErr := h.Check(t.Context(), &task.Task{Reporter: &recorder{values: map[string]string{}}})
		_, applyErr := h.Apply(t.Context(), &task.Task{Reporter: &recorder{values: map[string]string{}}})
		if checkErr == nil && applyErr == nil && kind != agentwire.TypeHealthProbe {
			t.Errorf("%s takes anything", kind)
		}
	}
}

// machineOf is for tests of parts of a handler.
func (b *bench) host() host {
	return host{Deps: b.deps, machine: inspect.Machine{Host: b.deps.Host, GPUs: b.gpu}, kill: killProcess}
}
