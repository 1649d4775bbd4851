package job

import (
	"context"
	"maps"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/durable"
)

// Family is what tells the jobs of one kind from those of others as far as it
// follows from their rows: the stages, what operators are advised and what they
// are told. It reaches for nothing.
type Family[R Row] struct {
	// Noun is what one of them is called: in texts, on the command line and in
	// the audit log.
	Noun string
	// Table is the table of the stages of a job, its pseudo stages among them.
	Table func(R) Table
	// Sample is a row of which only what all rows have is known.
	Sample func(Job) R

	// First says which actions mend a failure of a class, best first.
	First map[durable.FailureClass][]durable.JobEvent
	// FirstOf is the best action where the code of a failure says more than its
	// class.
	FirstOf map[string]durable.JobEvent
	// Prefers is the best action where a code is not enough to say it; nil or
	// empty: FirstOf and First say it.
	Prefers func(R) durable.JobEvent
	// Adoptable are the states of MAAS that a job can go on from.
	Adoptable []string
	// Rewind are the stages that jobs are put back to when they are parked with a
	// code: repeating the stage that failed would prove nothing.
	Rewind map[string]string
	// Forbids takes actions away that the lifecycle of jobs would allow; nil: none.
	Forbids func(R, durable.JobEvent) bool
	// HoldsData says that undoing the job would destroy something; nil: never.
	HoldsData func(R) bool
	// Does says what an action would do, where the usual sentence does not fit;
	// nil or empty: it does.
	Does func(R, durable.JobEvent) string
	// Warns says what will be destroyed later if a job goes on by an action; nil
	// or empty: nothing.
	Warns func(R, durable.JobEvent) string
	// Undone says what a cancel undoes.
	Undone func(R) string
	// AfterEnd is the remedy for whoever wants to act on a job that ended.
	AfterEnd func(R) string

	// Usually says how long stages take that wait for something.
	Usually map[string]string
	// Causes say what is usually behind a code, before what all families know.
	Causes map[string]string
	// Awaits is the condition that a pending job waits for.
	Awaits string
	// Reached says what became of a job that reached its goal; took is how long
	// it took, as in " after 3 min", or empty.
	Reached func(r R, took string) string
}

// stageOf finds a stage, or a pseudo stage, of a job by its name.
func (f *Family[R]) stageOf(r R, name string) (Stage, bool) { return f.Table(r).Of(name) }

// Audit writes who did what to a job.
func (f *Family[R]) Audit(ctx context.Context, tx pgx.Tx, verb string, r R, reason string, metadata map[string]any) error {
	j := r.Common()
	noted := map[string]any{"hostname": j.Hostname, "workflow_id": j.WorkflowID}
	maps.Copy(noted, metadata)
	return audit.Record(ctx, tx, audit.Entry{
		Action: f.Noun + "." + verb, TargetKind: f.Noun, TargetID: j.ID, Result: audit.Success, Reason: reason, Metadata: noted,
	})
}
