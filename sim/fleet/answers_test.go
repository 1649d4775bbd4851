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
	for _, spec := range agentwire.Catalog() {
		for _, raw := range spec.Sound {
			params, err := spec.Decode(json.RawMessage(raw))
			if err != nil {
				t.Fatal(err)
			}
			answer, failure := (&Agent{}).result(agentwire.Verified{Spec: spec, Params: params})
			if failure != nil || strings.Contains(string(answer), "null") {
				t.Fatalf("%s: %s, %+v", spec.Type, answer, failure)
			}
			output, err := spec.DecodeOutput(answer)
			if err != nil {
				t.Fatalf("%s: %s: %v", spec.Type, answer, err)
			}
			if !well(params, output) {
				t.Errorf("%s %s is answered by %s", spec.Type, raw, answer)
			}
		}
	}
}

func well(params agentwire.Params, output any) bool {
	switch o := output.(type) {
	case *agentwire.ValidateCleanOutput:
		return o.Clean && len(o.Checked) == len(kinds)
	case *agentwire.StorageCleanupOutput:
		p, _ := params.(*agentwire.StorageCleanupParams)
		devices := 0
		if p.Disks != "" {
			devices = 1
		}
		return len(o.Folders) == 3+len(p.Scratch) && len(o.Devices) == devices &&
			(devices == 0 || o.Devices[0].Verified && o.Devices[0].Level == agentwire.LevelPurge)
	case *agentwire.DrainOutput:
		p, _ := params.(*agentwire.DrainParams)
		return o.Draining != p.Resume
	case *agentwire.UninstallOutput:
		return len(o.Removed) == 1 && len(o.Residue) == 0
	case *agentwire.GPUScrubOutput:
		return o.Outcome == "scrubbed" && len(o.GPUs) == 8
	}
	return true
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
