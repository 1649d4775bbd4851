package job

import (
	"cmp"
	"maps"
	"time"

	"gpuaas/controlplane/internal/engine/durable"
)

// attempt is one attempt at a stage: what was asked for, on which row, and what
// came of it.
type attempt[R Row, W Extended] struct {
	call   durable.StageCall
	table  Table
	stage  Stage
	row    R
	before Job // of the row
	work   W
	limits Limits // that hold for the job, once its work was equipped
	token  *token
	result Result
	err    error
}

// verdict is where a job goes from an attempt.
type verdict struct {
	told     Event // for the ledger; without a status: nothing is
	status   Status
	stage    string // of the row from now on
	attempts int    // begun at it
	action   Trigger
	adopted  bool
	why      *Failure  // why the attempt failed, or nil
	parks    bool      // the failure parks the job
	complete bool      // the goal is reached, if the family agrees
	anew     bool      // the job starts from nothing
	tells    Announced // to readers of events, unless a stage merely went on
	turn     durable.Turn
}

// margin is how much longer than its time limit an execution of a stage may
// take; the stage watches the limit itself.
const margin = 30 * time.Minute

// turnTo is the turn that runs a stage now.
func (t Table) turnTo(stage string, attempt int, epoch int64, limits Limits) durable.Turn {
	turn := durable.Turn{Do: durable.TurnRun, Stage: stage, Attempt: attempt, Epoch: epoch}
	if s, ok := t.Of(stage); ok {
		if limit := limits.of(s); limit > 0 {
			turn.Limit = limit + margin
		}
	}
	return turn
}

func (a attempt[R, W]) turnTo(stage string, attempt int) durable.Turn {
	return a.table.turnTo(stage, attempt, a.call.Epoch, a.limits)
}

// judge decides, from the table of stages and how an attempt ended, where the
// job goes.
func (r *Runner[R, W]) judge(a attempt[R, W]) verdict {
	if a.err != nil {
		return r.judgeFailure(a, r.family.classify(a.err))
	}
	if a.result.Await != nil {
		return a.awaiting()
	}
	switch a.stage.Name {
	case StageCompensate:
		return r.compensated(a)
	case StageAdopt:
		if a.table.knows(a.result.Next) {
			v := a.goOn(a.result.Next)
			v.adopted, v.action = true, ""
			return v
		}
		return r.judgeFailure(a, misled(a.result.Next))
	}
	next := cmp.Or(a.result.Next, a.table.Following(a.stage.Name))
	switch {
	case next == "":
		v := a.goOn(a.stage.Name)
		v.complete, v.action, v.tells = true, "", AnnounceCompleted
		v.status = r.family.Life.reach(v.status, TriggerComplete)
		if a.before.Adopted {
			v.status = r.family.Life.reach(a.before.Status, TriggerReconcile, TriggerComplete)
		}
		v.turn = a.end(v.status)
		return v
	case a.stage.Detour && a.result.Next == "", !a.table.knows(next):
		return r.judgeFailure(a, misled(a.result.Next))
	}
	return a.goOn(next)
}

// misled is the failure of a stage that names no stage to go on with.
func misled(next string) *Failure {
	return codeMisled.Failed("the stage leads to a stage that there is not: %s", next).ForGood()
}

// stay is the verdict that leaves everything as it is.
func (a attempt[R, W]) stay() verdict {
	return verdict{
		status: a.before.Status, stage: a.before.Stage, attempts: a.call.Attempt, action: a.before.Action,
		adopted: a.before.Adopted,
		told:    Event{Stage: a.call.Stage, Attempt: a.call.Attempt, Epoch: a.call.Epoch},
	}
}

func (a attempt[R, W]) goOn(next string) verdict {
	v := a.stay()
	v.stage, v.attempts = next, 0
	v.told.Status, v.told.Message = StageSucceeded, a.result.Message
	if a.result.Skipped {
		v.told.Status = StageSkipped
	}
	v.turn = a.turnTo(next, 1)
	return v
}

