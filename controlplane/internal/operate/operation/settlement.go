package operation

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/definition"
)

// settlement is what the end of a task means for its target.
type settlement struct {
	target  Target
	status  TargetStatus
	index   int32 // of the step that a resume begins with
	changed bool
	trouble Trouble
	steps   []stepRow
	// next says that the target is given another task at once.
	next followUp
}

// followUp is another task for a target.
type followUp string

// The further tasks of a target.
const (
	noFollowUp followUp = ""
	probe      followUp = "probe" // look what is there
	goOn       followUp = "go_on" // do the rest
)

// last is the step that says how far a target came: the last one that was reached.
func (s settlement) last() int {
	at := 0
	for i, step := range s.steps {
		if step.Status != agentwire.StepNotReached {
			at = i
		}
	}
	return at
}

// stepRow is a row of operation_steps.
type stepRow struct {
	TargetID        id.OperationTarget `json:"target_id"`
	Attempt         int32              `json:"attempt_number"`
	StepIndex       int32              `json:"step_index"`
	StepID          string             `json:"step_id"`
	StepKind        string             `json:"step_kind"`
	Status          string             `json:"status"`
	Changed         bool               `json:"changed"`
	Summary         string             `json:"summary"`
	Output          json.RawMessage    `json:"output,omitempty"`
	ErrorCode       string             `json:"error_code"`
	ErrorClass      string             `json:"error_class"`
	ErrorMessage    string             `json:"error_message"`
	ErrorRemedy     string             `json:"error_remedy"`
	Tries           int                `json:"tries"`
	ResolvedProfile string             `json:"resolved_profile"`
	HardwareMatch   string             `json:"hardware_match"`
	LogLines        int64              `json:"log_lines"`
	LogBytesDropped int64              `json:"log_bytes_dropped"`
	StartedAt       *time.Time         `json:"started_at,omitempty"`
	FinishedAt      *time.Time         `json:"finished_at,omitempty"`
	DurationMs      int64              `json:"duration_ms"`
}

// settle says what the end of a task means for its target. It decides nothing about
// the run as a whole.
func settle(o Operation, d definition.Definition, t Target, task agenttask.Task) settlement {
	s := settlement{target: t, status: TargetFailed, index: t.StepIndex}
	outcomes, err := outcomesOf(d, task)
	if err != nil {
		s.trouble = Trouble{
			Code: "operation_report_invalid", Class: agentwire.FailurePermanent,
			Remedy:  "compare the versions of agent and control plane",
			Message: "the node's report does not fit the steps: " + err.Error(),
		}
		return s
	}
	if t.Probing {
		return s.probed(d, task, outcomes)
	}
	s.keep(d, outcomes)
	switch task.Status {
	case agenttask.Succeeded:
		s.judge(o, d, outcomes)
	case agenttask.Cancelled:
		s.judge(o, d, outcomes) // says at which step it stopped
		s.status = TargetCanceled
		s.canceled(task, outcomes)
	case agenttask.Expired:
		s.silent(o, task)
	case agenttask.Failed, agenttask.Queued, agenttask.Dispatched:
		s.trouble = Trouble{
			Code: task.Error.Code, Class: agentwire.FailurePermanent, Message: task.Error.Message, Remedy: task.Error.Remedy,
		}
		s.wordless(o, task, outcomes)
	}
	return s
}

// wordless judges a task that failed. If its node had begun and says nothing of the
// steps, some may be done: it is asked to look, as after silence.
func (s *settlement) wordless(o Operation, task agenttask.Task, outcomes []agentwire.StepOutcome) {
	if len(outcomes) > 0 || task.Attempt == 0 || task.Attempt == 1 && agentwire.NotBegun(task.Error.Code) {
		return
	}
	s.trouble.Class = agentwire.FailureAmbiguous
	if !o.OnlyPlan && s.target.mayLook() {
		s.next = probe
	}
}

// mostLooks is how often the node of a target is asked what is there until somebody
// resumes it. One that answers and lets every attempt expire would be asked for ever.
const mostLooks = 3

func (t Target) mayLook() bool { return t.Looks < mostLooks }

