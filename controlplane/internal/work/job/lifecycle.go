package job

import (
	"cmp"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of a job, by a name of its family. Stages are not states:
// they are the ledger inside a job.
type Status string

// Trigger moves a job from one status to another: the runner pulls it when
// something came of a stage, or an operator by an action of the same name.
type Trigger string

// The triggers that the runner pulls. The lifecycle of a family says where they
// lead. If a lifecycle has no edge for TriggerFail, the runner pulls TriggerBlock
// instead; if it has none for TriggerReconcile, the runner pulls TriggerComplete.
const (
	TriggerStart               Trigger = "start"
	TriggerComplete            Trigger = "complete"
	TriggerReconcile           Trigger = "reconcile" // the goal was reached by something that was adopted or observed
	TriggerFail                Trigger = "fail"      // what failed may work later as it is
	TriggerBlock               Trigger = "block"     // somebody must decide
	TriggerCompensated         Trigger = "compensated"
	TriggerRestarted           Trigger = "restarted"
	TriggerCompensationBlocked Trigger = "compensation_blocked"
)

// Phase is the meaning of a status to the runner, which knows nothing else of it.
type Phase string

// The phases.
const (
	Waiting Phase = "waiting" // asked for; its workflow has not started it
	Working Phase = "working" // its workflow carries out stages
	Undoing Phase = "undoing" // its workflow undoes what was done
	Parked  Phase = "parked"  // it waits for an operator, or for proof that its goal was reached
	Over    Phase = "over"    // nothing happens to it any more
)

// Effect says what an action of an operator does to a job.
type Effect string

// The effects.
const (
	RunsStageAgain  Effect = "runs_stage_again"
	GoesOnSafely    Effect = "goes_on_safely"    // from the last safe stage
	BeginsAgain     Effect = "begins_again"      // from the first stage, keeping what was done
	UndoesAndBegins Effect = "undoes_and_begins" // from nothing
	AdoptsObserved  Effect = "adopts_observed"   // from what is there
	UndoesAndEnds   Effect = "undoes_and_ends"
	Stops           Effect = "stops" // parks the job until an operator decides
)

// Action is something that operators can do about a job.
type Action struct {
	Name   Trigger
	Word   string // in addresses and on the command line; if empty, the name
	Effect Effect
}

// Lifecycle is the life of the jobs of a family: their statuses, what moves
// them, and what that means to the runner.
type Lifecycle struct {
	Table lifecycle.Table[Status, Trigger]
	// Phases are the phases of the statuses that are not terminal; terminal
	// ones are Over.
	Phases map[Status]Phase
	// Actions are the actions of operators, in the order in which they are
	// listed.
	Actions []Action
}

// PhaseOf returns the phase of a status.
func (l *Lifecycle) PhaseOf(s Status) Phase {
	if state, known := l.Table.State(s); known && state.Terminal {
		return Over
	}
	return l.Phases[s]
}

// In lists the statuses of a phase, in the order of the table.
func (l *Lifecycle) In(p Phase) []Status {
	var out []Status
	for _, s := range l.Table.States {
		if l.PhaseOf(s.Name) == p {
			out = append(out, s.Name)
		}
	}
	return out
}

// EffectOf returns what an action does. It returns nothing if the family has no
// such action.
func (l *Lifecycle) EffectOf(action Trigger) Effect {
	for _, a := range l.Actions {
		if a.Name == action {
			return a.Effect
		}
	}
	return ""
}

// Having lists the actions that have an effect.
func (l *Lifecycle) Having(e Effect) []Trigger {
	var out []Trigger
	for _, a := range l.Actions {
		if a.Effect == e {
			out = append(out, a.Name)
		}
	}
	return out
}

// AllActions names the actions in their order.
func (l *Lifecycle) AllActions() []Trigger {
	out := make([]Trigger, len(l.Actions))
	for i, a := range l.Actions {
		out[i] = a.Name
	}
	return out
}

// WordOf returns the name that an action has in addresses and on the command line.
func (l *Lifecycle) WordOf(action Trigger) string {
	for _, a := range l.Actions {
		if a.Name == action {
			return cmp.Or(a.Word, string(a.Name))
		}
	}
	return string(action)
}

// reach returns the status that the first possible trigger leads to. If none is
// possible, it returns the status that the job has.
func (l *Lifecycle) reach(from Status, triggers ...Trigger) Status {
	for _, t := range triggers {
		if to, err := l.Table.Next(from, t); err == nil {
			return to
		}
	}
	return from
}

// endsBy reports whether a trigger leads to a status.
func (l *Lifecycle) endsBy(s Status, trigger Trigger) bool {
	return slices.ContainsFunc(l.Table.Edges, func(e lifecycle.Edge[Status, Trigger]) bool {
		return e.To == s && e.Event == trigger
	})
}

// anyFailed is the filter that means all parked statuses.
const anyFailed = "failed"

// Statuses reads by which statuses a caller filters a list. The caller repeats the
// parameter or divides statuses by commas. Each status counts once, and the first
// unknown one ends the reading, because a caller can send very many.
func (l *Lifecycle) Statuses(words []string) (statuses []Status, bad []fault.Field) {
	for _, word := range words {
		for part := range strings.SplitSeq(word, ",") {
			status := Status(strings.TrimSpace(part))
			_, known := l.Table.State(status)
			meant := []Status{status}
			switch {
			case status == anyFailed:
				meant = l.In(Parked)
			case !known:
				return nil, []fault.Field{{
					Path:    "query.status",
					Message: "must be of " + strings.Join(l.Table.Values(), ", ") + ", or failed for both failed ones",
				}}
			}
			for _, m := range meant {
				if !slices.Contains(statuses, m) {
					statuses = append(statuses, m)
				}
			}
		}
	}
	return statuses, nil
}
