package operation_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation"
	"gpuaas/controlplane/internal/operate/policy"
)

// fetches makes a definition of one that fetches a file from where its inputs say.
func fetches(d *definition.Definition) {
	d.Inputs = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["url"],` +
		`"properties":{"url":{"type":"string","maxLength":400}}}`)
	d.Steps = []definition.Step{{
		ID: "one", Kind: "artifact.pull_blob", TimeoutSeconds: 30, OnFailure: definition.Stop,
		With: json.RawMessage(`{"url":"${inputs.url}","bytes":7,"path":"/srv/a","sha256":"` + strings.Repeat("0", 64) + `"}`),
	}}
}

// Nothing is fetched from where no policy allows it: not at the plan, not at the request,
// and not on a node that waited while the policy changed.
func TestAttackAFileIsFetchedFromWhereAPolicyAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "model.stage", fetches)
	nodes := []id.Node{w.node(t, "n1", "artifact.pull_blob"), w.node(t, "n2", "artifact.pull_blob")}
	ask := operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
		Inputs: json.RawMessage(`{"url":"https://models.example/a"}`), Limits: operation.Limits{MaxConcurrency: 1},
	}
	tries := func(code string) {
		t.Helper()
		_, err := w.service.Plan(w.ctx, ask)
		wantCode(t, "plan", err, code)
		_, err = w.service.Submit(w.ctx, ask)
		wantCode(t, "submit", err, code)
	}
	allow := func(sources ...string) {
		t.Helper()
		w.exec(t, `DELETE FROM operation_policy_overrides`)
		w.exec(t, `INSERT INTO operation_policy_overrides (operation_type, scope, allowed_artifact_sources, updated_by)
			VALUES ('*', 'global', $1, 'test')`, sources)
	}
	tries("operation_denied_by_policy")
	allow("https://other.example/")
	tries("operation_denied_by_policy")
	allow("https://models.example/")
	o := w.submit(t, ask)
	allow("https://other.example/")
	o = w.settle(t, o.ID)
	if o.Counts[operation.TargetSucceeded] != 1 || o.Counts[operation.TargetSkipped] != 1 {
		t.Errorf("targets: %v", o.Counts)
	}
	if n := w.count(t, `SELECT count(*) FROM operation_targets WHERE operation_id = $1
		AND error_code = 'operation_denied_by_policy'`, o.ID); n != 1 {
		t.Errorf("%d targets say why", n)
	}
}

// A definition that names its repositories needs no policy, and lets its inputs choose
// within.
func TestAFileIsFetchedFromTheRepositoriesOfTheDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "model.stage", fetches, func(d *definition.Definition) {
		d.Artifacts = &definition.Artifacts{Repositories: []string{"models.example/team"}}
	})
	ask := operation.Ask{
		Ref: ref, Trigger: operation.ByAdmin,
		Targets: operation.Selector{Nodes: []id.Node{w.node(t, "n1", "artifact.pull_blob")}},
		Inputs:  json.RawMessage(`{"url":"https://models.example/team/a"}`),
	}
	if o := w.settle(t, w.submit(t, ask).ID); o.Counts[operation.TargetSucceeded] != 1 {
		t.Errorf("targets: %v", o.Counts)
	}
	ask.Inputs = json.RawMessage(`{"url":"https://models.example/other/a"}`)
	_, err := w.service.Submit(w.ctx, ask)
	wantCode(t, "elsewhere", err, "operation_source_outside")
}

// registered says what is known of artifacts in a test.
type registered struct {
	signed  policy.Scope
	revoked string
	asked   []policy.Owner
}

func (r *registered) Signed(_ context.Context, _ pgx.Tx, of policy.Owner, what []agentwire.Fetch) (
	[]policy.Scope, error,
) {
	r.asked = append(r.asked, of)
	out := make([]policy.Scope, len(what))
	for i, f := range what {
		if f.Digest == r.revoked {
			return nil, fault.New(fault.Forbidden, "artifact_revoked", "it was revoked")
		}
		out[i] = r.signed
	}
	return out, nil
}

// Where signatures are demanded, by a policy or a definition, nothing is fetched without
// one, and what was revoked is never fetched: not at the plan, not at the request, and not
// on a node that waited meanwhile.
func TestAttackAnUnsignedArtifactIsNotFetched(t *testing.T) {
	t.Parallel()
	const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	w := newWorld(t)
	known := &registered{signed: policy.Global}
	w.service = w.serviceWith(known)
	pulls := func(d *definition.Definition) {
		fetches(d)
		d.Steps[0].Kind = "artifact.pull_oci"
		d.Steps[0].With = json.RawMessage(`{"reference":"${inputs.url}","bytes":7,"path":"/srv/a"}`)
		d.Artifacts = &definition.Artifacts{Repositories: []string{"registry.example/team"}}
	}
	lax := w.define(t, "model.stage", pulls)
	strict := w.define(t, "model.stage_signed", pulls, func(d *definition.Definition) {
		d.Artifacts.SignatureRequired = true
	})
	nodes := []id.Node{w.node(t, "n1", "artifact.pull_oci"), w.node(t, "n2", "artifact.pull_oci")}
	ask := func(ref definition.Ref) operation.Ask {
		return operation.Ask{
			Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
			Inputs: json.RawMessage(`{"url":"registry.example/team/llm@` + digest + `"}`),
			Limits: operation.Limits{MaxConcurrency: 1},
		}
	}
	tries := func(ref definition.Ref, code string) {
		t.Helper()
		_, err := w.service.Plan(w.ctx, ask(ref))
		wantCode(t, "plan", err, code)
		_, err = w.service.Submit(w.ctx, ask(ref))
		wantCode(t, "submit", err, code)
	}
	known.signed = ""
	tries(strict, "operation_artifact_unsigned")
	w.exec(t, `INSERT INTO operation_policy_overrides (operation_type, scope, require_signature_verification, updated_by)
		VALUES ('*', 'global', true, 'test')`)
	tries(lax, "operation_denied_by_policy")
	// The platform's demand is not met by a key that the tenant trusts itself.
	known.signed = policy.Tenant
	tries(strict, "operation_artifact_unsigned")
	tries(lax, "operation_denied_by_policy")
	known.signed, known.revoked = policy.Global, digest
	tries(lax, "artifact_revoked")

	known.revoked = ""
	o := w.submit(t, ask(strict))
	known.revoked = digest
	o = w.settle(t, o.ID)
	if o.Counts[operation.TargetSucceeded] != 1 || o.Counts[operation.TargetSkipped] != 1 {
		t.Errorf("targets: %v", o.Counts)
	}
	if n := w.count(t, `SELECT count(*) FROM operation_targets WHERE operation_id = $1
		AND error_code = 'artifact_revoked'`, o.ID); n != 1 {
		t.Errorf("%d targets say why", n)
	}
	for _, of := range known.asked {
		if of != (policy.Owner{}) {
			t.Errorf("it was asked on behalf of %v", of)
		}
	}
}
