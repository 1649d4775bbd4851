package operation

import (
	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
)

// mostArtifacts is how many artifacts of one step are kept.
const mostArtifacts = 500

// Artifact is something that a step left on a node, or found there.
type Artifact struct {
	Target         id.OperationTarget
	Node           id.Node
	Hostname       string
	Position       int32
	Attempt, Index int32
	Seq            int32
	Step           string
	Kind, Role     string
	Name           string
	Digest         string
	Before, After  string
	Bytes          int64
}

// artifactRow is a row of operation_artifacts.
type artifactRow struct {
	TargetID  id.OperationTarget `json:"target_id"`
	Attempt   int32              `json:"attempt_number"`
	StepIndex int32              `json:"step_index"`
	Seq       int                `json:"seq"`
	StepID    string             `json:"step_id"`
	Kind      string             `json:"kind"`
	Role      string             `json:"role"`
	Name      string             `json:"name"`
	Digest    string             `json:"digest"`
	Before    string             `json:"before"`
	After     string             `json:"after"`
	Bytes     int64              `json:"bytes"`
}

// artifactsOf are what the outputs of steps say about artifacts. A plan has none, and
// what a node says is bounded.
func artifactsOf(steps []stepRow) []artifactRow {
	out := []artifactRow{}
	for _, s := range steps {
		kind, known := agentwire.LookupStep(s.StepKind)
		if !known || s.Status == agentwire.StepPlanned {
			continue
		}
		all := kind.Artifacts(s.Output)
		for i, a := range all[:min(len(all), mostArtifacts)] {
			out = append(out, artifactRow{
				TargetID: s.TargetID, Attempt: s.Attempt, StepIndex: s.StepIndex, Seq: i + 1, StepID: s.StepID, Kind: a.Kind,
				Role: a.Role, Name: clean(a.Name, 1000), Digest: clean(a.Digest, 200), Before: clean(a.Before, 200),
				After: clean(a.After, 200), Bytes: max(a.Bytes, 0),
			})
		}
	}
	return out
}
