package operation_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation"
	"gpuaas/controlplane/internal/operate/policy"
)

// decided gives the world a policy document that counts.
func (w *world) decided(t *testing.T, s *policy.Service, condition string, denied, allowed policy.Request) string {
	t.Helper()
	ctx := auth.With(t.Context(), &auth.Principal{Kind: auth.KindUser, ID: "root", Platform: auth.PlatformAdmin})
	v, err := s.AddDocument(ctx, policy.Document{
		Title: "Not so", Rego: "package gpuaas.operations\ndeny contains \"not so many\" if { " + condition + " }",
		Examples: []policy.Example{{Name: "no", Denied: true, Request: denied}, {Name: "yes", Request: allowed}},
	})
	if err == nil {
		_, err = s.ActivateDocument(ctx, v.Name(), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return v.Name()
}

// withDocuments has the service ask policy documents.
func (w *world) withDocuments() *policy.Service {
	s := policy.New(w.db, policy.EvaluateWithin(time.Minute))
	w.service = operation.New(operation.Config{
		DB: w.db, Tasks: w.tasks, Decider: s,
		CheckInputs: func(_ definition.Version, given json.RawMessage) (json.RawMessage, error) {
			if len(given) == 0 {
				given = json.RawMessage("{}")
			}
			return given, nil
		},
	})
	return s
}

func TestAPolicyDocumentRefusesRunsAndIsRecordedWithThem(t *testing.T) {
	w := newWorld(t)
	documents := w.withDocuments()
	ref := w.define(t, "web.prepare")
	nodes := w.nodes(t, 3)
	first := w.decided(t, documents, "input.request.targets > 2", policy.Request{Type: "a.b", Targets: 3},
		policy.Request{Type: "a.b", Targets: 2})
	ask := operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin}
	for name, try := range map[string]func() error{
		"plan":   func() error { _, err := w.service.Plan(w.ctx, ask); return err },
		"submit": func() error { _, err := w.service.Submit(w.ctx, ask); return err },
	} {
		if err := try(); fault.CodeOf(err) != "operation_denied_by_policy" || !strings.Contains(err.Error(), "not so many") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ask.Targets.Nodes = nodes[:2]
	plan, err := w.service.Plan(w.ctx, ask)
	if err != nil || plan.Verdict.Document != first || !strings.Contains(strings.Join(plan.Says(), "\n"), first) {
		t.Fatalf("%+v, %v", plan.Verdict, err)
	}
	o := w.submit(t, ask)
	if len(o.Decisions) != 1 || o.Decisions[0].Document != first || len(o.Decisions[0].Denied) > 0 ||
		o.Decisions[0].Input == "" {
		t.Errorf("decisions: %+v", o.Decisions)
	}
	// The first node has its work; then a document comes that has something against the run.
	second := w.decided(t, documents, "input.request.targets > 1", policy.Request{Type: "a.b", Targets: 2},
		policy.Request{Type: "a.b", Targets: 1})
	o = w.settle(t, o.ID)
	if n := len(o.Decisions); n != 2 || o.Decisions[1].Document != second || len(o.Decisions[1].Denied) != 1 {
		t.Errorf("decisions: %+v", o.Decisions)
	}
	if o.Counts[operation.TargetSucceeded] != 1 || o.Counts[operation.TargetSkipped] != 1 {
		t.Errorf("targets: %v", o.Counts)
	}
	if n := w.count(t, `SELECT count(*) FROM operation_targets WHERE operation_id = $1
		AND error_code = 'operation_denied_by_policy' AND error_class = 'policy'`, o.ID); n != 1 {
		t.Errorf("%d targets say why", n)
	}
}
