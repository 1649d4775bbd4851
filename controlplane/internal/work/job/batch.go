package job

import (
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// Batch is jobs that were asked for together.
type Batch struct {
	ID    id.JobBatch
	Total int
	// MaxParallel limits how many jobs of the batch may hold a place at once.
	// If zero, the family's limit applies, or there is none.
	MaxParallel int
	// MaxFailures is how many jobs may fail or be cancelled before the control
	// plane pauses the batch. If nil, it never pauses the batch.
	MaxFailures *int
	Reason      string
	RequestedBy string
	RequestedAt time.Time

	PausedAt     *time.Time // nil if it is not paused
	PausedBy     string     // id of who paused it; empty if the control plane did
	PausedByName string
	PauseReason  string
	Halted       bool // the control plane paused it, because too many failed
	CancelledAt  *time.Time

	Counts map[Status]int // of its jobs, by their status
	life   *Lifecycle
}

// BatchState says how a batch is getting on; it follows from its jobs.
type BatchState string

// The states of batches.
const (
	BatchRunning   BatchState = "running"
	BatchPaused    BatchState = "paused" // an operator paused it: no further job is begun
	BatchHalted    BatchState = "halted" // too many failed: no further job is begun until an operator resumes it
	BatchCancelled BatchState = "cancelled"
	BatchSettled   BatchState = "settled" // each job has ended or is parked
)

var batchStates = []BatchState{BatchRunning, BatchPaused, BatchHalted, BatchCancelled, BatchSettled}

// in is how many jobs are in a phase.
func (b Batch) in(p Phase) int {
	n := 0
	for _, status := range b.life.In(p) {
		n += b.Counts[status]
	}
	return n
}

// State says how the batch is getting on.
func (b Batch) State() BatchState {
	switch {
	case b.CancelledAt != nil:
		return BatchCancelled
	case b.in(Waiting)+b.in(Working)+b.in(Undoing) == 0:
		return BatchSettled
	case b.Halted:
		return BatchHalted
	case b.PausedAt != nil:
		return BatchPaused
	}
	return BatchRunning
}

// Parked is how many jobs wait for an operator.
func (b Batch) Parked() int { return b.in(Parked) }

// Failures is how many jobs are parked, or ended without reaching their goal.
func (b Batch) Failures() int {
	n := b.Parked()
	for _, status := range b.life.missed() {
		n += b.Counts[Status(status)]
	}
	return n
}

// Succeeded is how many jobs reached their goal.
func (b Batch) Succeeded() int { return b.in(Over) - (b.Failures() - b.Parked()) }

// missed are the statuses of jobs that ended without reaching their goal.
func (l *Lifecycle) missed() []string {
	out := []string{}
	for _, status := range l.In(Over) {
		if !l.endsBy(status, TriggerComplete) && !l.endsBy(status, TriggerReconcile) {
			out = append(out, string(status))
		}
	}
	return out
}
