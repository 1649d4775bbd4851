package job_test

import (
	"testing"

	"gpuaas/controlplane/internal/work/job"
)

func TestEveryOperatorActionLeavesAParkedJob(t *testing.T) {
	for _, err := range job.Parking.Table.Validate() {
		t.Error(err)
	}
	for _, parked := range []job.Status{job.FailedRetryable, job.FailedManualIntervention} {
		for _, action := range []job.Trigger{
			job.RetryStage, job.Resume, job.Rerun, job.RestartClean, job.Cancel,
			job.AdoptObserved,
		} {
			if _, err := job.Parking.Table.Next(parked, action); err != nil {
				t.Errorf("%s of a job that is %s: %v", action, parked, err)
			}
		}
	}
}

// Also while it is being undone: that may be for a restart, which can be called
// off.
func TestEveryJobThatHasNotEndedCanBeCancelled(t *testing.T) {
	for _, s := range job.Parking.Table.States {
		if _, err := job.Parking.Table.Next(s.Name, job.Cancel); (err == nil) == s.Terminal {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

func TestAFailedJobIsParkedNeverClosed(t *testing.T) {
	terminal := map[job.Status]bool{job.Completed: true, job.Cancelled: true, job.Reconciled: true}
	for _, s := range job.Parking.Table.States {
		if s.Terminal != terminal[s.Name] {
			t.Errorf("%s: terminal = %v", s.Name, s.Terminal)
		}
	}
	for _, from := range job.Parking.Table.States {
		for _, event := range job.Parking.Table.AllEvents() {
			to, err := job.Parking.Table.Next(from.Name, event)
			parked := from.Name == job.FailedRetryable || from.Name == job.FailedManualIntervention
			if err == nil && to == job.Reconciled && !parked && from.Name != job.Running { // running: after an adoption
				t.Errorf("%s leads from %s to reconciled", event, from.Name)
			}
		}
	}
}
