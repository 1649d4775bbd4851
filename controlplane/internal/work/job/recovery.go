package job

import (
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

// Safety says what an action may cost.
type Safety string

// The safety classes of actions.
const (
	Safe         Safety = "safe"
	NeedsCare    Safety = "needs_care"
	DestroysData Safety = "destroys_data"
)

// safestFirst are the safety classes in the order in which actions are offered.
var safestFirst = []Safety{Safe, NeedsCare, DestroysData}

// compareSafety orders advice by what it may cost.
func compareSafety(a, b Advice) int {
	return slices.Index(safestFirst, a.Safety) - slices.Index(safestFirst, b.Safety)
}

// Advice is a legal action and what it would do.
type Advice struct {
	Action Trigger
	Safety Safety
	Does   string
}

// ParkedAs returns the trigger with which a failure of a class parks a running
// job.
func ParkedAs(class FailureClass) Trigger {
	if class == UpstreamTransient {
		return TriggerFail
	}
	return TriggerBlock
}

// LegalActions lists what an operator may do now.
func (f *Family[R]) LegalActions(r R) []Trigger {
	j := f.common(r)
	var legal []Trigger
	for _, action := range f.Life.Actions {
		if _, err := f.Life.Table.Next(j.Status, action.Name); err != nil {
			continue
		}
		if f.halfUndone(j) && (action.Effect == RunsStageAgain || action.Effect == GoesOnSafely) {
			continue
		}
		if j.Phase == Undoing && !f.restarting(j) { // it is being undone for good already
			continue
		}
		if f.Forbids != nil && f.Forbids(r, action.Name) {
			continue
		}
		legal = append(legal, action.Name)
	}
	return legal
}

// TargetOf is the status and the stage that an action leads to at once.
func (f *Family[R]) TargetOf(r R, action Trigger) (Status, string) {
	j := r.Common()
	status, err := f.Life.Table.Next(j.Status, action)
	if err != nil {
		return j.Status, j.Stage
	}
	switch f.Life.EffectOf(action) {
	case GoesOnSafely:
		if s, ok := f.stageOf(r, j.Stage); ok {
			return status, s.Resume
		}
	case BeginsAgain:
		return status, f.Table(r).First()
	case AdoptsObserved:
		return status, StageAdopt
	case UndoesAndEnds, UndoesAndBegins:
		if f.Life.PhaseOf(status) == Undoing {
			return status, StageCompensate
		}
	case RunsStageAgain, Stops:
	}
	return status, j.Stage
}

// Recommend ranks the legal actions, best first: what mends this very failure,
// then what mends its class, then the rest. Among equals the safest is first.
func (f *Family[R]) Recommend(r R) []Advice {
	j, legal := f.common(r), f.LegalActions(r)
	var out []Advice
	take := func(actions ...Trigger) {
		from := len(out)
		for _, action := range actions {
			known := slices.ContainsFunc(out, func(a Advice) bool { return a.Action == action })
			if slices.Contains(legal, action) && !known {
				out = append(out, f.advise(r, action))
			}
		}
		slices.SortStableFunc(out[from:], compareSafety)
	}
	if j.Phase == Parked {
		switch {
		case f.halfUndone(j):
			take(j.Action)
		case j.ErrorCode == CodeMarked:
			take(f.Life.Having(GoesOnSafely)...)
		case f.Prefers != nil && f.Prefers(r) != "":
			take(f.Prefers(r))
		case CodeNamed(j.ErrorCode).mends(f.Noun) != "":
			take(CodeNamed(j.ErrorCode).mends(f.Noun))
		case j.FailureClass == StateAmbiguity && f.Adoptable != nil && f.Adoptable(r):
			take(f.Life.Having(AdoptsObserved)...)
		}
		take(f.First[j.FailureClass]...)
	}
	take(f.Life.AllActions()...)
	return out
}

// Recommended returns the best action for a parked job, or "" if it is not
// parked or there is no action.
func (f *Family[R]) Recommended(r R) Trigger {
	if f.common(r).Phase != Parked {
		return ""
	}
	ranked := f.Recommend(r)
	if len(ranked) == 0 {
		return ""
	}
	return ranked[0].Action
}

// ParkedBy is how a job stands that a failure of a class parked at a stage.
func (f *Family[R]) ParkedBy(stage string, class FailureClass) R {
	working := f.Life.In(Working)[0]
	return f.Sample(Job{Status: f.Life.reach(working, ParkedAs(class), TriggerBlock), Stage: stage, FailureClass: class})
}

func (f *Family[R]) advise(r R, action Trigger) Advice {
	return Advice{Action: action, Safety: f.safetyOf(r, action), Does: f.does(r, action)}
}

func (f *Family[R]) holdsData(r R) bool { return f.HoldsData != nil && f.HoldsData(r) }

func (f *Family[R]) safetyOf(r R, action Trigger) Safety {
	switch f.Life.EffectOf(action) {
	case UndoesAndBegins:
		if f.holdsData(r) {
			return DestroysData
		}
		return NeedsCare
	case UndoesAndEnds:
		if f.common(r).Phase == Waiting {
			return Safe
		}
		return NeedsCare
	case AdoptsObserved:
		return NeedsCare
	case RunsStageAgain, GoesOnSafely, BeginsAgain, Stops:
	}
	if f.warns(r, action) != "" {
		return NeedsCare
	}
	return Safe
}

func (f *Family[R]) does(r R, action Trigger) string {
	text := f.doesItself(r, action)
	if later := f.warns(r, action); later != "" {
		return text + "; " + later
	}
	return text
}

func (f *Family[R]) warns(r R, action Trigger) string {
	if f.Warns == nil {
		return ""
	}
	return f.Warns(r, action)
}

func (f *Family[R]) doesItself(r R, action Trigger) string {
	if f.Does != nil {
		if own := f.Does(r, action); own != "" {
			return own
		}
	}
	_, target := f.TargetOf(r, action)
	title := target
	if s, ok := f.stageOf(r, target); ok {
		title = s.Title
	}
	switch f.Life.EffectOf(action) {
	case RunsStageAgain:
		return fmt.Sprintf("runs the stage %q again", title)
	case GoesOnSafely:
		return fmt.Sprintf("continues from the last safe stage, %q", title)
	case BeginsAgain:
		return "runs all stages again from the first; work that is already done is kept"
	case UndoesAndBegins:
		return "undoes everything the job did so far and starts over"
	case AdoptsObserved:
		return "accepts the present state if it can be proven to be this job's, and continues from there"
	case UndoesAndEnds:
		return "ends the " + f.Noun + "; " + f.undone(r)
	case Stops:
		return "stops all automation until an operator decides"
	}
	return ""
}

func (f *Family[R]) undone(r R) string {
	j := f.common(r)
	switch {
	case j.Phase == Waiting:
		return "nothing was started"
	case f.restarting(j):
		return "what can still be undone is undone, and the job does not start again"
	}
	return f.Undone(r)
}

// NotAllowed refuses an action and names those that are possible.
func (f *Family[R]) NotAllowed(r R, action Trigger) error {
	j, legal := f.common(r), f.LegalActions(r)
	refusal := fault.New(fault.Conflict, "action_not_allowed", "the %s of %s is %s: %s is not possible now", f.Noun,
		j.Subject, j.Status, action)
	switch {
	case len(legal) > 0:
		names := make([]string, len(legal))
		for i, a := range legal {
			names[i] = string(a)
		}
		return refusal.WithRemedy("possible now: %s", strings.Join(names, ", "))
	case j.Phase == Undoing:
		return refusal.WithRemedy("wait until the rollback has ended, then try again")
	}
	return refusal.WithRemedy("%s", f.AfterEnd(r))
}
