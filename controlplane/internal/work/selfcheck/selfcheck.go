package selfcheck

import (
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// The steps of a check, in order.
const (
	StepDatabase = "database"
	StepEvents   = "events"
	StepSecrets  = "secrets"
)

var steps = []string{StepDatabase, StepEvents, StepSecrets}

// Step is the outcome of one step.
type Step struct {
	Name       string `json:"name" enum:"database,events,secrets"`
	OK         bool   `json:"ok"`
	Code       string `json:"code,omitempty" doc:"stable code of what is wrong"`
	Message    string `json:"message,omitempty"`
	Remedy     string `json:"remedy,omitempty"`
	DurationMs int64  `json:"duration_ms"`
}

// Check is one self-check.
type Check struct {
	ID          id.SelfCheck
	Status      Status
	RequestedBy string
	Correlation string
	Steps       []Step
	WaitingFor  string // the step it is at; empty before and after
	CreatedAt   time.Time
	FinishedAt  *time.Time
}

// WorkflowID returns the id of the workflow that carries out a check.
func WorkflowID(check id.SelfCheck) string { return "self-check-" + check.String() }

// outcome returns the event that ends a check with these steps.
func outcome(done []Step, cancelled bool) Event {
	if cancelled {
		return Cancel
	}
	for _, s := range done {
		if !s.OK {
			return Fail
		}
	}
	return Pass
}
