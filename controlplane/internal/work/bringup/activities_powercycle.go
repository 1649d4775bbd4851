package bringup

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
)

// PowerCycleFacts record how a machine was switched off and on for a stage.
type PowerCycleFacts struct {
	Stage string     `json:"stage"`
	Epoch int64      `json:"epoch"`
	OffAt *time.Time `json:"off_at,omitempty"` // when its BMC said that it is off
	OnAt  *time.Time `json:"on_at,omitempty"`  // when its BMC said that it is on again
}

// Of says whether the machine was, or is being, switched off and on for a stage.
func (f *PowerCycleFacts) Of(stage string, epoch int64) bool {
	return f != nil && f.Stage == stage && f.Epoch == epoch
}

// mostForPowerOn is how long a machine may take to be seen on.
const mostForPowerOn = 3 * time.Minute

// usuallyStaysOff is how long a machine stays off in a power cycle, because
// memory keeps its content for seconds without power.
const usuallyStaysOff = 30 * time.Second

// PowerCycle switches a machine off and on again for a stage, so that nothing
// in it has power for a while. It relies on what the BMC says, resumes where it
// was interrupted, and does nothing once it is done. It does not say whether
// the system of the machine has started again.
func (b *Bringup) PowerCycle(ctx context.Context, w *Work, stage string) error {
	done := w.Facts.PowerCycle
	if done.Of(stage, w.Epoch) && done.OnAt != nil {
		return nil
	}
	r, m, err := b.sameMachine(ctx, w)
	if err != nil {
		return err
	}
	if err := b.mayTouch(ctx, r, w, m); err != nil {
		return err
	}
	if m.EphemeralDeploy {
		return codePowerCycle.Failed("%s runs from memory and would lose its system if it was switched off", w.Hostname).
			With("clean it by a reimage, or override the stage, naming the residual risk").ForGood()
	}
	if !done.Of(stage, w.Epoch) {
		w.Facts.PowerCycle = &PowerCycleFacts{Stage: stage, Epoch: w.Epoch}
	}
	facts := w.Facts.PowerCycle
	if facts.OffAt == nil {
		if facts.OffAt, err = b.switched(ctx, r, w, maas.PowerOff); err != nil {
			return err
		}
		if err := w.Save(ctx); err != nil {
			return err
		}
	}
	if rest := b.cfg.StaysOff - b.now().Sub(*facts.OffAt); rest > 0 {
		if err := leaveAlone(ctx, rest); err != nil {
			return err
		}
	}
	if facts.OnAt, err = b.switched(ctx, r, w, maas.PowerOn); err != nil {
		return err
	}
	return w.Save(ctx)
}

// switched switches a machine off or on, and looks until its BMC says so.
func (b *Bringup) switched(ctx context.Context, r *region, w *Work, want maas.PowerState) (*time.Time, error) {
	if err := w.Fence(ctx); err != nil {
		return nil, err
	}
	most := b.cfg.PowerOffWithin
	var asked error
	if want == maas.PowerOff {
		_, asked = r.PowerOff(ctx, w.SystemID, false, comment(w))
	} else {
		most = max(most, mostForPowerOn)
		_, asked = r.PowerOn(ctx, w.SystemID, comment(w))
	}
	end := b.now().Add(most)
	for looks := 1; ; looks++ {
		state, err := r.QueryPower(ctx, w.SystemID)
		w.Heartbeat()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && state == want:
			w.Observed.Power, w.Observed.At = string(state), b.now()
			seen := b.now().UTC()
			return &seen, nil
		case asked != nil:
			return nil, notSwitched(w, want, state, asked)
		case !b.now().Before(end):
			return nil, notSwitched(w, want, state, err)
		}
		if err := leaveAlone(ctx, min(b.cfg.Retry(looks), max(end.Sub(b.now()), time.Millisecond))); err != nil {
			return nil, err
		}
	}
}

// notSwitched is the failure of a machine whose power is not proven to be as
// wanted. Errors that are not about the BMC keep their own class.
func notSwitched(w *Work, want, state maas.PowerState, cause error) *Failure {
	out := codePowerCycle.Failed("it is not proven that %s is %s: its power is %s", w.Hostname, want, state)
	if cause != nil {
		f := Classify(cause)
		out.Message += ": " + f.Message
		if f.Class == SiteCapabilityMissing || f.Class == UpstreamTransient {
			out.Class = f.Class
		}
	}
	return out.Because(cause).About(map[string]any{"power": string(state), "expected": string(want)})
}
