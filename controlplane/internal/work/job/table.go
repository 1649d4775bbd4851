package job

import (
	"slices"
	"time"
)

// The pseudo stages: what a workflow does besides going through the stages.
const (
	StageCompensate = "compensate"
	StageAdopt      = "adopt_observed_state"
)

// Stage is one row of the table that drives a job, and that its documentation
// and explanations are made of.
type Stage struct {
	Name     string
	Title    string // for people
	Looks    string // what it observes first
	Does     string // its effect
	Expects  string // the condition that ends it
	Again    string // why it may be run again
	Attempts int    // in all, for failures that another attempt may mend
	Limit    Limit
	Usually  string // how long it usually takes; if empty, seconds
	Resume   string // the stage that resume goes on with
	OnCancel string // what is undone when the job is cancelled during or after it
	Fails    []FailureMode
	Awaits   bool // waits for a signal to its workflow, never inside
	// Nudge is the signal that makes the stage look again when somebody else
	// observed something. If empty, the stage itself watches what it waits for.
	Nudge  string
	Detour bool // reached only when another stage leads to it
	Pseudo bool // not one of the stages: something else that a workflow does
	// Overridable says that an operator may decide to go on without the stage;
	// the residual risk is recorded.
	Overridable bool
}

// FailureMode is one way in which a stage fails.
type FailureMode struct {
	Class FailureClass
	When  string
}

// Cancelled says what is undone when a job is cancelled during or after the
// stage.
func (s Stage) Cancelled(undone string) Stage {
	s.OnCancel = undone
	return s
}

// FailsWith is a way in which a stage fails.
func FailsWith(class FailureClass, when string) FailureMode {
	return FailureMode{Class: class, When: when}
}

// TransientAttempts is how many attempts any stage gets when what it needs is
// away for a while.
const TransientAttempts = 5

// attempts is how many attempts a stage gets in all when it fails that way.
func (s Stage) attempts(class FailureClass) int {
	if class == UpstreamTransient {
		return max(s.Attempts, TransientAttempts)
	}
	return s.Attempts
}

// brief says that the stage ends as soon as it has done what it does.
func (s Stage) brief() bool { return !s.Pseudo && !s.Detour && (s.Limit == "" || s.Awaits) }

// Limit names a time limit of stages, which several stages may share.
type Limit string

// Limits are the time limits that hold for a job; what is not listed has none.
type Limits map[Limit]time.Duration

// of is how long a stage may take; zero: as long as it works at it.
func (l Limits) of(s Stage) time.Duration {
	if s.Limit == "" {
		return 0
	}
	return l[s.Limit]
}

// Table is the stages of a job in their order, and its pseudo stages.
type Table []Stage

// Of finds a stage, or a pseudo stage, by its name.
func (t Table) Of(name string) (Stage, bool) {
	at := slices.IndexFunc(t, func(s Stage) bool { return s.Name == name })
	if at < 0 {
		return Stage{}, false
	}
	return t[at], true
}

// knows says whether a stage is one that a job can be at.
func (t Table) knows(name string) bool {
	s, ok := t.Of(name)
	return ok && !s.Pseudo
}

// First is where every job begins.
func (t Table) First() string { return t[0].Name }

// last is the stage that reaches the goal.
func (t Table) last() string {
	name := t.First()
	for next := t.Following(name); next != ""; next = t.Following(name) {
		name = next
	}
	return name
}

// Following returns the stage after another one, or "" after the last one. It
// skips detours.
func (t Table) Following(name string) string {
	at := slices.IndexFunc(t, func(s Stage) bool { return s.Name == name })
	for _, s := range t[at+1:] {
		if !s.Detour && !s.Pseudo {
			return s.Name
		}
	}
	return ""
}

// Number returns the position of a stage, from 1, and how many there are. The
// position is 0 if it is not one of them.
func (t Table) Number(name string) (number, total int) {
	for _, s := range t {
		if s.Pseudo {
			continue
		}
		total++
		if s.Name == name {
			number = total
		}
	}
	return number, total
}
