package bringup_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

func quickLooks(p *plan) {
	p.config.Retry = func(int) time.Duration { return 5 * time.Millisecond }
}

// released is a decommission whose machine is free, and on again.
func (w *world) releasedAndOn(t *testing.T, n int) *bringup.Work {
	t.Helper()
	job := w.inService(t, n, "none")
	w.does(t, bringup.ReleaseMAASNode, job)
	w.happens(t, job.SystemID, "power_on")
	w.asked.reset()
	return job
}

func TestPowerOffMaasNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(4), quickLooks)
	t.Run("already off", func(t *testing.T) {
		job := w.inService(t, 1, "none")
		w.does(t, bringup.ReleaseMAASNode, job)
		out := w.does(t, bringup.PowerOffMAASNode, job)
		if f := evidence[bringup.PowerFacts](t, out, bringup.EvidencePowerOff); !out.Skipped || !f.Confirmed ||
			f.State != "off" || f.ObservedAt.IsZero() || w.asked.of("machine.power_off") != 0 {
			t.Errorf("it ends with %+v, %s", out, w.asked)
		}
	})
	for i, rule := range []simfault.Rule{
		{},
		{Fault: simfault.LostAnswer, Operation: "machine.power_off", Count: 1},
		{Fault: simfault.ErrorAfter, Operation: "machine.power_off", Status: 500, Count: 1},
	} {
		t.Run("on, "+string(rule.Fault), func(t *testing.T) {
			job := w.releasedAndOn(t, i+2)
			if rule.Fault != "" {
				rule.Machine = job.SystemID
				w.fault(t, rule)
			}
			out := w.does(t, bringup.PowerOffMAASNode, job)
			if f := evidence[bringup.PowerFacts](t, out, bringup.EvidencePowerOff); out.Skipped || !f.Confirmed ||
				f.State != "off" {
				t.Errorf("it ends with %+v", out)
			}
			if m := w.machine(t, job.SystemID); m.PowerState != "off" || m.Status != region.Ready ||
				job.Observed.Power != "off" {
				t.Errorf("the machine is %s, %s", m.StatusName, m.PowerState)
			}
		})
	}
}

// A machine is off when its BMC says so, and only then.
func TestPowerOffMaasNodeFails(t *testing.T) {
	cases := map[string]struct {
		rules []simfault.Rule
		class job.FailureClass
		code  string
		state string
	}{
		"the BMC refuses": {
			[]simfault.Rule{{Fault: simfault.BMCFailure, Power: "off"}},
			bringup.BMCPowerFailure,
			"power_off_failed", "on",
		},
		"the BMC is silent": {
			[]simfault.Rule{{Fault: simfault.BMCFailure, Power: "query"}},
			bringup.BMCPowerFailure,
			"power_query_failed", "error",
		},
		"it does not happen": {
			[]simfault.Rule{{Fault: simfault.Ignored, Operation: "machine.power_off"}},
			bringup.BMCPowerFailure, "power_off_unconfirmed", "on",
		},
		"nobody knows": {[]simfault.Rule{{
			Fault: simfault.Lie, Operation: "machine.query_power_state",
			Set: map[string]any{"state": "unknown"},
		}}, bringup.BMCPowerFailure, "power_off_unconfirmed", "unknown"},
		"MAAS is away": {[]simfault.Rule{{
			Fault: simfault.ErrorBefore, Operation: "machine.query_power_state",
			Status: 503,
		}}, bringup.UpstreamTransient, "power_query_failed", "error"},
		"MAAS does not let in": {[]simfault.Rule{{
			Fault: simfault.ErrorBefore, Operation: "machine.query_power_state",
			Status: 401,
		}}, bringup.SiteCapabilityMissing, "power_query_failed", "error"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aFleet(1), quickLooks)
			job := w.releasedAndOn(t, 1)
			for _, rule := range c.rules {
				w.fault(t, rule)
			}
			for attempt := 1; attempt <= 3; attempt++ {
				job.Attempt, job.Deadline = attempt, time.Now().Add(200*time.Millisecond)
				f := w.fails(t, bringup.PowerOffMAASNode, job, c.class, c.code)
				if last := c.class == bringup.SiteCapabilityMissing || c.class == bringup.BMCPowerFailure &&
					attempt > 2; f.Final != last {
					t.Errorf("attempt %d: final is %t", attempt, f.Final)
				}
				if got := job.Facts.PowerOff; got == nil || got.Confirmed || got.State != c.state {
					t.Errorf("attempt %d: on record is %+v", attempt, got)
				}
			}
			w.sim.Faults.Clear()
			job.Attempt, job.Deadline = 1, time.Now().Add(30*time.Second)
			if w.does(t, bringup.PowerOffMAASNode, job); !job.Facts.PowerOff.Confirmed {
				t.Error("it is not off even so")
			}
		})
	}
}

