package bringup_test

import (
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

const scrubbing = "scrub_gpu"

func shortlyOff(p *plan) {
	quickLooks(p)
	p.config.StaysOff, p.config.PowerOffWithin = time.Millisecond, 100*time.Millisecond
}

func TestPowerCycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(3), shortlyOff)
	for i, rule := range []simfault.Rule{
		{},
		{Fault: simfault.LostAnswer, Operation: "machine.power_off", Count: 1},
		{Fault: simfault.ErrorAfter, Operation: "machine.power_on", Status: 500, Count: 1},
	} {
		t.Run("with "+string(rule.Fault), func(t *testing.T) {
			job := w.inService(t, i+1, "none")
			if rule.Fault != "" {
				rule.Machine = job.SystemID
				w.fault(t, rule)
			}
			if err := w.bringup.PowerCycle(system(t), job, scrubbing); err != nil {
				t.Fatal(err)
			}
			f := job.Facts.PowerCycle
			if !f.Of(scrubbing, job.Epoch) || f.OffAt == nil || f.OnAt == nil || !f.OnAt.After(*f.OffAt) {
				t.Errorf("on record is %+v", f)
			}
			if m := w.machine(t, job.SystemID); m.PowerState != "on" || m.Status != region.Deployed {
				t.Errorf("the machine is %s, %s", m.StatusName, m.PowerState)
			}
			before := w.asked.of("machine.power_off")
			if err := w.bringup.PowerCycle(system(t), job, scrubbing); err != nil || w.asked.of("machine.power_off") != before {
				t.Errorf("once more it ends with %v, %s", err, w.asked)
			}
		})
	}
}

// What was begun is gone on with: a machine that is off is not switched off again.
func TestPowerCycleGoesOnWhereItWasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1), shortlyOff)
	job := w.inService(t, 1, "none")
	w.fault(t, simfault.Rule{Fault: simfault.BMCFailure, Power: "on"})
	w.cycleFails(t, job, bringup.BMCPowerFailure)
	if f := job.Facts.PowerCycle; f.OffAt == nil || f.OnAt != nil {
		t.Fatalf("on record is %+v", f)
	}
	w.sim.Faults.Clear()
	job.Attempt++
	if err := w.bringup.PowerCycle(system(t), job, scrubbing); err != nil {
		t.Fatal(err)
	}
	if w.asked.of("machine.power_off") != 1 || w.machine(t, job.SystemID).PowerState != "on" {
		t.Errorf("it was asked %s", w.asked)
	}
}

func (w *world) cycleFails(t *testing.T, j *bringup.Work, class job.FailureClass) {
	t.Helper()
	err := w.bringup.PowerCycle(system(t), j, scrubbing)
	if f := bringup.Classify(err); err == nil || f.Class != class || f.Code.String() != "power_cycle_failed" {
		t.Errorf("it ends with %v, want %s", err, class)
	}
}

func TestPowerCycleFails(t *testing.T) {
	for name, c := range map[string]struct {
		rule  simfault.Rule
		class job.FailureClass
	}{
		"the BMC refuses":   {simfault.Rule{Fault: simfault.BMCFailure, Power: "off"}, bringup.BMCPowerFailure},
		"the BMC is silent": {simfault.Rule{Fault: simfault.BMCFailure, Power: "query"}, bringup.BMCPowerFailure},
		"it does not happen": {
			simfault.Rule{Fault: simfault.Ignored, Operation: "machine.power_off"}, bringup.BMCPowerFailure,
		},
		"MAAS is away": {simfault.Rule{
			Fault: simfault.ErrorBefore, Operation: "machine.query_power_state", Status: 503,
		}, bringup.UpstreamTransient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aFleet(1), shortlyOff)
			job := w.inService(t, 1, "none")
			w.fault(t, c.rule)
			w.cycleFails(t, job, c.class)
		})
	}
}

func TestPowerCycleThatWasTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1), shortlyOff)
	job := w.inService(t, 1, "none")
	interrupt(job, 1, func() error { return durable.Superseded("decommission", job.Job) })
	if err := w.bringup.PowerCycle(system(t), job, scrubbing); err == nil ||
		!strings.Contains(err.Error(), durable.CodeSuperseded) || w.asked.of("machine.power_off") != 0 {
		t.Errorf("it ends with %v, %s", err, w.asked)
	}
}
