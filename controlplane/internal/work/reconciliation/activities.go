package reconciliation

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
)

// Activities are the effects of a run. Workflow histories record their names,
// so each name must be unique in the product.
type Activities struct{ Service *Service }

// RegisterWorker adds the workflow and its activities to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	w.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: WorkflowType})
	w.RegisterActivity(&Activities{Service: s})
}

// ReconcileSite takes the first look of a run. If no second look is needed, it
// ends the run.
func (a *Activities) ReconcileSite(ctx context.Context, in Input) (Looked, error) {
	return a.Service.Reconcile(beating(ctx), in)
}

// LookAgain takes the second look at what the first one showed.
func (a *Activities) LookAgain(ctx context.Context, in Input) error {
	return a.Service.ReconcileAgain(beating(ctx), in)
}

type heartbeat struct{}

// beating returns a context with which a look sends heartbeats to Temporal.
func beating(ctx context.Context) context.Context {
	return context.WithValue(ctx, heartbeat{}, func() { activity.RecordHeartbeat(ctx) })
}

// Reconcile carries a run out up to its second look. Temporal may repeat it: it
// sees what an earlier attempt did and does not do it again.
func (s *Service) Reconcile(ctx context.Context, in Input) (Looked, error) {
	var looked Looked
	err := s.alone(ctx, in, func(ctx context.Context) error {
		run, err := s.begin(ctx, in)
		if err != nil || run.EndedAt != nil {
			return err
		}
		c, err := s.open(ctx, run)
		if code := fault.CodeOf(err); code == "site_disabled" || code == "not_found" {
			return s.skip(ctx, run, err)
		}
		if err != nil {
			return err
		}
		if run.Resolution != "" {
			if err := c.resolve(ctx); err != nil {
				return err
			}
			return c.finish(ctx, true)
		}
		if err := c.reconcile(ctx); err != nil {
			return err
		}
		again, err := c.needsAnother(ctx)
		if err != nil {
			return err
		}
		if again {
			looked.Again = s.settings.LookAgainAfter
		}
		return c.finish(ctx, !again)
	})
	return looked, err
}

// ReconcileAgain takes the second look of a run and ends the run.
func (s *Service) ReconcileAgain(ctx context.Context, in Input) error {
	return s.alone(ctx, in, func(ctx context.Context) error {
		run, err := in.own(s.RunOf(ctx, in.Run))
		if fault.KindOf(err) == fault.NotFound || err == nil && run.EndedAt != nil {
			return nil
		}
		if err != nil {
			return err
		}
		report := run.Report
		c, err := s.open(ctx, run)
		if code := fault.CodeOf(err); code == "site_disabled" || code == "not_found" {
			return s.skip(ctx, run, err)
		}
		if err != nil {
			return err
		}
		c.run.Report = report
		if err := c.lookAgain(ctx); err != nil {
			return err
		}
		return c.finish(ctx, true)
	})
}

// alone runs a look while no other run looks at the site, and renews that claim
// until the look ends.
func (s *Service) alone(ctx context.Context, in Input, look func(context.Context) error) error {
	if telemetry.Correlation(ctx) == "" { // the schedule started this run, so no request gave it a correlation id
		ctx = telemetry.WithCorrelation(ctx, id.NewString())
	}
	ctx = auth.With(ctx, auth.System(principal))
	holder := id.New[id.ReconciliationRun]() // an earlier attempt of the run may still hold the site
	if err := s.takeSite(ctx, in.Site, holder); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.keepSite(ctx, in.Site, holder, stop)
	}()
	err := look(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	stop(nil)
	<-done
	if left := s.leaveSite(context.WithoutCancel(ctx), in.Site, holder); err == nil {
		err = left
	}
	return err
}

// keepSite renews the claim on a site. If the claim is lost, it stops the look.
func (s *Service) keepSite(ctx context.Context, at id.Site, holder id.ReconciliationRun, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if beat, ok := ctx.Value(heartbeat{}).(func()); ok {
			beat()
		}
		if err := s.takeSite(ctx, at, holder); err != nil && fault.CodeOf(err) == "site_busy" {
			stop(err)
			return
		}
	}
}
