package bringup_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// inspectedByNobody is a world whose machine is being inspected by nobody, and whose
// clock can be put forward.
func inspectedByNobody(t *testing.T) (w *world, job *bringup.Work, ahead *atomic.Int64) {
	t.Helper()
	ahead = &atomic.Int64{}
	w = newWorld(t, func(p *plan) { p.sim.Passive = true }, aFleet(1), func(p *plan) {
		p.sim.Fleet.Stage = "new"
		p.config.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	job = w.work(1)
	w.upTo(t, bringup.WaitForReady, job)
	job.Since = time.Now()
	return w, job, ahead
}

// What is shown of a machine that is waited for is what MAAS shows now, not what
// it showed when the wait began.
func TestExplainShowsTheObservationOfNow(t *testing.T) {
	t.Parallel()
	w, job, _ := inspectedByNobody(t)
	noted := make(chan bringup.Observed, 10)
	job.Save = func(context.Context) error { noted <- job.Observed; return nil }
	ctx, stop := context.WithCancel(system(t))
	done := make(chan error, 1)
	go func() {
		_, err := w.bringup.WaitForReady(ctx, job)
		done <- err
	}()
	if first := <-noted; first.Power != "on" || first.Status != "Commissioning" || first.At.IsZero() {
		t.Errorf("first %+v", first)
	}
	w.happens(t, job.SystemID, "power_off")
	if then := <-noted; then.Power != "off" {
		t.Errorf("then %+v", then)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A wait whose job was taken over ends as soon as it would note something.
func TestAWaitThatWasTakenOverEnds(t *testing.T) {
	t.Parallel()
	w, job, _ := inspectedByNobody(t)
	job.Save = func(context.Context) error { return durable.Superseded("onboarding", job.Job) }
	if _, err := w.bringup.WaitForReady(system(t), job); fault.CodeOf(err) != durable.CodeSuperseded {
		t.Error(err)
	}
}

// An observation that is not of now is told with its age.
func TestAnOldObservationIsToldWithItsAge(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	m := bringup.Machine{Observed: bringup.Observed{Status: "Commissioning", Power: "on", At: now.Add(-time.Minute)}}
	if got := m.Seen(now).Text; got != "MAAS shows it as Commissioning, power on" {
		t.Error(got)
	}
	m.Observed.At = now.Add(-time.Hour)
	if got := m.Seen(now).Text; got != "MAAS showed it as Commissioning, power on, 1 h ago" {
		t.Error(got)
	}
}

// A machine that is Commissioning and of which nothing is heard is inspected anew
// once, long before the time of the profile is up, and named then.
func TestASilentCommissioningIsBegunAnewAndThenNamed(t *testing.T) {
	t.Parallel()
	w, job, ahead := inspectedByNobody(t)
	ahead.Store(int64(21 * time.Minute))
	f := w.fails(t, bringup.WaitForReady, job, bringup.PXEDiscoveryFailure, "commission_silent")
	if f.Next != bringup.CommissionNode || !strings.Contains(f.Message, "power is on") {
		t.Errorf("%+v", f)
	}
	w.fails(t, bringup.CommissionNode, job, bringup.UpstreamTransient, "commission_unbooted")
	w.does(t, bringup.CommissionNode, job)
	if m := w.machine(t, job.SystemID); m.Status != region.Commissioning || job.Facts.Commissions != 2 {
		t.Errorf("machine is %s after %d", m.StatusName, job.Facts.Commissions)
	}
	f = w.fails(t, bringup.WaitForReady, job, bringup.PXEDiscoveryFailure, "commission_silent")
	if f.Next != "" || !f.Final || !job.Facts.Hung {
		t.Errorf("%+v, hung %v", f, job.Facts.Hung)
	}
}

// An inspection that somebody began anew, or that goes on after all, is not ended
// because an earlier one was waited for in vain.
func TestAnInspectionThatIsHeardOfAgainGoesOn(t *testing.T) {
	t.Parallel()
	w, job, _ := inspectedByNobody(t)
	job.Facts.Hung = true
	w.does(t, bringup.CommissionNode, job)
	if m := w.machine(t, job.SystemID); m.Status != region.Commissioning {
		t.Errorf("machine is %s", m.StatusName)
	}
}

// A machine that is Commissioning and off is told apart from one that is on.
func TestACommissioningMachineThatIsOffIsBegunAnew(t *testing.T) {
	t.Parallel()
	w, job, ahead := inspectedByNobody(t)
	w.happens(t, job.SystemID, "power_off")
	job.Save = func(context.Context) error { ahead.Store(int64(16 * time.Minute)); return nil }
	f := w.fails(t, bringup.WaitForReady, job, bringup.BMCPowerFailure, "commission_unbooted")
	if f.Next != bringup.CommissionNode {
		t.Errorf("%+v", f)
	}
}

// Scripts may take long: a machine that runs them is not silent.
func TestScriptsThatTakeLongAreNotSilence(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	w := newWorld(t, func(p *plan) {
		p.config.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	job := w.work(1)
	w.fault(t, simfault.Rule{Fault: simfault.PhaseHangs, Phase: region.PhaseScripts})
	w.upTo(t, bringup.WaitForReady, job)
	job.Since = time.Now()
	for _, later := range []time.Duration{0, 40 * time.Minute} { // it runs them at the end of the first wait
		ahead.Store(int64(later))
		job.Deadline = time.Now().Add(time.Second)
		w.fails(t, bringup.WaitForReady, job, bringup.PXEDiscoveryFailure, "failed_commission_timeout")
	}
	if job.Facts.Hung {
		t.Error("a machine that runs scripts is interrupted by a rerun")
	}
}
