package bringup

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/work/job"
)

// PowerOffMAASNode names the stage "Switch it off".
const PowerOffMAASNode = "power_off_maas_node"

var _ = catalog.Declare(job.Stage{
	Name: PowerOffMAASNode, Title: "Switch it off", Attempts: 2, Resume: PowerOffMAASNode, Overridable: true,
	Usually: "under a minute",
	Looks:   "the power state",
	Does:    "switches it off through MAAS",
	Expects: "the power is seen to be off",
	Again:   "a machine that is off is left so",
	Fails:   []job.FailureMode{MAASAway, OutOfBand, {Class: BMCPowerFailure, When: "the BMC does not switch it off"}},
}, (*Bringup).PowerOffMAASNode)

// The codes of failures that only this stage has.
var (
	codePowerUnknown = job.DeclareCode(job.Code{
		Name: "power_query_failed", Class: BMCPowerFailure,
		Cause: "MAAS cannot ask the BMC whether the machine is on: wrong address or credentials, or IPMI " +
			"over LAN is off.",
		Remedy:  "check the BMC and how MAAS reaches it, or switch the machine off by hand, then resume",
		Runbook: "decommission-parked",
	})
	codePowerOffFailed = job.DeclareCode(job.Code{
		Name: "power_off_failed", Class: BMCPowerFailure,
		Cause:   "MAAS asked the BMC to switch the machine off, and that failed.",
		Remedy:  "check the BMC and how MAAS reaches it, or switch the machine off by hand, then resume",
		Runbook: "decommission-parked",
	})
	codePowerOffUnconfirmed = job.DeclareCode(job.Code{
		Name: "power_off_unconfirmed", Class: BMCPowerFailure,
		Cause:   "The BMC was asked to switch the machine off, and does not say that it is off.",
		Remedy:  "check the BMC and how MAAS reaches it, or switch the machine off by hand, then resume",
		Runbook: "decommission-parked",
	})
)

const (
	// mostForPowerOff is how long a machine may take to be seen off, as a rule.
	mostForPowerOff = 3 * time.Minute
	// powerAttempts is how often in a row a BMC may fail before another attempt
	// is taken to end the same.
	powerAttempts = 2
)

// PowerOffMAASNode switches the machine off. It is off when its BMC says so, and
// not when MAAS was asked for it; unknown is not off.
func (b *Bringup) PowerOffMAASNode(ctx context.Context, w *Work) (Result, error) {
	r, m, err := b.sameMachine(ctx, w)
	if err != nil {
		return Result{}, err
	}
	if err := b.mayTouch(ctx, r, w, m); err != nil {
		return Result{}, err
	}
	state, err := b.powerState(ctx, r, w)
	if err != nil {
		return Result{}, powerFailure(w, codePowerUnknown, state, err)
	}
	if state == maas.PowerOff {
		out := b.powerConfirmed(w)
		out.Skipped, out.Message = true, w.Hostname+" is off already, as its BMC says"
		return out, nil
	}
	if err := w.Fence(ctx); err != nil {
		return Result{}, err
	}
	_, asked := r.PowerOff(ctx, w.SystemID, false, comment(w))
	if asked != nil && ctx.Err() != nil {
		return Result{}, asked
	}
	return b.untilOff(ctx, r, w, asked)
}

// mayTouch refuses a machine that is somebody else's by now: one that is free,
// or held for this node, is not.
func (b *Bringup) mayTouch(ctx context.Context, r *region, w *Work, m maas.Machine) error {
	if m.Status.Free() || !occupies(m.Status) && m.Owner == "" {
		return b.refuseClaimed(ctx, w, m)
	}
	held, err := belongs(ctx, r, w, m)
	if err != nil || held {
		return err
	}
	return foreign(m, w)
}

// powerState asks the BMC, and keeps the answer.
func (b *Bringup) powerState(ctx context.Context, r *region, w *Work) (maas.PowerState, error) {
	state, err := r.QueryPower(ctx, w.SystemID)
	if err != nil {
		state = maas.PowerError
	}
	w.Observed.Power, w.Observed.At = string(state), b.now()
	w.Facts.PowerOff = &PowerFacts{State: string(state), ObservedAt: b.now().UTC(), Confirmed: state == maas.PowerOff}
	return state, err
}

// untilOff looks until the BMC says off. A request that failed is looked after
// once: it may have had its effect.
func (b *Bringup) untilOff(ctx context.Context, r *region, w *Work, asked error) (Result, error) {
	end := b.now().Add(b.cfg.PowerOffWithin)
	if !w.Deadline.IsZero() && w.Deadline.Before(end) {
		end = w.Deadline
	}
	for looks := 1; ; looks++ {
		state, err := b.powerState(ctx, r, w)
		w.Heartbeat()
		switch {
		case ctx.Err() != nil:
			return Result{}, ctx.Err()
		case err == nil && state == maas.PowerOff:
			out := b.powerConfirmed(w)
			out.Message = w.Hostname + " was switched off, as its BMC says"
			return out, nil
		case asked != nil:
			return Result{}, powerFailure(w, codePowerOffFailed, state, asked)
		case !b.now().Before(end):
			return Result{}, powerFailure(w, codePowerOffUnconfirmed, state, err)
		}
		if err := leaveAlone(ctx, min(b.cfg.Retry(looks), max(end.Sub(b.now()), time.Millisecond))); err != nil {
			return Result{}, err
		}
	}
}

func (b *Bringup) powerConfirmed(w *Work) Result {
	return Result{
		Details:  map[string]any{"power": w.Facts.PowerOff.State, "observed_at": w.Facts.PowerOff.ObservedAt},
		Evidence: []Evidence{{Kind: EvidencePowerOff, Value: *w.Facts.PowerOff}},
	}
}

// powerFailure says that the machine may still be on. What is not about the BMC
// keeps its own class.
func powerFailure(w *Work, code *job.Code, state maas.PowerState, cause error) *Failure {
	what := fmt.Sprintf("it is not proven that %s is off: its power is %s", w.Hostname, state)
	out := code.Failed("%s", what)
	if cause != nil {
		f := Classify(cause)
		out.Message += ": " + f.Message
		if f.Class == SiteCapabilityMissing || f.Class == UpstreamTransient {
			out.Class = f.Class
		}
	}
	out.Final = out.Class == SiteCapabilityMissing || out.Class == BMCPowerFailure && w.Attempt > powerAttempts
	return out.Because(cause).
		With("check the BMC and how MAAS reaches it, or switch the machine off by hand, then resume").
		About(map[string]any{"power": string(state), "expected": string(maas.PowerOff)})
}
