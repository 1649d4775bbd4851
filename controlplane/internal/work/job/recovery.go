package job

import (
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
)

// Actions lists what operators can do about a job.
var Actions = []durable.JobEvent{
	durable.JobRetryStage, durable.JobResume, durable.JobRerun, durable.JobRestartClean, durable.JobAdoptObserved,
	durable.JobCancel, durable.JobMarkManual,
}

// Safety says what an action may cost.
type Safety string

// The safety classes of actions.
const (
	Safe         Safety = "safe"
	NeedsCare    Safety = "needs_care"
	DestroysData Safety = "destroys_data"
)

// Advice is a legal action and what it would do.
type Advice struct {
	Action durable.JobEvent
	Safety Safety
	Does   string
}

// CodeMarked is the code of a job that an operator stopped.
const CodeMarked = "operator_marked"

// ParkedAs is what a failure of a class makes of a job that runs.
func ParkedAs(class durable.FailureClass) durable.JobEvent {
	if class == durable.UpstreamTransient {
		return durable.JobFail
	}
	return durable.JobBlock
}

// LegalActions lists what an operator may do now.
func (f *Family[R]) LegalActions(r R) []durable.JobEvent {
	j := r.Common()
	var legal []durable.JobEvent
	for _, action := range Actions {
		if _, err := durable.JobLifecycle.Next(j.Status, action); err != nil {
			continue
		}
		if j.HalfUndone() && (action == durable.JobRetryStage || action == durable.JobResume) {
			continue
		}
		if j.Status == durable.JobCompensating && !j.Restarting() { // a cancel is under way already
			continue
		}
		if f.Forbids != nil && f.Forbids(r, action) {
			continue
		}
		legal = append(legal, action)
	}
	return legal
}

// TargetOf is the status and the stage that an action leads to at once.
func (f *Family[R]) TargetOf(r R, action durable.JobEvent) (durable.JobStatus, string) {
	j := r.Common()
	status, err := durable.JobLifecycle.Next(j.Status, action)
	if err != nil {
		return j.Status, j.Stage
	}
	switch action { //nolint:exhaustive // the other events are no actions
	case durable.JobResume:
		if s, ok := f.stageOf(r, j.Stage); ok {
			return status, s.Resume
		}
	case durable.JobRerun:
		return status, f.Table(r).First()
	case durable.JobAdoptObserved:
		return status, StageAdopt
	case durable.JobCancel, durable.JobRestartClean:
		if status == durable.JobCompensating {
			return status, StageCompensate
		}
	}
	return status, j.Stage
}

// Recommend ranks the legal actions, best first.
func (f *Family[R]) Recommend(r R) []Advice {
	j, legal := r.Common(), f.LegalActions(r)
	var out []Advice
	take := func(actions ...durable.JobEvent) {
		for _, action := range actions {
			known := slices.ContainsFunc(out, func(a Advice) bool { return a.Action == action })
			if slices.Contains(legal, action) && !known {
				out = append(out, f.advise(r, action))
			}
		}
	}
	if j.Parked() {
		switch {
		case j.HalfUndone():
			take(j.Action)
		case j.ErrorCode == CodeMarked:
			take(durable.JobResume)
		case f.Prefers != nil && f.Prefers(r) != "":
			take(f.Prefers(r))
		case f.FirstOf[j.ErrorCode] != "":
			take(f.FirstOf[j.ErrorCode])
		case j.FailureClass == durable.StateAmbiguity && slices.Contains(f.Adoptable, j.Observed.Status):
			take(durable.JobAdoptObserved)
		}
		take(f.First[j.FailureClass]...)
	}
	take(Actions...)
	return out
}

// Recommended is the best action for a job that is parked; empty: it is not, or
// there is none.
func (f *Family[R]) Recommended(r R) durable.JobEvent {
	if !r.Common().Parked() {
		return ""
	}
	ranked := f.Recommend(r)
	if len(ranked) == 0 {
		return ""
	}
	return ranked[0].Action
}

// Parked is how a job stands that a failure of a class parked at a stage.
func (f *Family[R]) Parked(stage string, class durable.FailureClass) R {
	status, err := durable.JobLifecycle.Next(durable.JobRunning, ParkedAs(class))
	if err != nil { // the lifecycle's own test would have failed
		status = durable.JobFailedManualIntervention
	}
	return f.Sample(Job{Status: status, Stage: stage, FailureClass: class})
}

func (f *Family[R]) advise(r R, action durable.JobEvent) Advice {
	return Advice{Action: action, Safety: f.safetyOf(r, action), Does: f.does(r, action)}
}

func (f *Family[R]) holdsData(r R) bool { return f.HoldsData != nil && f.HoldsData(r) }

func (f *Family[R]) safetyOf(r R, action durable.JobEvent) Safety {
	switch action { //nolint:exhaustive // the other events are no actions
	case durable.JobRestartClean:
		if f.holdsData(r) {
			return DestroysData
		}
		return NeedsCare
	case durable.JobCancel:
		if r.Common().Status == durable.JobPending {
			return Safe
		}
		return NeedsCare
	case durable.JobAdoptObserved:
		return NeedsCare
	}
	if f.warns(r, action) != "" {
		return NeedsCare
	}
	return Safe
}

func (f *Family[R]) does(r R, action durable.JobEvent) string {
	text := f.doesItself(r, action)
	if later := f.warns(r, action); later != "" {
		return text + "; " + later
	}
	return text
}

func (f *Family[R]) warns(r R, action durable.JobEvent) string {
	if f.Warns == nil {
		return ""
	}
	return f.Warns(r, action)
}

func (f *Family[R]) doesItself(r R, action durable.JobEvent) string {
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
	switch action { //nolint:exhaustive // the other events are no actions
	case durable.JobRetryStage:
		return fmt.Sprintf("runs the stage %q once more", title)
	case durable.JobResume:
		return fmt.Sprintf("goes on from the last safe stage, %q", title)
	case durable.JobRerun:
		return "goes through all stages from the first; what is done already is recognised and left as it is"
	case durable.JobRestartClean:
		return "undoes what the job did so far and starts from nothing"
	case durable.JobAdoptObserved:
		return "takes the machine as it is now, if it is provably this one, and goes on from there"
	case durable.JobCancel:
		return "ends the " + f.Noun + "; " + f.undone(r)
	case durable.JobMarkManual:
		return "stops all automation until an operator decides"
	}
	return ""
}

func (f *Family[R]) undone(r R) string {
	j := r.Common()
	switch {
	case j.Status == durable.JobPending:
		return "nothing was begun"
	case j.Restarting():
		return "what can still be undone is undone, and nothing is started anew"
	}
	return f.Undone(r)
}

// NotAllowed refuses an action and names those that are possible.
func (f *Family[R]) NotAllowed(r R, action durable.JobEvent) error {
	j, legal := r.Common(), f.LegalActions(r)
	refusal := fault.New(fault.Conflict, "action_not_allowed", "the %s of %s is %s: %s is not possible now", f.Noun, j.Hostname, j.Status, action)
	switch {
	case len(legal) > 0:
		names := make([]string, len(legal))
		for i, a := range legal {
			names[i] = string(a)
		}
		return refusal.WithRemedy("possible now: %s", strings.Join(names, ", "))
	case j.Status == durable.JobCompensating:
		return refusal.WithRemedy("nothing is possible until it has been undone; look again later")
	}
	return refusal.WithRemedy("%s", f.AfterEnd(r))
}
