package bringup_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

const (
	releasedNode = "User releasing node"
	erasedDisk   = "User erasing disk"
)

// inService is a decommission of the nth machine of a fleet, which another job
// has deployed as a node.
func (w *world) inService(t *testing.T, n int, erase string) *bringup.Work {
	t.Helper()
	before := w.ready(t, n)
	w.deployed(t, before)
	return w.decommission(t, before, erase)
}

// decommission is one of the node that another job has brought up.
func (w *world) decommission(t *testing.T, before *bringup.Work, erase string) *bringup.Work {
	t.Helper()
	at := time.Now()
	err := w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
		return binding.Bind(ctx, tx, binding.Binding{
			Node: before.Node, Site: before.Site.ID, Profile: before.Profile.ID, SystemID: before.SystemID,
			IPMIIP: before.IPMIIP, SeenAt: &at,
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	job := w.work(1)
	job.Kind, job.WorkflowID, job.Erase, job.Prior = "decommission", "decommission-"+job.Job, erase,
		[]string{id.NewString(), before.Job}
	job.Node, job.Hostname, job.IPMIIP, job.SystemID = before.Node, before.Hostname, before.IPMIIP, before.SystemID
	w.asked.reset()
	return job
}

// evidence is the only evidence of a kind that a result has.
func evidence[T any](t *testing.T, r bringup.Result, kind string) (v T) {
	t.Helper()
	ok := len(r.Evidence) == 1 && r.Evidence[0].Kind == kind
	if ok {
		v, ok = r.Evidence[0].Value.(T)
	}
	if !ok {
		t.Fatalf("there is no %s alone in %+v", kind, r.Evidence)
	}
	return v
}

func fallback(on bool) func(*plan) {
	return func(p *plan) { p.policy.ReleaseFallbackNoErase = set(on) }
}

func TestReleaseMaasNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(3))
	for i, erase := range []string{"none", "quick", "secure"} {
		t.Run(erase, func(t *testing.T) {
			job := w.inService(t, i+1, erase)
			out := w.does(t, bringup.ReleaseMAASNode, job)
			f := evidence[bringup.ReleaseFacts](t, out, bringup.EvidenceRelease)
			if f.Requested != erase || f.Achieved != erase || f.FellBack || f.MinimumErase != "none" || f.RequestedAt == nil ||
				f.EndedAt == nil || len(f.Ladder) != 0 {
				t.Errorf("the evidence is %+v", f)
			}
			reported := strings.Join(f.Reported, "\n")
			if !strings.Contains(reported, "status Ready") || strings.Contains(reported, "Disks erased") != (erase != "none") ||
				!strings.Contains(reported, job.Job) {
				t.Errorf("MAAS is quoted as %s", reported)
			}
			m := w.machine(t, job.SystemID)
			if m.Status != region.Ready || m.PowerState != "off" || job.Observed.Status != "Ready" {
				t.Errorf("the machine is %s, %s, seen as %s", m.StatusName, m.PowerState, job.Observed.Status)
			}
			if again := w.does(t, bringup.ReleaseMAASNode, job); !again.Skipped || len(again.Evidence) != 0 ||
				w.asked.of("machine.release") != 1 {
				t.Errorf("a second run does %+v, %s", again, w.asked)
			}
			w.told(t, job, out)
		})
	}
}

