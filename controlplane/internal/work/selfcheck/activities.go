package selfcheck

import (
	"context"
	"crypto/subtle"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
)

// Secrets stores, reads and removes secrets.
type Secrets interface {
	Put(ctx context.Context, path string, values map[string]redact.Secret) error
	Get(ctx context.Context, path string) (map[string]redact.Secret, error)
	Delete(ctx context.Context, path string) error
}

// Deliveries knows whether all events of an aggregate have been delivered.
type Deliveries interface {
	Delivered(ctx context.Context, aggregateKind, aggregateID string) (bool, error)
}

// Activities are the effects of a self-check. Workflow histories record their
// names, so each name must be unique in the product.
type Activities struct {
	Commands Commands
	Secrets  Secrets
	Events   Deliveries
}

// Register adds the workflow and its activities to a worker.
func Register(a *Activities) func(worker.Registry) {
	return func(w worker.Registry) {
		w.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: workflowType})
		w.RegisterActivity(a)
	}
}

// BeginSelfCheck marks a check as begun.
func (a *Activities) BeginSelfCheck(ctx context.Context, check id.SelfCheck) (bool, error) {
	return a.Commands.begin(ctx, check)
}

// RunSelfCheckStep carries out one step. All of them are safe to repeat.
func (a *Activities) RunSelfCheckStep(ctx context.Context, check id.SelfCheck, name string) error {
	if err := a.Commands.waitFor(ctx, check, name); err != nil {
		return err
	}
	switch name {
	case StepDatabase:
		return nil // recording the step already wrote to the database
	case StepEvents:
		delivered, err := a.Events.Delivered(ctx, aggregate, check.String())
		if err == nil && !delivered {
			err = errNotDelivered
		}
		return err
	case StepSecrets:
		return a.secretRoundTrip(ctx, check)
	}
	return fault.New(fault.Internal, "step_unknown", "there is no step %s", name)
}

func (a *Activities) secretRoundTrip(ctx context.Context, check id.SelfCheck) error {
	path, canary := "self-check/"+check.String(), redact.New(id.NewString())
	if err := a.Secrets.Put(ctx, path, map[string]redact.Secret{"canary": canary}); err != nil {
		return err
	}
	back, err := a.Secrets.Get(ctx, path)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(back["canary"].Reveal()), []byte(canary.Reveal())) != 1 {
		return fault.New(fault.Internal, "secret_changed", "the secrets engine gave back another secret than was stored").
			WithRemedy("check that all replicas talk to the same secrets engine")
	}
	return a.Secrets.Delete(ctx, path)
}

// FinishSelfCheck records the outcome.
func (a *Activities) FinishSelfCheck(ctx context.Context, check id.SelfCheck, event Event, done []Step) error {
	return a.Commands.finish(ctx, check, event, done)
}
