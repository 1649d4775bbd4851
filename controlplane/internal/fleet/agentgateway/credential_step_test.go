package agentgateway

import (
	"encoding/json"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// A node that carries out an operation gets the credential that a step to do asks for,
// and no other: not for another run or step, of another type, or for something else.
func TestACredentialIsBoundToTheStepThatAsksForIt(t *testing.T) {
	run := agentwire.OperationRunParams{OperationID: "run-1", Begin: 1, Steps: []agentwire.OperationStep{
		{ID: "done", Kind: agentwire.StepCredentialMint, With: json.RawMessage(
			`{"credential_type":"s3_read","intent":{"bucket":"models"},"values":["key"]}`)},
		{ID: "mint", Kind: agentwire.StepCredentialMint, With: json.RawMessage(
			`{"credential_type":"s3_read","intent":{"bucket":"models","path":"${steps.find.path}","text":"a$${b"},"values":["key"]}`)},
		{ID: "file", Kind: "file.render", With: json.RawMessage(`{"path":"/etc/x"}`)},
	}}
	good := agentwire.MintRequest{
		Attempt: 1, OperationID: "run-1", StepID: "mint", CredentialType: "s3_read",
		Intent: map[string]string{"bucket": "models", "path": "/anything", "text": "a${b"},
	}
	for name, row := range map[string]struct {
		change  func(*agentwire.MintRequest, *agentwire.OperationRunParams)
		allowed bool
	}{
		"as the step says": {func(*agentwire.MintRequest, *agentwire.OperationRunParams) {}, true},
		"without the run":  {func(in *agentwire.MintRequest, _ *agentwire.OperationRunParams) { in.OperationID = "" }, true},
		"another run": {
			func(in *agentwire.MintRequest, _ *agentwire.OperationRunParams) { in.OperationID = "run-2" }, false,
		},
		"no such step": {func(in *agentwire.MintRequest, _ *agentwire.OperationRunParams) { in.StepID = "x" }, false},
		"a step that is done": {
			func(in *agentwire.MintRequest, _ *agentwire.OperationRunParams) {
				in.StepID, in.Intent = "done", map[string]string{"bucket": "models"}
			}, false,
		},
		"a step of another kind": {
			func(in *agentwire.MintRequest, _ *agentwire.OperationRunParams) { in.StepID = "file" }, false,
		},
		"another type": {
			func(in *agentwire.MintRequest, _ *agentwire.OperationRunParams) { in.CredentialType = "hf_token" }, false,
		},
		"another bucket": {
			func(in *agentwire.MintRequest, _ *agentwire.OperationRunParams) { in.Intent["bucket"] = "payroll" }, false,
		},
		"something besides": {
			func(in *agentwire.MintRequest, _ *agentwire.OperationRunParams) { in.Intent["write"] = "yes" }, false,
		},
		"a plan": {func(_ *agentwire.MintRequest, p *agentwire.OperationRunParams) { p.Plan = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in, params := good, run
			in.Intent = map[string]string{}
			for k, v := range good.Intent {
				in.Intent[k] = v
			}
			row.change(&in, &params)
			raw, err := json.Marshal(params)
			if err != nil {
				t.Fatal(err)
			}
			err = boundToStep(agenttask.Task{Type: agentwire.TypeOperationRun, Params: raw}, in)
			if row.allowed && err != nil || !row.allowed && fault.CodeOf(err) != "credential_not_for_step" {
				t.Errorf("%v", err)
			}
		})
	}
	if err := boundToStep(agenttask.Task{Type: agentwire.TypeHWSyncReseed}, good); err != nil {
		t.Errorf("a task that is no operation: %v", err)
	}
}

// A step that fetches something may ask for what reads exactly that, and for nothing else,
// whoever says which step it is.
func TestAttackAStepAsksForWhatItDoesNotFetch(t *testing.T) {
	const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	raw, err := json.Marshal(agentwire.OperationRunParams{OperationID: "run-1", Steps: []agentwire.OperationStep{
		{ID: "file", Kind: agentwire.StepArtifactPullBlob, With: json.RawMessage(`{"url":"https://a.example/w","mirrors":` +
			`["https://b.example/w"],"sha256":"` + sum + `","bytes":1,"path":"/srv/w"}`)},
		{ID: "model", Kind: agentwire.StepArtifactPullOCI, With: json.RawMessage(
			`{"reference":"r.example/team/llm@sha256:` + sum + `","bytes":1,"path":"/srv/m"}`)},
		{ID: "plain", Kind: agentwire.StepArtifactPullOCI, With: json.RawMessage(
			`{"reference":"r.example/team/open@sha256:` + sum + `","plain_http":true,"bytes":1,"path":"/srv/m"}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const digest = "sha256:" + sum
	other := "sha256:" + sum[1:] + "0"
	of := func(name, what, digest string) map[string]string {
		return map[string]string{name: what, "digest": digest}
	}
	pull, source := agentwire.CredentialOCIPull, agentwire.CredentialSourceRead
	for name, row := range map[string]struct {
		step, kind string
		intent     map[string]string
		allowed    bool
	}{
		"the file":               {"file", source, of("source", "https://a.example/w", digest), true},
		"its mirror":             {"file", source, of("source", "https://b.example/w", digest), true},
		"the model":              {"model", pull, of("repository", "r.example/team/llm", digest), true},
		"another file":           {"file", source, of("source", "https://a.example/x", digest), false},
		"another digest":         {"file", source, of("source", "https://a.example/w", other), false},
		"of another step":        {"model", source, of("source", "https://a.example/w", digest), false},
		"another repository":     {"model", pull, of("repository", "r.example/team/payroll", digest), false},
		"another manifest":       {"model", pull, of("repository", "r.example/team/llm", other), false},
		"what comes without TLS": {"plain", pull, of("repository", "r.example/team/open", digest), false},
		"the model as a file": {
			"model", source, of("source", "https://r.example/team/llm@"+digest, digest), true,
		},
		"something besides": {
			"file", source, map[string]string{"source": "https://a.example/w", "digest": digest, "write": "yes"}, false,
		},
		"keys of a store": {"file", agentwire.CredentialS3Read, of("source", "https://a.example/w", digest), false},
		"nothing":         {"file", source, nil, false},
	} {
		err := boundToStep(agenttask.Task{Type: agentwire.TypeOperationRun, Params: raw}, agentwire.MintRequest{
			Attempt: 1, OperationID: "run-1", StepID: row.step, CredentialType: row.kind, Intent: row.intent,
		})
		if row.allowed && err != nil || !row.allowed && fault.CodeOf(err) != "credential_not_for_step" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
