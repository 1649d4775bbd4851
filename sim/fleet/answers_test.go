package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// The answers of simulated agents have the type of the output, and are those of
// a machine where all went well.
func TestAnswersAreOutputsOfTheirTypes(t *testing.T) {
	for kind, raw := range map[string]string{
		agentwire.TypeHeartbeatCheck: `{}`, agentwire.TypeDrain: `{"reason":"r"}`, agentwire.TypeUninstall: `{}`,
		agentwire.TypeGPUScrub: `{}`, agentwire.TypeValidateClean: `{}`,
		agentwire.TypeStorageCleanup: `{"scope":"all","disks":"sanitize","minimum_level":"purge","scratch":["/scratch/x"]}`,
		agentwire.TypeHealthProbe:    `{}`,
	} {
		spec, _ := agentwire.Lookup(kind)
		params, err := spec.Decode(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		answer, failure := (&Agent{}).result(agentwire.Verified{Spec: spec, Params: params})
		if failure != nil || strings.Contains(string(answer), "null") {
			t.Fatalf("%s: %s, %+v", kind, answer, failure)
		}
		output, err := spec.DecodeOutput(answer)
		if err != nil {
			t.Fatalf("%s: %s: %v", kind, answer, err)
		}
		switch o := output.(type) {
		case *agentwire.ValidateCleanOutput:
			if !o.Clean || len(o.Checked) != len(kinds) {
				t.Errorf("%+v", o)
			}
		case *agentwire.StorageCleanupOutput:
			if len(o.Folders) != 4 || len(o.Devices) != 1 || !o.Devices[0].Verified ||
				o.Devices[0].Level != agentwire.LevelPurge {
				t.Errorf("%+v", o)
			}
		case *agentwire.DrainOutput:
			if !o.Draining {
				t.Errorf("%+v", o)
			}
		}
	}
}

func TestAnswersCanBeOthers(t *testing.T) {
	spec, _ := agentwire.Lookup(agentwire.TypeValidateClean)
	v := agentwire.Verified{Spec: spec, Params: &agentwire.ValidateCleanParams{}}
	a := &Agent{NodeID: "n"}
	a.opts.Answer = func(node string, _ agentwire.Verified) (any, *agentwire.TaskError) {
		return agentwire.ValidateCleanOutput{Findings: []agentwire.CleanFinding{{Kind: "users", Subject: node}}}, nil
	}
	if raw, failure := a.result(v); failure != nil || !strings.Contains(string(raw), `"clean":false`) ||
		!strings.Contains(string(raw), `"subject":"n"`) {
		t.Errorf("%s, %+v", raw, failure)
	}
	a.opts.Answer = func(string, agentwire.Verified) (any, *agentwire.TaskError) {
		return nil, &agentwire.TaskError{Code: "broken"}
	}
	if _, failure := a.result(v); failure == nil || failure.Code != "broken" {
		t.Errorf("%+v", failure)
	}
}
