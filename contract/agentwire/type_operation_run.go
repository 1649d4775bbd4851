package agentwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// TypeOperationRun carries out the steps of an operation.
const TypeOperationRun = "operation.run"

var _ = declare[OperationRunParams, OperationRunOutput](Spec{
	Type: TypeOperationRun, Title: "carry out the steps of an operation",
	Class: ClassExclusive, Window: 24 * time.Hour, Patience: time.Hour, Attempts: 3,
	Reserved:    "run an operation with: gpuaas operation run TYPE --target NODE",
	Credentials: []string{CredentialOCIPull, CredentialSourceRead},
	Sound: []string{
		`{"operation_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","target_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3d",` +
			`"definition":"web.prepare@v1","digest":"sha256:` +
			`e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","begin":0,"steps":[` +
			`{"id":"look","kind":"health.check","with":{"probes":[{"kind":"file","path":"/etc/os-release"}]},` +
			`"timeout_seconds":30,"attempts":1,"on_failure":"stop"}]}`,
	},
	Answer: `{"steps":[]}`,
})

// OperationRunParams are the steps of an operation for one target.
type OperationRunParams struct {
	OperationID  string `json:"operation_id"`
	TargetID     string `json:"target_id"`
	Definition   string `json:"definition"` // type@version
	Digest       string `json:"digest"`     // of the definition
	AllocationID string `json:"allocation_id,omitempty"`
	// Plan says that the node only looks: each step says what it would change.
	Plan bool `json:"plan,omitempty"`
	// Begin is the index of the first step to do.
	Begin int             `json:"begin"`
	Steps []OperationStep `json:"steps"`
	// Earlier holds outputs of steps before Begin that later ones refer to.
	Earlier map[string]json.RawMessage `json:"earlier,omitempty"`
	// TimeoutSeconds limits all steps together. Zero: only each step is limited.
	TimeoutSeconds int    `json:"timeout_seconds,omitempty"`
	TraceParent    string `json:"traceparent,omitempty"`
}

var definitionForm = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){0,7}@v[1-9][0-9]{0,5}$`)

// Validate implements Params.
func (p OperationRunParams) Validate() error {
	switch {
	case !uuidForm.MatchString(p.OperationID) || !uuidForm.MatchString(p.TargetID):
		return errors.New("operation_id and target_id must be UUIDs")
	case p.AllocationID != "" && !uuidForm.MatchString(p.AllocationID):
		return errors.New("allocation_id is not a UUID")
	case len(p.Definition) > 200 || !definitionForm.MatchString(p.Definition):
		return fmt.Errorf("%q is not a definition with its version, such as web.prepare@v1", clip(p.Definition))
	case !digestForm.MatchString(p.Digest):
		return errors.New("digest is not the SHA-256 of the definition")
	case len(p.Steps) == 0 || len(p.Steps) > MaxOperationSteps:
		return fmt.Errorf("there must be between 1 and %d steps", MaxOperationSteps)
	case p.Begin < 0 || p.Begin >= len(p.Steps):
		return errors.New("begin must be the index of a step")
	case p.TimeoutSeconds < 0 || p.TimeoutSeconds > 24*60*60:
		return errors.New("timeout_seconds must be between 0 and 86400")
	}
	known := map[string]StepKind{}
	for i, s := range p.Steps {
		if _, twice := known[s.ID]; twice {
			return fmt.Errorf("steps.%d: there is another step %q", i, s.ID)
		}
		if err := s.validate(known); err != nil {
			return fmt.Errorf("steps.%d: %w", i, err)
		}
		known[s.ID], _ = LookupStep(s.Kind)
	}
	return p.validateEarlier()
}

func (p OperationRunParams) validateEarlier() error {
	kinds := map[string]string{}
	for _, s := range p.Steps[:p.Begin] {
		kinds[s.ID] = s.Kind
	}
	for id, raw := range p.Earlier {
		kind, known := LookupStep(kinds[id])
		if !known {
			return fmt.Errorf("earlier.%s: there is no step of this id before the first one", clip(id))
		}
		if _, err := kind.Output(raw); err != nil || len(raw) > MaxStepOutput {
			return fmt.Errorf("earlier.%s is not an output of %s: %w", id, kind.Kind, err)
		}
	}
	return nil
}

// TaskClass implements Classed. What only looks is safe beside anything.
func (p OperationRunParams) TaskClass() Class {
	if p.Plan || !impact(p.Steps[p.Begin:]).Changes() {
		return ClassConcurrent
	}
	return ClassExclusive
}

// GivesRoot implements RootGiver. Steps run as root with values that the tenant chose:
// a file or a package is as good as a shell. The platform's own runs have no allocation.
func (p OperationRunParams) GivesRoot() bool {
	if p.AllocationID == "" || p.Plan {
		return false
	}
	return p.Begin < 0 || p.Begin > len(p.Steps) || impact(p.Steps[p.Begin:]).Changes()
}

// OperationRunOutput says what became of each step.
type OperationRunOutput struct {
	Steps []StepOutcome `json:"steps"`
}
