package durable_test

import (
	"testing"

	"gpuaas/controlplane/internal/engine/durable"
)

func TestEveryOperatorActionLeavesAParkedJob(t *testing.T) {
	for _, err := range durable.JobLifecycle.Validate() {
		t.Error(err)
	}
	for _, parked := range []durable.JobStatus{durable.JobFailedRetryable, durable.JobFailedManualIntervention} {
		for _, action := range []durable.JobEvent{
			durable.JobRetryStage, durable.JobResume, durable.JobRerun, durable.JobRestartClean, durable.JobCancel,
			durable.JobAdoptObserved,
		} {
			if _, err := durable.JobLifecycle.Next(parked, action); err != nil {
				t.Errorf("%s of a job that is %s: %v", action, parked, err)
			}
		}
	}
}

// Also while it is being undone: that may be for a restart, which can be called
// off.
func TestEveryJobThatHasNotEndedCanBeCancelled(t *testing.T) {
	for _, s := range durable.JobLifecycle.States {
		if _, err := durable.JobLifecycle.Next(s.Name, durable.JobCancel); (err == nil) == s.Terminal {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

func TestAFailedJobIsParkedNeverClosed(t *testing.T) {
	terminal := map[durable.JobStatus]bool{
		durable.JobCompleted: true, durable.JobCancelled: true,
		durable.JobReconciled: true,
	}
	for _, s := range durable.JobLifecycle.States {
		if s.Terminal != terminal[s.Name] {
			t.Errorf("%s: terminal = %v", s.Name, s.Terminal)
		}
	}
	for _, from := range durable.JobLifecycle.States {
		for _, event := range durable.JobLifecycle.AllEvents() {
			to, err := durable.JobLifecycle.Next(from.Name, event)
			parked := from.Name == durable.JobFailedRetryable || from.Name == durable.JobFailedManualIntervention
			// running: after an adoption
			if err == nil && to == durable.JobReconciled && !parked && from.Name != durable.JobRunning {
				t.Errorf("%s leads from %s to reconciled", event, from.Name)
			}
		}
	}
}