func TestReleaseMaasNodeReleaseFails(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		rule  simfault.Rule
		class job.FailureClass
	}{
		"MAAS is away": {simfault.Rule{
			Fault: simfault.ErrorBefore, Operation: "machine.release", Status: 503,
			Count: 1,
		}, bringup.UpstreamTransient},
		"MAAS breaks off": {simfault.Rule{
			Fault: simfault.ErrorBefore, Operation: "machine.release", Status: 500,
			Count: 1,
		}, bringup.UpstreamTransient},
		"the BMC fails": {simfault.Rule{Fault: simfault.BMCFailure, Power: "off", Count: 1}, bringup.BMCPowerFailure},
		"MAAS says it, and not": {simfault.Rule{
			Fault: simfault.Ignored, Operation: "machine.release", Count: 1,
			Set: map[string]any{"status": 12, "status_name": "Releasing"},
		}, bringup.UpstreamTransient},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, c := range cases {
		n++
		job := w.inService(t, n, "quick")
		t.Run(name, func(t *testing.T) {
			c.rule.Machine = job.SystemID
			w.fault(t, c.rule)
			if f := w.fails(t, bringup.ReleaseMAASNode, job, c.class, "release_failed"); f.Final {
				t.Error("it is not tried again")
			}
			if m := w.machine(t, job.SystemID); m.Status != region.Deployed || job.Facts.Release.EndedAt != nil {
				t.Errorf("the machine is %s", m.StatusName)
			}
			if f := evidence[bringup.ReleaseFacts](t, w.does(t, bringup.ReleaseMAASNode, job),
				bringup.EvidenceRelease); f.Achieved != "quick" || f.FellBack {
				t.Errorf("then %+v", f)
			}
		})
	}
}

func TestReleaseMaasNodeEraseFails(t *testing.T) {
	t.Parallel()
	hangs := simfault.Rule{Fault: simfault.HangErase, Count: 1}
	fails := simfault.Rule{Fault: simfault.FailErase, Count: 1}
	cases := map[string]struct {
		rule     simfault.Rule
		fallback bool
		least    site.Erase
		code     string // empty: it is released without erasing
		status   region.Status
	}{
		"with fallback": {rule: fails, fallback: true},
		"without fallback": {
			rule: fails, code: "release_erase_failed",
			status: region.FailedDiskErasing,
		},
		"with fallback, below the minimum": {
			rule: fails, fallback: true, least: site.EraseQuick,
			code: "release_erase_failed", status: region.FailedDiskErasing,
		},
		"too late, with fallback":    {rule: hangs, fallback: true},
		"too late, without fallback": {rule: hangs, code: "release_erase_failed", status: region.DiskErasing},
		"too late, with fallback, below minimum": {
			rule: hangs, fallback: true, least: site.EraseSecure,
			code: "release_erase_failed", status: region.DiskErasing,
		},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, c := range cases {
		n++
		job := w.inService(t, n, "secure")
		t.Run(name, func(t *testing.T) {
			job.Profile.Policy.ReleaseFallbackNoErase, job.Profile.Policy.MinimumErase = c.fallback, c.least
			if c.rule.Fault == simfault.HangErase {
				job.Profile.Policy.ReleaseTimeoutSeconds = 1
			}
			c.rule.Machine = job.SystemID
			w.fault(t, c.rule)
			if c.code == "" {
				out := w.does(t, bringup.ReleaseMAASNode, job)
				f := evidence[bringup.ReleaseFacts](t, out, bringup.EvidenceRelease)
				if !f.FellBack || f.FallbackReason == "" || f.DecidedBy != bringup.DecidedByPolicy || f.Requested != "secure" ||
					f.Achieved != "none" || !strings.Contains(out.Message, f.FallbackReason) {
					t.Errorf("the downgrade is told as %+v, %s", f, out.Message)
				}
				w.until(t, job.SystemID, region.Ready.String())
				return
			}
			f := w.fails(t, bringup.ReleaseMAASNode, job, bringup.StateAmbiguity, c.code)
			if m := w.machine(t, job.SystemID); m.Status != c.status || !f.Final || job.Facts.Release.FellBack ||
				f.Details["maas_said"] == nil {
				t.Errorf("the machine is %s, the failure %+v", m.StatusName, f.Details)
			}
			if c.rule.Fault != simfault.FailErase {
				return
			}
			again := evidence[bringup.ReleaseFacts](t, w.does(t, bringup.ReleaseMAASNode, job), bringup.EvidenceRelease)
			if again.Achieved != "secure" || again.FellBack {
				t.Errorf("another attempt ends with %+v", again)
			}
		})
	}
}

func TestReleaseMaasNodeBelowTheMinimum(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1), func(p *plan) { p.policy.MinimumErase = set(site.EraseSecure) })
	job := w.inService(t, 1, "quick")
	w.fails(t, bringup.ReleaseMAASNode, job, bringup.InputConfigError, "erase_below_minimum")
	job.Erase = "everything"
	w.fails(t, bringup.ReleaseMAASNode, job, bringup.InputConfigError, "erase_unknown")
	if w.asked.of("machine.release") != 0 || job.Facts.Release != nil {
		t.Errorf("MAAS was asked: %s", w.asked)
	}
	job.Erase = "secure"
	if f := evidence[bringup.ReleaseFacts](t, w.does(t, bringup.ReleaseMAASNode, job),
		bringup.EvidenceRelease); f.Achieved != "secure" || f.MinimumErase != "secure" {
		t.Errorf("it ends with %+v", f)
	}
}

