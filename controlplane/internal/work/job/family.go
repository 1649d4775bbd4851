package job

import (
	"time"
)

// Family holds what distinguishes the jobs of one kind from others, as far as
// it follows from their rows: the stages, and the advice and texts for
// operators. It accesses nothing outside.
type Family[R Row] struct {
	// Noun is the name of one job: in texts, on the command line and in the
	// audit log.
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
	// Adoptable reports whether a job can go on from what was last seen. If it is
	// nil, no job can.
	Adoptable func(R) bool
	// Forbids reports whether the family refuses an action that the lifecycle would
	// allow. If it is nil, the family refuses none.
	Forbids func(R, Trigger) bool
	// HoldsData reports whether undoing the job would destroy data. If it is nil,
	// undoing never does.
	HoldsData func(R) bool
	// Does says what an action would do. If it is nil or returns nothing, people read
	// the usual sentence about the action.
	Does func(R, Trigger) string
	// Warns says what the job will destroy later if it goes on by an action. If it is
	// nil or returns nothing, the job destroys nothing.
	Warns func(R, Trigger) string
	// Undone says what a cancel undoes.
	Undone func(R) string
	// AfterEnd is the remedy for whoever wants to act on a job that ended.
	AfterEnd func(R) string

	// ClassCauses say what is usually behind a class of failures whose code does not
	// tell it. Families that say nothing about a class use the words of this package.
	ClassCauses map[FailureClass]string
	// Classify gives an error of a stage its class. If it is nil, the function
	// Classify of this package does so.
	Classify func(error) *Failure
	// Seen, if set, returns what was last seen of the subject of the job.
	Seen func(r R, now time.Time) Sighting
	// Left lists what undoing the job left behind. If it is nil, nothing is left.
	Left func(R) []string
	// Reached says what became of a job that reached its goal; took is how long
	// it took, as in " after 3 min", or empty.
	Reached func(r R, took string) string
}

// Described is a family as the rest of the control plane knows it.
type Described struct {
	// Noun is the name of one of its jobs. Addresses, fields of the API, counts
	// and documents are named after it.
	Noun string
	Life *Lifecycle
}

// Described describes the family.
func (f *Family[R]) Described() Described { return Described{Noun: f.Noun, Life: f.Life} }

// stageOf finds a stage, or a pseudo stage, of a job by its name.
func (f *Family[R]) stageOf(r R, name string) (Stage, bool) { return f.Table(r).Of(name) }

// common returns the part that a row shares with all others, and fills in the
// phase of its status.
func (f *Family[R]) common(r R) Job {
	j := r.Common()
	j.Phase = f.Life.PhaseOf(j.Status)
	return j
}

// halfUndone reports whether undoing the job began and could not be finished. Then
// only actions make sense that undo it, or that look at everything again.
func (f *Family[R]) halfUndone(j Job) bool {
	effect := f.Life.EffectOf(j.Action)
	return j.Phase == Parked && (effect == UndoesAndEnds || effect == UndoesAndBegins)
}

// HalfUndone reports whether undoing the job began and could not be finished.
func (f *Family[R]) HalfUndone(r R) bool { return f.halfUndone(f.common(r)) }

// restarting reports whether the runner undoes the job in order to start it again.
func (f *Family[R]) restarting(j Job) bool {
	return j.Phase == Undoing && f.Life.EffectOf(j.Action) == UndoesAndBegins
}

// Restarting reports whether the runner undoes the job in order to start it again.
func (f *Family[R]) Restarting(r R) bool { return f.restarting(f.common(r)) }

// under returns the stage that the worker runs next for a job.
func (f *Family[R]) under(j Job) string {
	switch {
	case j.Phase == Undoing:
		return StageCompensate
	case f.Life.EffectOf(j.Action) == AdoptsObserved:
		return StageAdopt
	}
	return j.Stage
}

// doingStage returns the stage that a job is at. While the runner undoes the job,
// the row keeps the stage that the job had reached.
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
