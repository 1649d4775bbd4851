package agentwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// OperationStep is one step of an operation as a node is told to do it.
type OperationStep struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// With are the parameters of the kind. References to earlier steps are
	// filled in by the node.
	With           json.RawMessage `json:"with"`
	TimeoutSeconds int             `json:"timeout_seconds"` // of one attempt
	Attempts       int             `json:"attempts"`
	RetryClasses   []string        `json:"retry_classes,omitempty"` // of failures after which it is tried again; none: transient
	BackoffSeconds int             `json:"backoff_seconds,omitempty"`
	OnFailure      string          `json:"on_failure"` // stop or continue
	// Repeat says that a step that succeeded is done again when the run is taken
	// up later.
	Repeat bool `json:"repeat,omitempty"`
}

// What happens after a step has failed.
const (
	OnFailureStop     = "stop"
	OnFailureContinue = "continue"
)

// Classes of failures.
const (
	FailureTransient  = "transient"  // the same again may succeed
	FailurePermanent  = "permanent"  // the same again fails
	FailureAmbiguous  = "ambiguous"  // nobody knows whether it was done: look, do not repeat
	FailurePolicy     = "policy"     // it is not allowed
	FailureCapability = "capability" // this node cannot do it
	FailureCancelled  = "cancelled"  // somebody stopped it
)

// FailureClasses lists the classes.
var FailureClasses = []string{
	FailureTransient, FailurePermanent, FailureAmbiguous, FailurePolicy, FailureCapability, FailureCancelled,
}

// Statuses of a step after a run.
const (
	StepSucceeded  = "succeeded"
	StepFailed     = "failed"
	StepCancelled  = "cancelled"
	StepNotReached = "not_reached"
	StepPlanned    = "planned" // a plan looked at it
)

// StepStatuses lists the statuses.
var StepStatuses = []string{StepSucceeded, StepFailed, StepCancelled, StepNotReached, StepPlanned}

// Limits of an operation on a node.
const (
	MaxOperationSteps = 64
	MaxStepOutput     = 32 << 10
	// MaxStepOutputs is what all outputs of a task have together. Of those
	// beyond, only the verdict is reported.
	MaxStepOutputs = 320 << 10
	MaxStepAttempt = 10
	MaxStepTimeout = 12 * 60 * 60
	MaxBackoff     = 60 * 60
)

// StepOutcome is what became of one step.
type StepOutcome struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Status string `json:"status"` // succeeded, failed, cancelled, not_reached, planned
	// Changed says that the step changed the node, or of a plan that it would.
	Changed bool `json:"changed,omitempty"`
	// Summary is one sentence for people. Of a plan it says what would change.
	Summary string          `json:"summary,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"` // typed by kind
	// OutputDropped says that the output was too large to be reported.
	OutputDropped bool       `json:"output_dropped,omitempty"`
	Error         *StepError `json:"error,omitempty"`
	Attempts      int        `json:"attempts,omitempty"`
	// ResolvedProfile is the command profile that an abstract step became, and
	// HardwareMatch the rule of the resolver that chose it.
	ResolvedProfile string    `json:"resolved_profile,omitempty"`
	HardwareMatch   string    `json:"hardware_match,omitempty"`
	StartedAt       time.Time `json:"started_at,omitzero"`
	FinishedAt      time.Time `json:"finished_at,omitzero"`
	LogLines        int64     `json:"log_lines,omitempty"`
	LogBytesDropped int64     `json:"log_bytes_dropped,omitempty"`
}

// StepError says why a step failed.
type StepError struct {
	Code    string `json:"code"`
	Class   string `json:"class"` // one of FailureClasses
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

var stepID = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// StepIDForm is what the id of a step looks like.
const StepIDForm = "a lower-case letter, then at most 63 lower-case letters, digits, - and _"

// ValidStepID says whether a text can be the id of a step.
func ValidStepID(s string) bool { return stepID.MatchString(s) }

// validate checks a step. known are the kinds of the steps before it, by id.
func (s OperationStep) validate(known map[string]StepKind) error {
	kind, ok := LookupStep(s.Kind)
	switch {
	case !ValidStepID(s.ID):
		return fmt.Errorf("%q cannot be the id of a step: %s", clip(s.ID), StepIDForm)
	case !ok:
		return fmt.Errorf("there is no kind of step %q", clip(s.Kind))
	case s.TimeoutSeconds < 1 || s.TimeoutSeconds > MaxStepTimeout:
		return fmt.Errorf("timeout_seconds must be between 1 and %d", MaxStepTimeout)
	case s.Attempts < 1 || s.Attempts > MaxStepAttempt:
		return fmt.Errorf("attempts must be between 1 and %d", MaxStepAttempt)
	case s.BackoffSeconds < 0 || s.BackoffSeconds > MaxBackoff:
		return fmt.Errorf("backoff_seconds must be between 0 and %d", MaxBackoff)
	case s.OnFailure != OnFailureStop && s.OnFailure != OnFailureContinue:
		return errors.New("on_failure must be stop or continue")
	}
	for _, class := range s.RetryClasses {
		if class != FailureTransient {
			return fmt.Errorf("retry_classes: a failure of the class %q is not tried again on the node; transient is",
				clip(class))
		}
	}
	_, placed, err := kind.Decode(s.With)
	if err != nil {
		return err
	}
	return s.references(placed, known)
}

func (s OperationStep) references(placed []Placed, known map[string]StepKind) error {
	for _, r := range placed {
		if r.Root != RootSteps {
			return fmt.Errorf("%s: %s was not filled in", r.Path, r.Reference)
		}
		earlier, is := known[r.Reference.Path[0]]
		if !is {
			return fmt.Errorf("%s: %s refers to a step that does not come before this one", r.Path, r.Reference)
		}
		gives, is := earlier.OutputField(r.Reference.Path[1:])
		if !is {
			return fmt.Errorf("%s: %s: the output of %s has no such field", r.Path, r.Reference, earlier.Kind)
		}
		if (gives == "secret") != (r.Wants == "secret") {
			return fmt.Errorf("%s: %s: a secret is accepted only by fields for secrets, and these accept nothing else",
				r.Path, r.Reference)
		}
	}
	return nil
}

// impact is the greatest of all steps.
func impact(steps []OperationStep) Impact {
	order := []Impact{ImpactNone, ImpactRead, ImpactMutate, ImpactDisrupt}
	most := 0
	for _, s := range steps {
		kind, _ := LookupStep(s.Kind)
		most = max(most, slices.Index(order, kind.Impact))
	}
	return order[most]
}