// An erase that MAAS does not report has not happened, whatever it became.
func TestReleaseMaasNodeEraseThatIsNotReported(t *testing.T) {
	for name, allowed := range map[string]bool{"refused": false, "a downgrade": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aFleet(1), fallback(false))
			job := w.inService(t, 1, "quick")
			job.Profile.Policy.ReleaseTimeoutSeconds = 1
			w.fault(t, simfault.Rule{Fault: simfault.HangErase, Count: 1})
			w.fails(t, bringup.ReleaseMAASNode, job, bringup.StateAmbiguity, "release_erase_failed")
			w.happens(t, job.SystemID, "release")
			job.Profile.Policy.ReleaseFallbackNoErase = allowed
			if !allowed {
				w.fails(t, bringup.ReleaseMAASNode, job, bringup.StateAmbiguity, "release_erase_unproven")
				return
			}
			if f := evidence[bringup.ReleaseFacts](t, w.does(t, bringup.ReleaseMAASNode, job),
				bringup.EvidenceRelease); !f.FellBack || f.Achieved != "none" || f.FallbackReason == "" {
				t.Errorf("it ends with %+v", f)
			}
		})
	}
}

func TestReleaseMaasNodeStuckInReleasing(t *testing.T) {
	cases := map[string]struct {
		rules  []simfault.Rule
		code   string // empty: it is released in the end
		ladder []string
	}{
		"by the ladder": {ladder: []string{"mark_broken", "mark_fixed", "power_off"}},
		"cannot be broken": {[]simfault.Rule{{
			Fault: simfault.ErrorBefore, Operation: "machine.mark_broken", Status: 403,
			Count: 1,
		}}, "release_stuck", []string{"mark_broken"}},
		"cannot be fixed": {[]simfault.Rule{{
			Fault: simfault.ErrorBefore, Operation: "machine.mark_fixed", Status: 500,
			Count: 1,
		}}, "release_stuck", []string{"mark_broken", "mark_fixed"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aFleet(1))
			job := w.inService(t, 1, "none")
			job.Profile.Policy.ReleaseTimeoutSeconds = 1
			w.fault(t, simfault.Rule{Fault: simfault.StuckOff, Count: 1})
			for _, rule := range c.rules {
				w.fault(t, rule)
			}
			if c.code != "" {
				w.fails(t, bringup.ReleaseMAASNode, job, bringup.StateAmbiguity, c.code)
				if !slices.Equal(job.Facts.Release.Ladder, c.ladder) || job.Facts.Release.EndedAt != nil {
					t.Errorf("on record is %+v", job.Facts.Release)
				}
			}
			// Where it was left off, it is taken up.
			out := w.does(t, bringup.ReleaseMAASNode, job)
			f := evidence[bringup.ReleaseFacts](t, out, bringup.EvidenceRelease)
			if !slices.Equal(f.Ladder, []string{"mark_broken", "mark_fixed", "power_off"}) ||
				!strings.Contains(out.Message, "mark_broken") {
				t.Errorf("on record is %+v", f)
			}
			if m := w.machine(t, job.SystemID); m.Status != region.Ready || m.PowerState != "off" {
				t.Errorf("the machine is %s, %s", m.StatusName, m.PowerState)
			}
		})
	}
}

