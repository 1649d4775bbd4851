package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpuaas/agent/internal/transport"
	"gpuaas/agent/internal/update"
)

// errTrialFailed ends a version that has not proven itself.
var errTrialFailed = errors.New("this version of the agent failed its trial and gives way to the one before")

// beginTrial gives a new version its time to prove itself: it must reach the control
// plane, and renew the certificate of the node. The caller calls reached whenever the
// control plane has answered.
func (a *Agent) beginTrial(ctx context.Context) (reached func(), err error) {
	change, pending, err := a.updates.Pending()
	if err != nil || !pending {
		return func() {}, err
	}
	a.o.Log.Info("this version is on trial", "version", change.To, "before", change.From)
	timer := time.AfterFunc(a.o.trial, func() {
		a.giveWay(ctx, "version "+change.To+" did not reach the control plane within "+a.o.trial.String())
	})
	settled, inTime, renewed := false, false, change.Back
	return func() {
		if settled {
			return
		}
		if !inTime && !timer.Stop() {
			settled = true // too late: it gives way already
			return
		}
		inTime = true
		if !renewed {
			failed := a.proveRenewal(ctx, change)
			if ctx.Err() != nil {
				return
			}
			if failed != "" {
				settled = true
				a.giveWay(ctx, failed)
				return
			}
			renewed = true
		}
		// The trial is passed. If the record cannot be written now, a later
		// contact writes it.
		if err := a.updates.Confirm(); err != nil {
			a.o.Log.Error("update not confirmed; it is tried again", "error", err)
			return
		}
		settled = true
		a.o.Log.Info("update confirmed", "version", change.To)
	}, nil
}

// giveWay lets the version before start next.
func (a *Agent) giveWay(ctx context.Context, why string) {
	if ctx.Err() != nil {
		return
	}
	a.o.Log.Error("trial failed", "reason", why)
	if err := a.updates.Rollback(why); err != nil {
		a.o.Log.Error("version before not restored", "error", err)
	}
	a.end(errTrialFailed)
}

// proveRenewal renews the certificate of the node with a version on trial: one that
// cannot do that would be lost when the certificate ends. It returns why the version must
// give way. A control plane that is not able to renew now says nothing about the version;
// the renewal is then tried again until it works, and the control plane watches for it.
func (a *Agent) proveRenewal(ctx context.Context, change update.Change) (failed string) {
	err := a.renew(ctx)
	switch kind := transport.KindOf(err); {
	case err == nil, ctx.Err() != nil:
		return ""
	case kind == transport.Unreachable, kind == transport.Unavailable:
		a.owed <- struct{}{}
		return ""
	}
	return fmt.Sprintf("version %s could not renew the certificate of the node: %v", change.To, err)
}
