package onboarding

import (
	"cmp"
	"maps"
	"time"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/site"
)

// attempt is one attempt at a stage: what was asked for, on which row, and what
// came of it.
type attempt struct {
	call   durable.StageCall
	stage  Stage
	before Onboarding
	work   *bringup.Work
	token  *token
	result bringup.Result
	err    error
}

// verdict is where a job goes from an attempt.
type verdict struct {
	told     Event // for the ledger; without a status: nothing is
	status   durable.JobStatus
	stage    string // of the row from now on
	attempts int    // begun at it
	action   durable.JobEvent
	adopted  bool
	why      *bringup.Failure // of the attempt; nil: it did not fail
	parks    bool             // and the job is parked by it
	complete bool             // the goal is reached, if the node agrees
	anew     bool             // the job starts from nothing
	turn     durable.Turn
}

// margin is what an execution of a stage may take beyond the time limit of the
// stage, which it watches itself.
const margin = 10 * time.Minute

// turnTo is the turn that runs a stage now.
func turnTo(stage string, attempt int, epoch int64, p site.Policy) durable.Turn {
	turn := durable.Turn{Do: durable.TurnRun, Stage: stage, Attempt: attempt, Epoch: epoch}
	if s, ok := StageOf(stage); ok {
		if limit := s.TimeLimit(p); limit > 0 {
			turn.Limit = limit + margin
		}
	}
	return turn
}

// judge decides, from the table of stages and how an attempt ended, where the
// job goes.
func (s *Service) judge(a attempt) verdict {
	if a.err != nil {
		return s.judgeFailure(a, bringup.Classify(a.err))
	}
	if a.result.Await != nil {
		return awaiting(a)
	}
	switch a.stage.Name {
	case StageCompensate:
		return compensated(a)
	case StageAdopt:
		if known(a.result.Next) {
			v := a.goOn(a.result.Next)
			v.adopted, v.action = true, ""
			return v
		}
		return s.judgeFailure(a, misled(a.result.Next))
	}
	next := cmp.Or(a.result.Next, following(a.stage.Name))
	switch {
	case next == "":
		v := a.goOn(a.stage.Name)
		v.complete, v.status, v.action = true, durable.JobCompleted, ""
		if a.before.Adopted {
			v.status = durable.JobReconciled
		}
		v.turn = a.end(v.status)
		return v
	case a.stage.Detour && a.result.Next == "", !known(next):
		return s.judgeFailure(a, misled(a.result.Next))
	}
	return a.goOn(next)
}

func known(stage string) bool {
	s, ok := StageOf(stage)
	return ok && !s.Pseudo
}

// misled is the failure of a stage that names no stage to go on with.
func misled(next string) *bringup.Failure {
	return &bringup.Failure{
		Class: durable.StateAmbiguity, Code: "stage_unknown", Final: true, Message: "the stage leads to a stage that there is not: " + next,
		Remedy: "this is a defect of the control plane; mark it and tell its developers",
	}
}

// stay is the verdict that leaves everything as it is.
func (a attempt) stay() verdict {
	return verdict{
		status: a.before.Status, stage: a.before.Stage, attempts: a.call.Attempt, action: a.before.Action, adopted: a.before.Adopted,
		told: Event{Stage: a.call.Stage, Attempt: a.call.Attempt, Epoch: a.call.Epoch},
	}
}

func (a attempt) goOn(next string) verdict {
	v := a.stay()
	v.stage, v.attempts = next, 0
	v.told.Status, v.told.Message = StageSucceeded, a.result.Message
	if a.result.Skipped {
		v.told.Status = StageSkipped
	}
	v.turn = turnTo(next, 1, a.call.Epoch, a.work.Profile.Policy)
	return v
}

func awaiting(a attempt) verdict {
	v := a.stay()
	if a.result.Message != "" {
		v.told.Status, v.told.Message = StageNote, a.result.Message
	}
	v.turn = turnTo(a.call.Stage, a.call.Attempt, a.call.Epoch, a.work.Profile.Policy)
	v.turn.Do, v.turn.Wait, v.turn.Signal = durable.TurnAwait, a.result.Await.Most, a.result.Await.Signal
	return v
}

