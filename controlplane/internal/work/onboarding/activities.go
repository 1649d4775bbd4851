package onboarding

import (
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// RegisterWorker adds the workflows and their activities to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	s.jobs.RegisterWorker(w, Workflow)
	w.RegisterWorkflowWithOptions(BatchWorkflow, workflow.RegisterOptions{Name: batchWorkflowType})
	w.RegisterActivityWithOptions(s.admission, activity.RegisterOptions{Name: admitActivity})
}
