package job

import (
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
)

// Working is a job that has not ended, as others see it.
type Working struct {
	Kind     string // onboarding or decommission
	ID       string
	Node     id.Node // the id that the node has, or will have
	SystemID string  // of MAAS; empty: not known yet, or there is none
	Hostname string
	Parked   bool   // it waits for an operator, or for proof that its goal was reached
	Goal     string // a few words
}

// String names it as holders of nodes are named.
func (w Working) String() string { return w.Kind + " " + w.ID }

// Parked says whether a job in that status waits for somebody.
func Parked(s durable.JobStatus) bool {
	return s == durable.JobFailedRetryable || s == durable.JobFailedManualIntervention
}

// Proof is what shows that the goal of a parked job was reached.
type Proof struct {
	Said    string         // for people
	Details map[string]any // never a secret
}