// outcomesOf reads what a node reports of its steps, and refuses what is not of the
// definition.
func outcomesOf(d definition.Definition, task agenttask.Task) ([]agentwire.StepOutcome, error) {
	if len(task.Output) == 0 {
		return nil, nil
	}
	var out agentwire.OperationRunOutput
	if err := json.Unmarshal(task.Output, &out); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	for i, o := range out.Steps {
		if indexOf(d, o.ID) < 0 {
			return nil, fmt.Errorf("there is no step %q", o.ID)
		}
		if !slices.Contains(agentwire.StepStatuses, o.Status) {
			return nil, fmt.Errorf("step %s is %q, which no step can be", o.ID, clean(o.Status, 100))
		}
		out.Steps[i] = bounded(o)
	}
	return out.Steps, nil
}

// bounded keeps numbers and times of a report within what a row can hold: a node may
// say anything.
func bounded(o agentwire.StepOutcome) agentwire.StepOutcome {
	o.Attempts = min(max(o.Attempts, 0), math.MaxInt32)
	o.LogLines, o.LogBytesDropped = max(o.LogLines, 0), max(o.LogBytesDropped, 0)
	for _, at := range []*time.Time{&o.StartedAt, &o.FinishedAt} {
		if at.Year() < 2000 || at.Year() > 9999 {
			*at = time.Time{}
		}
	}
	return o
}

func indexOf(d definition.Definition, step string) int32 {
	for i, s := range d.Steps {
		if s.ID == step {
			return int32(i)
		}
	}
	return -1
}

// keep makes rows of outcomes. What was not reached has none: a later attempt reaches it.
func (s *settlement) keep(d definition.Definition, outcomes []agentwire.StepOutcome) {
	for _, o := range outcomes {
		if o.Status == agentwire.StepNotReached {
			continue
		}
		row := stepRow{
			TargetID: s.target.ID, Attempt: s.target.Attempt, StepIndex: indexOf(d, o.ID), StepID: o.ID,
			StepKind: d.Steps[indexOf(d, o.ID)].Kind, Status: o.Status, Changed: o.Changed, Summary: clean(o.Summary, 4000),
			Output: o.Output, Tries: o.Attempts, ResolvedProfile: clean(o.ResolvedProfile, 200),
			HardwareMatch: clean(o.HardwareMatch, 500), LogLines: o.LogLines, LogBytesDropped: o.LogBytesDropped,
		}
		if o.Status == agentwire.StepCancelled {
			row.Status = string(TargetCanceled)
		}
		if o.Error != nil {
			row.ErrorCode, row.ErrorClass = clean(o.Error.Code, 100), clean(o.Error.Class, 50)
			row.ErrorMessage, row.ErrorRemedy = clean(o.Error.Message, 4000), clean(o.Error.Remedy, 1000)
		}
		if !o.StartedAt.IsZero() {
			row.StartedAt = &o.StartedAt
		}
		if !o.FinishedAt.IsZero() {
			row.FinishedAt = &o.FinishedAt
			if row.StartedAt != nil {
				row.DurationMs = max(0, o.FinishedAt.Sub(o.StartedAt).Milliseconds())
			}
		}
		s.steps = append(s.steps, row)
		s.changed = s.changed || o.Changed && o.Status != agentwire.StepPlanned
	}
}

// judge says what the outcomes of the steps mean together. A step that may fail does
// not count against its target.
func (s *settlement) judge(o Operation, d definition.Definition, outcomes []agentwire.StepOutcome) {
	done := s.target.StepIndex
	for _, out := range outcomes {
		at := indexOf(d, out.ID)
		allowed := out.Status == agentwire.StepFailed && d.Steps[at].OnFailure == definition.Continue
		switch {
		case out.Status == agentwire.StepSucceeded || out.Status == agentwire.StepPlanned || allowed:
			done = max(done, at+1)
			continue
		case out.Status == agentwire.StepCancelled:
			s.status = TargetCanceled
		default:
		}
		// A step that is done again by every resume may fail before the one where the
		// target stands.
		s.index = max(at, s.target.StepIndex)
		s.trouble = Trouble{
			Code: "step_" + out.Status, Class: agentwire.FailurePermanent,
			Message: fmt.Sprintf("step %s: %s", out.ID, clean(out.Summary, 3000)),
		}
		if out.Error != nil {
			s.trouble = Trouble{
				Code: clean(out.Error.Code, 100), Class: clean(out.Error.Class, 50), Remedy: clean(out.Error.Remedy, 1000),
				Message: fmt.Sprintf("step %s: %s", out.ID, clean(out.Error.Message, 3900)),
			}
		}
		return
	}
	if done < o.TotalSteps {
		s.index = done
		s.trouble = Trouble{
			Code: "operation_report_incomplete", Class: agentwire.FailureAmbiguous,
			Message: fmt.Sprintf("the node says nothing of step %s", d.Steps[done].ID),
			Remedy:  "resume it: it goes on at that step",
		}
		return
	}
	s.status, s.index, s.trouble = TargetSucceeded, o.TotalSteps, Trouble{}
}

