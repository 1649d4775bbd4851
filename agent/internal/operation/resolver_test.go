package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

func resolverTask(t *testing.T, params string) *task.Task {
	t.Helper()
	spec, _ := agentwire.Lookup(agentwire.TypeResolverConfig)
	p, err := spec.Decode(json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	return &task.Task{Verified: agentwire.Verified{
		Envelope: agentwire.Envelope{TaskID: "t", Type: spec.Type}, Spec: spec, Params: p,
	}}
}

func config(version int, profile string) string {
	return fmt.Sprintf(`{"action":"install","version":%d,"config":{"profiles":[`+
		`{"id":"%s","command":"/usr/bin/printenv","base_args":["LANG"],"timeout_seconds":30},`+
		`{"id":"other","command":"/usr/bin/printenv","timeout_seconds":30}],"rules":[`+
		`{"id":"nvidia","match":{"gpu.vendor":"nvidia"},"overrides":{"gpu.runtime.check":"%s"}},`+
		`{"id":"amd","match":{"gpu.vendor":"amd"},"overrides":{"gpu.runtime.check":"other"}},`+
		`{"id":"fallback","match":{},"overrides":{}}]}}`, version, profile, profile)
}

func TestResolverConfigurationsAreKeptByVersion(t *testing.T) {
	b := newBench(t)
	told := 0
	r := &Resolver{Host: b.Host(), Changed: func() { told++ }}
	apply := func(params string) (agentwire.ResolverConfigOutput, error) {
		t.Helper()
		k := resolverTask(t, params)
		out, done, err := r.Check(t.Context(), k)
		if err == nil && !done {
			out, err = r.Apply(t.Context(), k)
		}
		o, _ := out.(agentwire.ResolverConfigOutput)
		return o, err
	}
	if _, version, err := r.Current(); err != nil || version != 0 {
		t.Fatal(version, err)
	}
	for v := range 7 {
		if _, err := apply(config(v+1, "one")); err != nil {
			t.Fatal(err)
		}
	}
	if o, err := apply(config(7, "one")); err != nil || !slices.Equal(o.Kept, []int64{3, 4, 5, 6, 7}) || told != 7 {
		t.Errorf("%+v %v, told %d times", o, err, told)
	}
	var failure *task.Error
	if _, err := apply(config(2, "one")); !errors.As(err, &failure) || failure.Code != "version_stale" {
		t.Errorf("%v", err)
	}
	if _, err := apply(`{"action":"rollback","version":2}`); !errors.As(err, &failure) || failure.Code != "version_not_kept" {
		t.Errorf("%v", err)
	}
	if o, err := apply(`{"action":"rollback","version":5}`); err != nil || o.Version != 5 {
		t.Errorf("%+v %v", o, err)
	}
	// The next process knows it, and damage is replaced.
	if _, version, err := (&Resolver{Host: b.Host()}).Current(); err != nil || version != 5 {
		t.Error(version, err)
	}
	b.Write(resolverFile, "{")
	if o, err := apply(config(1, "one")); err != nil || o.Version != 1 {
		t.Errorf("%+v %v", o, err)
	}
}

func TestAbstractStepsBecomeProfiles(t *testing.T) {
	b := newBench(t)
	b.real("/usr/bin/printenv")
	facts := map[string]string{"gpu.vendor": "nvidia"}
	b.deps.Facts = func(context.Context) map[string]string { return facts }
	b.deps.Resolver = &Resolver{Host: b.Host()}
	wantFailure(t, b.one(agentwire.StepGPURuntimeCheck, `{}`), "no_profile", agentwire.FailureCapability)
	if _, err := b.deps.Resolver.Apply(t.Context(), resolverTask(t, config(4, "one"))); err != nil {
		t.Fatal(err)
	}
	o := b.one(agentwire.StepGPURuntimeCheck, `{"expect":["C"],"minimum_lines":1}`)
	wantOutcome(t, o, agentwire.StepSucceeded, false)
	if o.ResolvedProfile != "one" || o.HardwareMatch != "nvidia@4" {
		t.Errorf("%+v", o)
	}
	o = b.one(agentwire.StepGPURuntimeCheck, `{"expect":["H200"]}`)
	wantFailure(t, o, "below_threshold", agentwire.FailurePermanent)
	if out := outputOf[agentwire.GPUCheckResult](t, o); !slices.Equal(out.Missing, []string{"H200"}) {
		t.Errorf("%+v", out)
	}
	wantFailure(t, b.one(agentwire.StepGPURuntimeCheck, `{"minimum_lines":8}`), "below_threshold", agentwire.FailurePermanent)
	wantFailure(t, b.one(agentwire.StepGPUDriverValidate, `{}`), "no_profile", agentwire.FailureCapability)
	facts["gpu.vendor"] = "intel" // falls through to the fallback
	if o := b.one(agentwire.StepGPURuntimeCheck, `{}`); o.HardwareMatch != "fallback@4" {
		t.Errorf("%+v", o)
	}
	facts["gpu.vendor"] = "amd"
	b.plan = true
	if o := b.one(agentwire.StepGPURuntimeCheck, `{}`); o.ResolvedProfile != "other" || o.Status != agentwire.StepPlanned {
		t.Errorf("%+v", o)
	}
}
