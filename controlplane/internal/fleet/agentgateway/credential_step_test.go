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
