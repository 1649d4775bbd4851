package operation_test

import (
	"encoding/json"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation"
)

// chained makes the first step one that every resume does again, which the second and
// the last use.
func chained(d *definition.Definition) {
	d.Steps[0].Repeat = true
	d.Steps[1].With = json.RawMessage(`{"path":"/etc/demo/two.conf","format":"ini","template":"at = {{at}}\n",` +
		`"values":{"at":"${steps.one.path}"}}`)
	d.Steps[2] = definition.Step{
		ID: "three", Kind: "file.render", TimeoutSeconds: 30, OnFailure: definition.Stop,
		With: json.RawMessage(`{"path":"/etc/demo/three.conf","format":"ini","template":"at = {{at}} {{of}}\n",` +
			`"values":{"at":"${steps.one.path}","of":"${steps.two.path}"}}`),
	}
}

// A step that every resume does again may come before one that is done and uses it: the
// node gets a task that it accepts, with the output of what is done.
func TestAResumeGoesOnAfterAStepThatUsesARepeatedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare", chained)
	n := w.node(t, "n1")
	w.do = func(_ id.Node, _ agentwire.OperationRunParams, s agentwire.OperationStep) agentwire.StepOutcome {
		status := agentwire.StepSucceeded
		if s.ID == "three" {
			status = agentwire.StepFailed
		}
		out := outcome(s, status)
		if status == agentwire.StepSucceeded {
			out.Output = json.RawMessage(`{"path":"/etc/demo/` + s.ID + `.conf","changed":true,"bytes":4}`)
		}
		return out
	}
	o := w.submit(t, operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: []id.Node{n}}, Trigger: operation.ByAdmin})
	wantStatus(t, w.settle(t, o.ID), operation.Failed, nil)
	w.do = nil
	if _, err := w.service.Retry(w.ctx, o.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded, nil)
	last := w.given[len(w.given)-1]
	if err := last.Validate(); err != nil {
		t.Errorf("the node would refuse the task: %v", err)
	}
	var did []string
	for _, s := range last.Steps[last.Begin:] {
		did = append(did, s.ID)
	}
	if len(did) != 2 || did[0] != "one" || did[1] != "three" || len(last.Earlier["two"]) == 0 {
		t.Errorf("the node does %v with %v", did, last.Earlier)
	}
}

// A task that failed and says nothing of its steps may have done some: the node is asked
// to look. One that the agent refused did nothing.
func TestATaskThatFailedWithoutAWordIsLookedAt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status, code string
		looks        bool
	}{
		"the output was lost": {agentwire.ResultFailed, "output_invalid", true},
		"the task broke off":  {agentwire.ResultFailed, "task_failed", true},
		"it was refused":      {agentwire.ResultRefused, string(agentwire.RefusedClockSkew), false},
		"it was not begun":    {agentwire.ResultFailed, agentwire.CodeJournalUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ref := w.define(t, "web.prepare")
			o := w.submit(t, operation.Ask{
				Ref: ref, Targets: operation.Selector{Nodes: w.nodes(t, 1)}, Trigger: operation.ByAdmin,
			})
			for _, e := range w.fetch(t) {
				w.failed(t, e, row.status, row.code)
			}
			w.do = func(_ id.Node, p agentwire.OperationRunParams, s agentwire.OperationStep) agentwire.StepOutcome {
				if p.Plan {
					out := outcome(s, agentwire.StepPlanned)
					out.Changed = false // all of it is there
					return out
				}
				return outcome(s, agentwire.StepSucceeded)
			}
			o = w.settle(t, o.ID)
			if !row.looks {
				wantStatus(t, o, operation.Failed, nil)
				if len(w.given) != 0 || w.targets(t, o.ID)[0].Error.Class != agentwire.FailurePermanent {
					t.Errorf("%+v", w.targets(t, o.ID)[0])
				}
				return
			}
			wantStatus(t, o, operation.Succeeded, nil)
			if len(w.given) == 0 || !w.given[0].Plan {
				t.Errorf("the node was not asked to look: %+v", w.given)
			}
		})
	}
}

// A node that answers when it is asked what is there, and lets every attempt expire, is
// given up after a few times.
func TestANodeThatOnlyLooksIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare", func(d *definition.Definition) { d.Steps = d.Steps[2:] }) // it only looks
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: w.nodes(t, 1)}, Trigger: operation.ByAdmin,
	})
	for range 200 {
		for _, e := range w.fetch(t) {
			var p agentwire.OperationRunParams
			if err := json.Unmarshal(e.Params, &p); err != nil {
				t.Fatal(err)
			}
			if p.Plan {
				w.report(t, e)
			}
		}
		w.clock.pass(time.Minute)
		if _, err := w.queue.Sweep(w.ctx); err != nil {
			t.Fatal(err)
		}
		if w.turn(t, o.ID).Done {
			break
		}
	}
	o = w.get(t, o.ID)
	wantStatus(t, o, operation.Failed, nil)
	got := w.targets(t, o.ID)[0]
	if got.Error.Code != "operation_outcome_unknown" || got.Looks != 3 || got.Error.Remedy == "" {
		t.Errorf("%+v", got)
	}
	if _, err := w.service.Retry(w.ctx, o.ID, nil, "it answers now"); err != nil {
		t.Fatal(err)
	}
	if got := w.targets(t, o.ID)[0]; got.Looks != 0 {
		t.Errorf("whoever resumes it has it asked again: %+v", got)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded, nil)
}

