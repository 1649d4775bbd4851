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

// Activities are the effects of a run. Their names are unique in the product:
// they are the names in the histories.
type Activities struct{ Service *Service }

// RegisterWorker adds the workflow and its activities to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	w.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: WorkflowType})
	w.RegisterActivity(&Activities{Service: s})
}

// ReconcileSite is the first look of a run, and all of one that needs no second.
func (a *Activities) ReconcileSite(ctx context.Context, in Input) (Looked, error) {
	return a.Service.Reconcile(beating(ctx), in)
}

// LookAgain is the second look at what the first one showed.
func (a *Activities) LookAgain(ctx context.Context, in Input) error {
	return a.Service.ReconcileAgain(beating(ctx), in)
}

type heartbeat struct{}

// beating lets a run say that it is at it.
func beating(ctx context.Context) context.Context {
	return context.WithValue(ctx, heartbeat{}, func() { activity.RecordHeartbeat(ctx) })
}

// Reconcile is one run up to its second look. It may be repeated: what an
// earlier attempt did is seen, and not done again.
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

// ReconcileAgain is the second look of a run, and its end.
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

// alone runs a look while no other run has the site, and says that it is at it.
func (s *Service) alone(ctx context.Context, in Input, look func(context.Context) error) error {
	if telemetry.Correlation(ctx) == "" { // nobody asked for a run of the schedule
		ctx = telemetry.WithCorrelation(ctx, id.NewString())
	}
	ctx = auth.With(ctx, auth.System(principal))
	holder := id.New[id.ReconciliationRun]() // of this attempt: an earlier one at the same run may still be at it
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

// keepSite renews the right to look at a site, and ends a look that lost it.
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
