package durable

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
)

// correlation carries the correlation id from the starter of a workflow into
// the workflow and all its activities.
type correlation struct{}

const correlationHeader = "correlation-id"

type correlationKey struct{}

func (correlation) Inject(ctx context.Context, w workflow.HeaderWriter) error {
	return inject(telemetry.Correlation(ctx), w)
}

func (correlation) InjectFromWorkflow(ctx workflow.Context, w workflow.HeaderWriter) error {
	s, _ := ctx.Value(correlationKey{}).(string)
	return inject(s, w)
}

func inject(id string, w workflow.HeaderWriter) error {
	p, err := converter.GetDefaultDataConverter().ToPayload(id)
	if err != nil {
		return err
	}
	w.Set(correlationHeader, p)
	return nil
}

func extract(r workflow.HeaderReader) (id string, err error) {
	if p, ok := r.Get(correlationHeader); ok {
		err = converter.GetDefaultDataConverter().FromPayload(p, &id)
	}
	return id, err
}

func (correlation) Extract(ctx context.Context, r workflow.HeaderReader) (context.Context, error) {
	id, err := extract(r)
	return telemetry.WithCorrelation(ctx, id), err
}

func (correlation) ExtractToWorkflow(ctx workflow.Context, r workflow.HeaderReader) (workflow.Context, error) {
	id, err := extract(r)
	if id == "" {
		id, _ = ctx.Value(correlationKey{}).(string)
	}
	if id == "" {
		// A schedule started this workflow, so no request gave it a correlation
		// id: its run id takes that place.
		id = workflow.GetInfo(ctx).WorkflowExecution.RunID
	}
	return workflow.WithValue(ctx, correlationKey{}, id), err
}

// faultInterceptor gives every activity its identity, and turns its error into
// what the history may hold, so that no activity has to do either.
type faultInterceptor struct {
	interceptor.WorkerInterceptorBase
	logger *slog.Logger
}

func (f *faultInterceptor) InterceptActivity(_ context.Context,
	next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &faultActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, f.logger}
}

type faultActivity struct {
	interceptor.ActivityInboundInterceptorBase
	logger *slog.Logger
}

func (a *faultActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	ctx = auth.With(ctx, auth.System("workflow:"+info.WorkflowExecution.ID))
	out, err := a.Next.ExecuteActivity(ctx, in)
	if err != nil {
		a.logger.WarnContext(ctx, "activity failed", "activity", info.ActivityType.Name,
			"workflow_id", info.WorkflowExecution.ID, "attempt", info.Attempt, "error", err)
	}
	return out, toTemporal(err)
}