// What nodes would be told is part of the hash of a plan: a fact that changes it changes
// the hash, and another does not.
func TestTheHashOfAPlanHoldsTheFactsThatItUses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare", func(d *definition.Definition) {
		d.Requires = map[string]definition.Accepted{"gpu.vendor": {"nvidia", "amd"}}
		d.Steps[0].With = json.RawMessage(`{"path":"/etc/demo/demo.conf","format":"ini","template":"v = {{v}}\n",` +
			`"values":{"v":"${target.facts.gpu.vendor}"}}`)
	})
	n := w.node(t, "n1")
	ask := operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: []id.Node{n}}, Trigger: operation.ByAdmin}
	hash := func(facts string) string {
		w.exec(t, `UPDATE nodes SET capabilities = $2 WHERE id = $1`, n, facts)
		p, err := w.service.Plan(w.ctx, ask)
		if err != nil {
			t.Fatal(err)
		}
		return p.Hash
	}
	first := hash(`{"gpu.vendor": "nvidia"}`)
	if hash(`{"gpu.vendor": "nvidia", "fabric.type": "roce"}`) != first {
		t.Error("a fact that nothing uses changes the plan")
	}
	if hash(`{"gpu.vendor": "amd"}`) == first {
		t.Error("a fact that a step uses does not change the plan")
	}
	ask.PlanHash = first
	_, err := w.service.Submit(w.ctx, ask)
	wantCode(t, "the plan of before", err, "operation_plan_stale")
}

// What steps report of files and packages is kept per target, attempt and step, and a
// plan leaves nothing.
func TestArtifactsAreKeptFromWhatStepsReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare", func(d *definition.Definition) {
		d.Steps[1].Kind = "package.install"
		d.Steps[1].With = json.RawMessage(`{"packages":[{"name":"nginx-light","version":"1.24"}],"sources":["system"]}`)
	})
	n := w.node(t, "n1", "file.render", "package.install", "health.check")
	w.do = func(_ id.Node, p agentwire.OperationRunParams, s agentwire.OperationStep) agentwire.StepOutcome {
		status := agentwire.StepSucceeded
		if p.Plan {
			status = agentwire.StepPlanned
		}
		out := outcome(s, status)
		switch s.ID {
		case "one":
			out.Output = json.RawMessage(`{"path":"/etc/demo/demo.conf","changed":true,"sha256":"aa","before":"bb","bytes":7}`)
		case "two":
			out.Output = json.RawMessage(`{"packages":[{"name":"nginx-light","before":"1.18","after":"1.24"}],` +
				`"also":[{"name":"libold","before":"1","after":""},{"name":"libsame","before":"2","after":"2"}]}`)
		}
		return out
	}
	list := func(of id.Operation, kind string, most int32, after operation.ArtifactPosition) []operation.Artifact {
		all, err := w.service.Artifacts(t.Context(), of, id.OperationTarget{}, kind, after, most)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	ask := operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: []id.Node{n}}, Trigger: operation.ByAdmin}
	looked := ask
	looked.OnlyPlan = true
	o := w.submit(t, looked)
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded, nil)
	if all := list(o.ID, "", 100, operation.ArtifactPosition{}); len(all) != 0 {
		t.Errorf("a plan left %+v", all)
	}
	o = w.submit(t, ask)
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded, nil)
	all := list(o.ID, "", 100, operation.ArtifactPosition{})
	want := [][5]string{
		{"file", "produced", "/etc/demo/demo.conf", "sha256:aa", "sha256:bb"},
		{"backup", "produced", "/etc/demo/demo.conf", "sha256:bb", ""},
		{"package", "produced", "nginx-light", "", "1.18"},
		{"package", "removed", "libold", "", "1"},
		{"package", "used", "libsame", "", "2"},
	}
	if len(all) != len(want) {
		t.Fatalf("%+v", all)
	}
	for i, a := range all {
		got := [5]string{a.Kind, a.Role, a.Name, a.Digest, a.Before}
		if got != want[i] || a.Hostname != "n1" || a.Attempt != 1 {
			t.Errorf("%d: %+v", i, a)
		}
	}
	last := all[2]
	rest := list(o.ID, "package", 1, operation.ArtifactPosition{
		Position: last.Position, Attempt: last.Attempt, Step: last.Index, Seq: last.Seq,
	})
	if len(rest) != 1 || rest[0].Name != "libold" {
		t.Errorf("the next page: %+v", rest)
	}
}