// A machine that has become somebody else's is left on.
func TestPowerOffMaasNodeOfSomebodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(2), quickLooks)
	job := w.releasedAndOn(t, 1)
	if _, err := w.sim.Deploy(admin, job.SystemID, url.Values{}); err != nil {
		t.Fatal(err)
	}
	w.until(t, job.SystemID, region.Deployed.String())
	w.fails(t, bringup.PowerOffMAASNode, job, bringup.StateAmbiguity, "machine_in_use")
	gone := w.releasedAndOn(t, 2)
	w.happens(t, gone.SystemID, "delete")
	w.fails(t, bringup.PowerOffMAASNode, gone, bringup.StateAmbiguity, "machine_gone")
	if w.asked.of("machine.power_off") != 0 || w.machine(t, job.SystemID).PowerState != "on" {
		t.Errorf("it was switched: %s", w.asked)
	}
}

func TestPowerOffMaasNodeThatWasTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1), quickLooks)
	job := w.releasedAndOn(t, 1)
	interrupt(job, 1, func() error { return durable.Superseded("decommission", job.Job) })
	if _, err := w.bringup.PowerOffMAASNode(system(t), job); err == nil ||
		!strings.Contains(err.Error(), durable.CodeSuperseded) || w.asked.of("machine.power_off") != 0 {
		t.Errorf("it ends with %v, %s", err, w.asked)
	}
}

func TestRemoveMaasRecord(t *testing.T) {
	t.Parallel()
	none := func(*testing.T, *world, *bringup.Work) {}
	cases := map[string]struct {
		policy  bool
		before  func(t *testing.T, w *world, job *bringup.Work)
		removed bool
		skipped bool
		left    bool // to somebody
	}{
		"left by policy": {before: none, skipped: true},
		"removed":        {policy: true, before: none, removed: true},
		"gone already": {policy: true, removed: true, before: func(t *testing.T, w *world, job *bringup.Work) {
			w.happens(t, job.SystemID, "delete")
		}},
		"answer lost": {policy: true, removed: true, before: func(t *testing.T, w *world, job *bringup.Work) {
			w.fault(t, simfault.Rule{Fault: simfault.LostAnswer, Operation: "machine.delete", Machine: job.SystemID, Count: 1})
		}},
		"refused": {policy: true, left: true, before: func(t *testing.T, w *world, job *bringup.Work) {
			w.fault(t, simfault.Rule{
				Fault: simfault.ErrorBefore, Operation: "machine.delete", Machine: job.SystemID,
				Status: 403,
			})
		}},
		"of somebody else by now": {policy: true, left: true, before: func(t *testing.T, w *world, job *bringup.Work) {
			if _, err := w.sim.Allocate(admin, url.Values{"system_id": {job.SystemID}}); err != nil {
				t.Fatal(err)
			}
		}},
		"another machine": {policy: true, left: true, before: func(_ *testing.T, _ *world, job *bringup.Work) {
			job.Hostname, job.IPMIIP = "other", "192.0.2.9"
		}},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, c := range cases {
		n++
		job := w.inService(t, n, "none")
		w.does(t, bringup.ReleaseMAASNode, job)
		t.Run(name, func(t *testing.T) {
			job.Profile.Policy.RemoveMAASRecord = c.policy
			c.before(t, w, job)
			out := w.does(t, bringup.RemoveMAASRecord, job)
			f := job.Facts.RecordRemoved
			if f == nil || f.Removed != c.removed || f.Why == "" || out.Skipped != c.skipped || out.Message == "" {
				t.Errorf("it ends with %+v, %+v", out, f)
			}
			if _, there := w.sim.Find(job.SystemID); there == c.removed {
				t.Errorf("MAAS has the machine: %t", there)
			}
			if !c.left {
				if len(out.Evidence) != 0 {
					t.Errorf("it leaves %+v", out.Evidence)
				}
				return
			}
			if up := evidence[bringup.FollowUp](t, out, bringup.EvidenceFollowUp); !strings.Contains(up.What, job.SystemID) ||
				up.Why == "" || !strings.Contains(up.Command, job.SystemID) {
				t.Errorf("it leaves %+v", up)
			}
		})
	}
}

// What is merely away is tried again before it is left to somebody.
func TestRemoveMaasRecordWhileMAASIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.inService(t, 1, "none")
	w.does(t, bringup.ReleaseMAASNode, job)
	job.Profile.Policy.RemoveMAASRecord = true
	w.fault(t, simfault.Rule{Fault: simfault.ErrorBefore, Operation: "machine.delete", Status: 503})
	for job.Attempt = 1; job.Attempt <= 2; job.Attempt++ {
		_, err := w.bringup.RemoveMAASRecord(system(t), job)
		if f := bringup.Classify(err); err == nil || f.Class != bringup.UpstreamTransient || f.Final {
			t.Fatalf("attempt %d ends with %v", job.Attempt, err)
		}
	}
	evidence[bringup.FollowUp](t, w.does(t, bringup.RemoveMAASRecord, job), bringup.EvidenceFollowUp)
	job.Fence = func(context.Context) error { return durable.Superseded("decommission", job.Job) }
	if _, err := w.bringup.RemoveMAASRecord(system(t), job); !errors.Is(err,
		durable.Superseded("decommission", job.Job)) && !strings.Contains(err.Error(), durable.CodeSuperseded) {
		t.Errorf("a job that was taken over ends with %v", err)
	}
}
