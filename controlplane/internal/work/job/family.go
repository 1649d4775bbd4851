package job

import (
	"time"
)

// Family is what tells the jobs of one kind from those of others as far as it
// follows from their rows: the stages, what operators are advised and what they
// are told. It reaches for nothing.
type Family[R Row] struct {
	// Noun is what one of them is called: in texts, on the command line and in
	// the audit log.
	Noun string
	// Life is the lifecycle of its jobs.
	Life *Lifecycle
	// Table is the table of the stages of a job, its pseudo stages among them.
	Table func(R) Table
	// Sample is a row of which only what all rows have is known.
	Sample func(Job) R

	// First says which actions mend a failure of a class; of equally safe ones, the
	// best first.
	First map[FailureClass][]Trigger
	// Prefers returns the best action where the code of the failure does not
	// suffice to tell it. If it is nil or returns nothing, the code tells it
	// (Code.Mends), or else First.
	Prefers func(R) Trigger
	// Adoptable says that what was last seen is something that a job can go on
	// from; nil: it never is.
	Adoptable func(R) bool
	// Forbids takes actions away that the lifecycle of jobs would allow; nil: none.
	Forbids func(R, Trigger) bool
	// HoldsData says that undoing the job would destroy something; nil: never.
	HoldsData func(R) bool
	// Does says what an action would do, where the usual sentence does not fit;
	// nil or empty: it does.
	Does func(R, Trigger) string
	// Warns says what will be destroyed later if a job goes on by an action; nil
	// or empty: nothing.
	Warns func(R, Trigger) string
	// Undone says what a cancel undoes.
	Undone func(R) string
	// AfterEnd is the remedy for whoever wants to act on a job that ended.
	AfterEnd func(R) string

	// ClassCauses say what is usually behind a class of failures whose code does not
	// tell it. Families that say nothing about a class use the words of this package.
	ClassCauses map[FailureClass]string
	// Classify gives an error of a stage its class; nil: package function Classify
	// does.
	Classify func(error) *Failure
	// Seen is what was last seen of what the job is about; nil: nothing ever is.
	Seen func(r R, now time.Time) Sighting
	// Left is what undoing the job left; nil: nothing.
	Left func(R) []string
	// Reached says what became of a job that reached its goal; took is how long
	// it took, as in " after 3 min", or empty.
	Reached func(r R, took string) string
}

// Described is a family as the rest of the control plane knows it.
type Described struct {
	// Noun is what one of its jobs is called. Addresses, fields of the API, counts
	// and documents are named after it.
	Noun string
	Life *Lifecycle
}

// Described describes the family.
func (f *Family[R]) Described() Described { return Described{Noun: f.Noun, Life: f.Life} }

// stageOf finds a stage, or a pseudo stage, of a job by its name.
func (f *Family[R]) stageOf(r R, name string) (Stage, bool) { return f.Table(r).Of(name) }

// common is what a row has in common with all others, with the phase of its
// status.
func (f *Family[R]) common(r R) Job {
	j := r.Common()
	j.Phase = f.Life.PhaseOf(j.Status)
	return j
}

// halfUndone says whether undoing the job began and could not be finished. Only
// what undoes it, or looks at everything anew, makes sense then.
func (f *Family[R]) halfUndone(j Job) bool {
	effect := f.Life.EffectOf(j.Action)
	return j.Phase == Parked && (effect == UndoesAndEnds || effect == UndoesAndBegins)
}

// HalfUndone says whether undoing the job began and could not be finished.
func (f *Family[R]) HalfUndone(r R) bool { return f.halfUndone(f.common(r)) }

// restarting says whether the job is being undone in order to start anew.
func (f *Family[R]) restarting(j Job) bool {
	return j.Phase == Undoing && f.Life.EffectOf(j.Action) == UndoesAndBegins
}

// Restarting says whether the job is being undone in order to start anew.
func (f *Family[R]) Restarting(r R) bool { return f.restarting(f.common(r)) }

// under is what is to be run for a job.
func (f *Family[R]) under(j Job) string {
	switch {
	case j.Phase == Undoing:
		return StageCompensate
	case f.Life.EffectOf(j.Action) == AdoptsObserved:
		return StageAdopt
	}
	return j.Stage
}

// doingStage is the stage that a job is at. While it is undone, its row keeps
// the stage that it had come to.
func (f *Family[R]) doingStage(j Job) string {
	if j.Phase == Undoing || f.halfUndone(j) {
		return StageCompensate
	}
	return j.Stage
}

// classify gives an error of a stage its class.
func (f *Family[R]) classify(err error) *Failure {
	if f.Classify != nil {
		return f.Classify(err)
	}
	return Classify(err)
}