func compensated(a attempt) verdict {
	v := a.stay()
	v.told.Status, v.told.Message = StageCompensated, "what could be undone was undone"
	if len(a.work.Facts.Left) > 0 {
		v.told.Message += "; some things were left as they are"
	}
	if a.before.Action == durable.JobRestartClean {
		v.status, v.stage, v.attempts, v.anew = durable.JobRunning, firstStage(), 0, true
		v.turn = turnTo(v.stage, 1, a.call.Epoch, a.work.Profile.Policy)
		v.turn.Marks = statusMarks(v.status, v.stage)
		return v
	}
	v.status, v.turn = durable.JobCancelled, a.end(durable.JobCancelled)
	return v
}

func (a attempt) end(status durable.JobStatus) durable.Turn {
	return durable.Turn{Do: durable.TurnEnd, Epoch: a.call.Epoch, Marks: statusMarks(status, a.call.Stage)}
}

func statusMarks(status durable.JobStatus, stage string) map[string]string {
	return map[string]string{durable.MarkStatus: string(status), durable.MarkStage: stage}
}

func (s *Service) judgeFailure(a attempt, f *bringup.Failure) verdict {
	v := a.stay()
	v.why, v.told.Status, v.told.Message = f, StageFailed, f.Message
	switch {
	case f.Next != "" && known(f.Next) && !a.stage.Pseudo:
		v.stage, v.attempts = f.Next, 0
		v.turn = turnTo(f.Next, 1, a.call.Epoch, a.work.Profile.Policy)
		return v
	case !f.Final && a.call.Attempt < a.stage.attempts(f.Class):
		v.turn = turnTo(a.call.Stage, a.call.Attempt+1, a.call.Epoch, a.work.Profile.Policy)
		v.turn.Do, v.turn.Wait = durable.TurnLater, s.backoff(a.call.Attempt)
		return v
	}
	return park(a, v)
}

func park(a attempt, v verdict) verdict {
	event := parkedAs(v.why.Class)
	if a.before.Status == durable.JobCompensating {
		event = durable.JobCompensationBlocked
	} else {
		v.action = ""
	}
	status, err := durable.JobLifecycle.Next(a.before.Status, event)
	if err != nil { // the table of jobs has both edges; see its tests
		status = durable.JobFailedManualIntervention
	}
	v.status, v.parks = status, true
	if v.why.Code == codeSyncUnproven { // retrying the last stage would prove nothing
		v.stage = bringup.EnsureHardwareSyncConfigured
	}
	v.turn = durable.Turn{Do: durable.TurnPark, Epoch: a.call.Epoch, Marks: statusMarks(status, a.call.Stage)}
	return v
}

// event is the type by which readers of events hear of a verdict; empty: they
// do not.
func (v verdict) event() eventwire.Type {
	switch v.status {
	case durable.JobCompleted, durable.JobReconciled:
		return eventwire.NodeOnboardingCompleted
	case durable.JobCancelled:
		return eventwire.NodeOnboardingCancelled
	case durable.JobFailedRetryable:
		return eventwire.NodeOnboardingFailed
	case durable.JobFailedManualIntervention:
		return eventwire.NodeOnboardingManual
	case durable.JobPending, durable.JobRunning, durable.JobCompensating:
	}
	if v.told.Status == "" {
		return ""
	}
	return eventwire.NodeOnboardingStage
}

// details is what the ledger keeps of an attempt.
func (v verdict) details(a attempt) map[string]any {
	switch {
	case v.why != nil:
		out := map[string]any{"failure_class": v.why.Class, "error_code": v.why.Code}
		if v.why.Remedy != "" {
			out["remedy"] = v.why.Remedy
		}
		maps.Copy(out, v.why.Details)
		return out
	case v.told.Status == StageCompensated && len(a.work.Facts.Left) > 0:
		return map[string]any{"left": a.work.Facts.Left}
	}
	return a.result.Details
}
