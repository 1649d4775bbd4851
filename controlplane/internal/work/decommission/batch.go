package decommission

import "gpuaas/controlplane/internal/work/job"

// BatchState is how a batch is getting on.
type BatchState string

// The states of batches.
const (
	BatchRunning   BatchState = "running"
	BatchHalted    BatchState = "halted" // too many have failed: no further one is begun
	BatchCancelled BatchState = "cancelled"
	BatchSettled   BatchState = "settled" // each has ended or is parked
)

// State says how the batch is getting on.
func (b Batch) State() BatchState {
	waiting := b.Counts[job.Pending]
	busy := b.Counts[job.Running] + b.Counts[job.Compensating]
	switch {
	case b.CancelledAt != nil:
		return BatchCancelled
	case waiting > 0 && b.Failures() > b.MaxFailures:
		return BatchHalted
	case waiting+busy == 0:
		return BatchSettled
	}
	return BatchRunning
}
