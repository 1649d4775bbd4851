package selfcheck

import (
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// The steps of a check, in order. The first one is over when the workflow of the check begins.
const (
	StepWorkflow = "workflow"
	StepDatabase = "database"
	StepEvents   = "events"
	StepSecrets  = "secrets"
)

var steps = []string{StepDatabase, StepEvents, StepSecrets}

// parts says which components a step went through, and what they did.
var parts = map[string]struct{ components, did string }{
	StepWorkflow: {"outbox, Temporal, worker", "the outbox handed the request to Temporal, and a worker took it up"},
	StepDatabase: {"PostgreSQL", "the worker wrote to the database"},
	StepEvents:   {"outbox, relay, NATS", "the event of this check was delivered to NATS"},
	StepSecrets:  {"OpenBao", "a secret was stored, read back and deleted"},
}

// Step is the outcome of one step.
type Step struct {
	Name       string `json:"name" enum:"workflow,database,events,secrets"`
	Components string `json:"components,omitempty" doc:"What the step went through." example:"outbox, relay, NATS"`
	OK         bool   `json:"ok"`
	Code       string `json:"code,omitempty" doc:"stable code of what is wrong"`
	Message    string `json:"message,omitempty" doc:"What was done, or what is wrong."`
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
	BegunAt     *time.Time // when a worker took it up
	FinishedAt  *time.Time
}

// WorkflowID returns the id of the workflow that carries out a check.
func WorkflowID(check id.SelfCheck) string { return "self-check-" + check.String() }

// handedOver is the step that was over when the check began.
func (c Check) handedOver() []Step {
	if c.BegunAt == nil {
		return nil
	}
	return []Step{{Name: StepWorkflow, OK: true, DurationMs: c.BegunAt.Sub(c.CreatedAt).Milliseconds()}}
}

// shown is a step with the components that it went through.
func (s Step) shown() Step {
	part := parts[s.Name]
	s.Components = part.components
	if s.OK && s.Message == "" {
		s.Message = part.did
	}
	return s
}

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
