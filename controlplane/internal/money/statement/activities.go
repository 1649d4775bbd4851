package statement

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
)

// Activities are what the schedule does. Both can be repeated at any time.
type Activities struct{ service *Service }

// RegisterWorker adds the workflow and its activities to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	w.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: WorkflowType})
	w.RegisterActivity(&Activities{s})
}

// CloseStatements closes the months that are over.
func (a *Activities) CloseStatements(ctx context.Context) error {
	return a.service.CloseDue(ctx, func() { activity.RecordHeartbeat(ctx) })
}

// CheckLedger compares the ledgers of all tenants with rated usage.
func (a *Activities) CheckLedger(ctx context.Context) error {
	_, err := a.service.Check(ctx, id.Org{}, func() { activity.RecordHeartbeat(ctx) })
	return err
}