func (a attempt[R, W]) awaiting() verdict {
	v := a.stay()
	if a.result.Message != "" {
		v.told.Status, v.told.Message = StageNote, a.result.Message
	}
	v.turn = a.turnTo(a.call.Stage, a.call.Attempt)
	v.turn.Do, v.turn.Wait, v.turn.Signal = durable.TurnAwait, a.result.Await.Most, a.result.Await.Signal
	return v
}

func (r *Runner[R, W]) compensated(a attempt[R, W]) verdict {
	v := a.stay()
	v.told.Status, v.told.Message = StageCompensated, "what could be undone was undone"
	if len(a.result.Left) > 0 {
		v.told.Message += "; some things were left as they are"
	}
	if r.family.restarting(a.before) {
		v.status, v.stage, v.attempts, v.anew = r.family.Life.reach(v.status, TriggerRestarted), a.table.First(), 0, true
		v.turn = a.turnTo(v.stage, 1)
		v.turn.Marks = statusMarks(v.status, v.stage)
		return v
	}
	v.status, v.tells = r.family.Life.reach(v.status, TriggerCompensated), AnnounceCancelled
	v.turn = a.end(v.status)
	return v
}

func (a attempt[R, W]) end(status Status) durable.Turn {
	return durable.Turn{Do: durable.TurnEnd, Epoch: a.call.Epoch, Marks: statusMarks(status, a.call.Stage)}
}

func statusMarks(status Status, stage string) map[string]string {
	return map[string]string{durable.MarkStatus: string(status), durable.MarkStage: stage}
}

func (r *Runner[R, W]) judgeFailure(a attempt[R, W], f *Failure) verdict {
	v := a.stay()
	v.why, v.told.Status, v.told.Message = f, StageFailed, f.Message
	switch {
	case f.Next != "" && a.table.knows(f.Next) && !a.stage.Pseudo:
		v.stage, v.attempts = f.Next, 0
		v.turn = a.turnTo(f.Next, 1)
		return v
	case !f.Final && a.call.Attempt < a.stage.attempts(f.Class):
		v.turn = a.turnTo(a.call.Stage, a.call.Attempt+1)
		v.turn.Do, v.turn.Wait = durable.TurnLater, r.backoff(a.call.Attempt)
		return v
	}
	return r.park(a, v)
}

func (r *Runner[R, W]) park(a attempt[R, W], v verdict) verdict {
	triggers := []Trigger{ParkedAs(v.why.Class), TriggerBlock}
	if a.before.Phase == Undoing {
		triggers = []Trigger{TriggerCompensationBlocked}
	} else {
		v.action = ""
	}
	status := r.family.Life.reach(a.before.Status, triggers...)
	v.tells = AnnounceManual
	if r.family.Life.endsBy(status, TriggerFail) {
		v.tells = AnnounceFailed
	}
	v.status, v.parks = status, true
	if code := v.why.Code; code != nil && a.table.knows(code.Rewind) {
		v.stage = code.Rewind
	}
	v.turn = durable.Turn{Do: durable.TurnPark, Epoch: a.call.Epoch, Marks: statusMarks(status, a.call.Stage)}
	if a.before.Phase != Undoing && v.why.Code != nil {
		v.turn.Signal = v.why.Code.WakesOn
	}
	return v
}

// announced returns what readers of events are told about a verdict, or "" for
// nothing.
func (v verdict) announced() Announced {
	if v.tells != "" {
		return v.tells
	}
	if v.told.Status == "" {
		return ""
	}
	return AnnounceStage
}

// details returns what the ledger keeps of an attempt.
func (a attempt[R, W]) details(v verdict) map[string]any {
	switch {
	case v.why != nil:
		out := map[string]any{"failure_class": v.why.Class, "error_code": v.why.Code.String()}
		if v.why.Remedy != "" {
			out["remedy"] = v.why.Remedy
		}
		maps.Copy(out, v.why.Details)
		return out
	case v.told.Status == StageCompensated && len(a.result.Left) > 0:
		return map[string]any{"left": a.result.Left}
	}
	return a.result.Details
}
