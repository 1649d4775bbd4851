package balance

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/engine/durable"
)

// Activities are the effects of a run. Workflow histories record their names, so each
// name must be unique in the product.
type Activities struct{ Service *Service }

// RegisterWorker adds the workflow and its activities to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	w.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: WorkflowType})
	w.RegisterWorkflowWithOptions(ChargeWorkflow, workflow.RegisterOptions{Name: ChargeWorkflowType})
	w.RegisterActivity(&Activities{Service: s})
}

// ChargeUsage books what was used.
func (a *Activities) ChargeUsage(ctx context.Context) error {
	defer beat(ctx)()
	if err := a.Service.clocksAgree(ctx); err != nil {
		return err
	}
	return a.Service.cfg.Charges.Tend(ctx)
}

// EvaluateBalances looks at the balances, and at the budgets.
func (a *Activities) EvaluateBalances(ctx context.Context) error {
	defer beat(ctx)()
	if err := a.Service.clocksAgree(ctx); err != nil {
		return err
	}
	err := a.Service.Evaluate(ctx)
	if a.Service.cfg.Budgets != nil {
		err = errors.Join(err, a.Service.cfg.Budgets.Evaluate(ctx))
	}
	return err
}

// beatEvery is how often a run says that its worker lives.
const beatEvery = 5 * time.Second

// beat sends heartbeats until the returned function is called, so that the work of a
// process that died is given to another one.
func beat(ctx context.Context) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	go func() {
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return stop
}

const schedulePrefix = "billing/"

// Keep makes sure that Temporal starts the workflows again and again. Any number of
// replicas may call it.
func (s *Service) Keep(ctx context.Context) error {
	if s.cfg.Schedules == nil {
		return nil
	}
	every := s.cfg.Every.Truncate(time.Second)
	return s.cfg.Schedules.KeepSchedules(ctx, schedulePrefix, []durable.Schedule{
		{ID: schedulePrefix + "window", Every: every, Workflow: WorkflowType, WorkflowID: "billing-window"},
		{ID: schedulePrefix + "charge", Every: every, Workflow: ChargeWorkflowType, WorkflowID: "billing-charge"},
	})
}