// What became of a request whose answer was lost is found out by looking.
func TestReleaseMaasNodeAnswerLost(t *testing.T) {
	t.Parallel()
	cases := map[string]simfault.Rule{
		"broken off":   {Fault: simfault.LostAnswer, Operation: "machine.release"},
		"an error":     {Fault: simfault.ErrorAfter, Operation: "machine.release", Status: 500},
		"half of one":  {Fault: simfault.Truncate, Operation: "machine.release"},
		"another time": {Fault: simfault.ErrorAfter, Operation: "machine.release", Status: 503},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, rule := range cases {
		n++
		job := w.inService(t, n, "quick")
		t.Run(name, func(t *testing.T) {
			rule.Machine, rule.Count = job.SystemID, 1
			w.fault(t, rule)
			if f := evidence[bringup.ReleaseFacts](t, w.does(t, bringup.ReleaseMAASNode, job),
				bringup.EvidenceRelease); f.Achieved != "quick" {
				t.Errorf("it ends with %+v", f)
			}
			if got := w.requested(t, job, erasedDisk); got != 1 {
				t.Errorf("it was asked for %d times", got)
			}
		})
	}
}

// A worker that dies leaves nothing that the next one would do twice.
func TestReleaseMaasNodeWorkerDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(3))
	t.Run("before it asks", func(t *testing.T) {
		job := w.inService(t, 1, "quick")
		interrupt(job, 1, func() error { return durable.Superseded("decommission", job.Job) })
		if _, err := w.bringup.ReleaseMAASNode(system(t), job); err == nil ||
			!strings.Contains(err.Error(), durable.CodeSuperseded) {
			t.Fatalf("it ends with %v", err)
		}
		if m := w.machine(t, job.SystemID); m.Status != region.Deployed || w.asked.of("machine.release") != 0 {
			t.Errorf("the machine is %s", m.StatusName)
		}
	})
	t.Run("while MAAS does not answer", func(t *testing.T) {
		job := w.inService(t, 2, "quick")
		w.fault(t, simfault.Rule{Fault: simfault.Hang, Operation: "machine.release", Machine: job.SystemID})
		ctx, die := context.WithTimeout(system(t), 200*time.Millisecond)
		defer die()
		if _, err := w.bringup.ReleaseMAASNode(ctx, job); err == nil {
			t.Fatal("it succeeds")
		}
		w.sim.Faults.Clear() // a slow machine may not have asked in time: the next attempt must not hang instead
		if f := evidence[bringup.ReleaseFacts](t, w.does(t, bringup.ReleaseMAASNode, job),
			bringup.EvidenceRelease); f.Achieved != "quick" {
			t.Errorf("it ends with %+v", f)
		}
	})
	t.Run("before it can tell the end", func(t *testing.T) {
		job := w.inService(t, 3, "secure")
		w.does(t, bringup.ReleaseMAASNode, job)
		job.Facts = bringup.Facts{}
		if f := evidence[bringup.ReleaseFacts](t, w.does(t, bringup.ReleaseMAASNode, job),
			bringup.EvidenceRelease); f.Achieved != "secure" || w.requested(t, job, erasedDisk) != 1 {
			t.Errorf("it ends with %+v", f)
		}
	})
}