// canceled says how a task ended that was to stop, or that became void. If its node did
// not say how far it came, nobody knows.
func (s *settlement) canceled(task agenttask.Task, outcomes []agentwire.StepOutcome) {
	s.trouble = Trouble{Code: "operation_canceled", Class: agentwire.FailureCancelled, Message: task.Error.Message}
	switch {
	case task.Error.Code == agenttask.CodeSuperseded:
		s.status = TargetFailed
		s.trouble.Code, s.trouble.Class = task.Error.Code, agentwire.FailurePermanent
		s.trouble.Remedy = "the node was reinstalled or removed meanwhile: run it again from the start"
	case len(outcomes) == 0 && task.Attempt > 0:
		s.trouble.Class, s.trouble.Remedy = agentwire.FailureAmbiguous, lookFirst
	}
}

// lookFirst is the remedy where nobody knows what was done.
const lookFirst = "look at the node, then resume: it goes on at the step where it stands"

// silent judges a task of which nobody heard how it ended. Work that its node never
// fetched was not done; of the rest nobody knows, so the node is asked to look.
func (s *settlement) silent(o Operation, task agenttask.Task) {
	s.trouble = Trouble{Code: task.Error.Code, Class: agentwire.FailureAmbiguous, Message: task.Error.Message}
	switch task.Error.Code {
	case agenttask.CodeNotFetched:
		s.trouble.Class, s.trouble.Remedy = agentwire.FailureTransient, "look after the node's agent, then resume"
	default:
		switch {
		case o.OnlyPlan:
		case s.target.mayLook():
			s.next = probe
		default:
			s.trouble.Code = "operation_outcome_unknown"
			s.trouble.Message = fmt.Sprintf("nobody heard how attempt after attempt ended, and the node was asked %d times "+
				"what is there: %s", s.target.Looks, task.Error.Message)
			s.trouble.Remedy = lookFirst
		}
	}
}

// probed judges what a node found that was asked to look after an attempt of which
// nobody heard. Steps that would change nothing any more are done. What only looks is
// done again. The first that would still change something decides, wherever it stands:
// it is left to a person, since nobody knows whether it was begun.
func (s settlement) probed(d definition.Definition, task agenttask.Task, outcomes []agentwire.StepOutcome) settlement {
	s.trouble = Trouble{Code: "operation_outcome_unknown", Class: agentwire.FailureAmbiguous, Remedy: lookFirst}
	if task.Status != agenttask.Succeeded {
		s.trouble.Message = "nobody heard how the last attempt ended, and the node did not say what is there: " +
			task.Error.Message
		return s
	}
	shown := make(map[string]agentwire.StepOutcome, len(outcomes))
	for _, o := range outcomes {
		shown[o.ID] = o
	}
	for i := int(s.index); i < len(d.Steps); i++ {
		step := d.Steps[i]
		if kind, _ := agentwire.LookupStep(step.Kind); !kind.Impact.Changes() {
			continue
		}
		o := shown[step.ID]
		if o.Status != agentwire.StepPlanned || o.Changed {
			s.trouble.Message = fmt.Sprintf(
				"nobody heard how the last attempt ended, and the node does not show that step %s is done", step.ID)
			return s
		}
		if i == int(s.index) {
			s.steps = append(s.steps, stepRow{
				TargetID: s.target.ID, Attempt: s.target.Attempt, StepIndex: s.index, StepID: step.ID, StepKind: step.Kind,
				Status: agentwire.StepSucceeded, Output: o.Output,
				Summary: "nobody heard how it ended; the node shows that it is done",
			})
			s.index++
		}
	}
	if int(s.index) == len(d.Steps) {
		s.status, s.trouble = TargetSucceeded, Trouble{}
		return s
	}
	s.next = goOn
	s.trouble.Message = "nobody heard how the last attempt ended; what it changed is done, what it looks at was not looked at again"
	return s
}