// What is not proven to be the node's is not released.
func TestReleaseMaasNodeAmbiguity(t *testing.T) {
	t.Parallel()
	free := func(t *testing.T, w *world, job *bringup.Work) { w.happens(t, job.SystemID, "release") }
	cases := map[string]struct {
		before func(t *testing.T, w *world, job *bringup.Work)
		code   string
		status region.Status
	}{
		"released elsewhere": {free, "released_elsewhere", region.Ready},
		"released by an administrator": {func(t *testing.T, w *world, job *bringup.Work) {
			if _, err := w.sim.Release(t.Context(), admin, job.SystemID, url.Values{"comment": {"not needed"}}); err != nil {
				t.Fatal(err)
			}
			w.until(t, job.SystemID, region.Ready.String())
		}, "released_elsewhere", region.Ready},
		"being released elsewhere": {func(t *testing.T, w *world, job *bringup.Work) {
			w.fault(t, simfault.Rule{Fault: simfault.StuckOff, Machine: job.SystemID, Count: 1})
			if _, err := w.sim.Release(t.Context(), admin, job.SystemID, url.Values{}); err != nil {
				t.Fatal(err)
			}
		}, "released_elsewhere", region.Releasing},
		"marked broken": {func(t *testing.T, w *world, job *bringup.Work) {
			if _, err := w.sim.MarkBroken(t.Context(), admin, job.SystemID, url.Values{}); err != nil {
				t.Fatal(err)
			}
		}, "released_elsewhere", region.Broken},
		"deployed by somebody else": {func(t *testing.T, w *world, job *bringup.Work) {
			free(t, w, job)
			if _, err := w.sim.Deploy(admin, job.SystemID, url.Values{}); err != nil {
				t.Fatal(err)
			}
			w.until(t, job.SystemID, region.Deployed.String())
		}, "machine_in_use", region.Deployed},
		"held by the job of a stranger": {
			func(_ *testing.T, _ *world, job *bringup.Work) { job.Prior = []string{""} },
			"machine_in_use", region.Deployed,
		},
		"in rescue mode": {func(t *testing.T, w *world, job *bringup.Work) {
			if _, err := w.sim.Rescue(t.Context(), admin, job.SystemID, true); err != nil {
				t.Fatal(err)
			}
			w.until(t, job.SystemID, region.RescueMode.String())
		}, "machine_in_use", region.RescueMode},
		"another machine": {func(_ *testing.T, _ *world, job *bringup.Work) {
			job.Hostname, job.IPMIIP = "other",
				"192.0.2.9"
		}, "machine_replaced", region.Deployed},
		"bound to another one": {func(t *testing.T, w *world, job *bringup.Work) {
			if _, err := w.owner.Exec(t.Context(), `UPDATE node_maas_state SET maas_system_id = 'zzzzzz' WHERE node_id = $1`, job.Node); err != nil {
				t.Fatal(err)
			}
		}, "machine_replaced", region.Deployed},
		"bound to none": {
			func(_ *testing.T, _ *world, job *bringup.Work) { job.Node = id.New[id.Node]() }, "machine_unbound",
			region.Deployed,
		},
	}
	w := newWorld(t, aFleet(len(cases)+1))
	n := 0
	for name, c := range cases {
		n++
		job := w.inService(t, n, "none")
		t.Run(name, func(t *testing.T) {
			c.before(t, w, job)
			w.asked.reset()
			if f := w.fails(t, bringup.ReleaseMAASNode, job, bringup.StateAmbiguity, c.code); !f.Final {
				t.Error("it is tried again")
			}
			if m := w.machine(t, job.SystemID); m.Status != c.status ||
				w.asked.of("machine.release")+w.asked.of("machine.mark_broken")+w.asked.of("machine.power_off") != 0 {
				t.Errorf("the machine is %s; asked for was %s", m.StatusName, w.asked)
			}
		})
	}
	for _, what := range []string{"recreate"} {
		job := w.inService(t, len(cases)+1, "none")
		w.happens(t, job.SystemID, what)
		if w.fails(t, bringup.ReleaseMAASNode, job, bringup.StateAmbiguity,
			"machine_gone"); job.Observed.Status != bringup.Absent {
			t.Errorf("it was seen as %s", job.Observed.Status)
		}
	}
}

// A machine without an annotation is the node's if MAAS was last asked to deploy
// it by a job of the node.
func TestReleaseMaasNodeByTheRecordOfMAAS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(2))
	for i, known := range []bool{true, false} {
		job := w.inService(t, i+1, "none")
		if _, err := w.sim.SetAnnotations(admin, job.SystemID, url.Values{"gpuaas-job": {""}}); err != nil {
			t.Fatal(err)
		}
		if !known {
			job.Prior = nil
			w.fails(t, bringup.ReleaseMAASNode, job, bringup.StateAmbiguity, "machine_in_use")
			continue
		}
		w.does(t, bringup.ReleaseMAASNode, job)
	}
}
