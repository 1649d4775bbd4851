package bringup_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
	"gpuaas/testkit"
)

// bmcSettings are what MAAS would speak to the BMC of a machine with.
func (w *world) bmcSettings(tb testing.TB, id string) map[string]any {
	tb.Helper()
	p, err := w.sim.PowerParameters(admin, id)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestAMachineGetsItsNameAndPowerSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, known(1, "new"))
	job := w.work(1)
	w.edit(t, job.Hostname, url.Values{"hostname": {"able-ant"}})
	w.does(t, bringup.CreateOrFindInMAAS, job)
	w.does(t, bringup.CommissionNode, job)
	w.does(t, bringup.WaitForReady, job)
	if m, p := w.machine(t, job.SystemID), w.bmcSettings(t, job.SystemID); m.Hostname != job.Hostname ||
		p["power_user"] != "root" || p["power_pass"] != powerPass {
		t.Errorf("machine is %s, its BMC is reached by %v", m.Hostname, p["power_user"])
	}
	if w.asked.of("machine.put") != 1 || w.asked.of("machine.commission") != 1 {
		t.Errorf("MAAS was asked %s", w.asked)
	}

	// Credentials that are rotated, or chosen anew by the MAC, are written.
	if _, err := w.sites.CreatePowerOverride(system(t), w.site.ID, site.NewPowerOverride{
		Selector: site.Selector{Type: site.ByPXEMAC, Value: job.PXEMAC},
		Credentials: site.PowerCredentials{
			User: "special", Pass: redact.New(overridePass),
			PowerParameters: site.PowerParameters{PowerDriver: "LAN_2_0", CipherSuiteID: "17"},
		},
	}); err != nil {
		t.Fatal(err)
	}
	w.does(t, bringup.CommissionNode, job)
	if p := w.bmcSettings(t, job.SystemID); p["power_user"] != "special" || p["power_pass"] != overridePass {
		t.Errorf("the BMC is reached by %v", p["power_user"])
	} else if p["cipher_suite_id"] != "17" || p["power_driver"] != "LAN_2_0" {
		t.Errorf("MAAS speaks to the BMC by %v, %v", p["power_driver"], p["cipher_suite_id"])
	}
	if w.asked.of("machine.put") != 2 || w.asked.of("machine.commission") != 1 {
		t.Errorf("MAAS was asked %s", w.asked)
	}
	// So is an address that somebody changed.
	w.edit(t, job.SystemID, url.Values{"power_parameters_power_address": {"10.0.0.99"}})
	w.does(t, bringup.CommissionNode, job)
	if p := w.bmcSettings(t, job.SystemID); p["power_address"] != job.IPMIIP {
		t.Errorf("the BMC is at %v", p["power_address"])
	}
	w.discreetWork(t, job)
}

func TestCommissioningDependsOnTheStatus(t *testing.T) {
	t.Parallel()
	failing := func(phase string) func(t *testing.T, w *world, job *bringup.Work) {
		return func(t *testing.T, w *world, job *bringup.Work) {
			w.fault(t, simfault.Rule{Fault: simfault.PhaseFails, Phase: phase, Count: 1})
			if _, err := w.sim.Commission(t.Context(), admin, job.SystemID, url.Values{}); err != nil {
				t.Fatal(err)
			}
			w.until(t, job.SystemID, "Failed")
		}
	}
	for name, c := range map[string]struct {
		stage   string
		change  func(t *testing.T, w *world, job *bringup.Work)
		commits int // commissionings by the stage
	}{
		"new":                  {"new", nil, 1},
		"ready":                {"ready", nil, 0},
		"failed commissioning": {"new", failing(region.PhaseScripts), 1},
		"failed testing":       {"new", failing(region.PhaseTests), 1},
		"broken": {"ready", func(t *testing.T, w *world, job *bringup.Work) {
			if _, err := w.sim.Allocate(admin, url.Values{"system_id": {job.SystemID}}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.sim.MarkBroken(t.Context(), admin, job.SystemID, url.Values{}); err != nil {
				t.Fatal(err)
			}
			w.until(t, job.SystemID, "Broken")
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, known(1, c.stage))
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			if c.change != nil {
				c.change(t, w, job)
			}
			w.asked.reset()
			w.does(t, bringup.CommissionNode, job)
			w.does(t, bringup.WaitForReady, job)
			if n := w.asked.of("machine.commission"); n != c.commits || w.machine(t, job.SystemID).StatusName != "Ready" {
				t.Errorf("%d commissionings, machine is %s", n, w.machine(t, job.SystemID).StatusName)
			}
		})
	}
}

// until waits for a status of the machine that begins with a word.
func (w *world) until(tb testing.TB, id, word string) {
	tb.Helper()
	testkit.Eventually(tb, "machine that is "+word, func() bool {
		return strings.HasPrefix(w.machine(tb, id).StatusName, word)
	})
}

// slow makes commissioning take until the test is over.
func slow(p *plan) {
	p.sim.Timing.Ranges = map[string]region.Range{region.PhaseScripts: {
		Least: time.Hour, Usual: time.Hour,
		Most: time.Hour,
	}}
}

func TestCommissioningThatIsUnderWayIsWaitedFor(t *testing.T) {
	w := newWorld(t, known(1, "new"), slow)
	job := w.work(1)
	w.does(t, bringup.CreateOrFindInMAAS, job)
	for range 2 {
		w.does(t, bringup.CommissionNode, job)
	}
	if n := w.asked.of("machine.commission"); n != 1 || job.Facts.Commissions != 1 {
		t.Errorf("%d commissionings", n)
	}
}

func TestALostAnswerCommissionsOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []simfault.Kind{simfault.LostAnswer, simfault.ErrorAfter, simfault.Truncate} {
		for _, pace := range []struct {
			name   string
			adjust func(*plan)
		}{{"at once", func(*plan) {}}, {"slowly", slow}} {
			t.Run(string(kind)+" "+pace.name, func(t *testing.T) {
				w := newWorld(t, pace.adjust)
				job := w.work(1)
				w.upTo(t, bringup.CommissionNode, job)
				w.fault(t, simfault.Rule{Operation: "machine.commission", Fault: kind, Count: 1})
				w.does(t, bringup.CommissionNode, job)
				w.does(t, bringup.CommissionNode, job)
				if n := w.asked.of("machine.commission"); n != 1 {
					t.Errorf("%d commissionings", n)
				}
			})
		}
	}
	t.Run("the update", func(t *testing.T) {
		w := newWorld(t, known(1, "new"))
		job := w.work(1)
		w.does(t, bringup.CreateOrFindInMAAS, job)
		w.fault(t, simfault.Rule{Operation: "machine.put", Fault: simfault.LostAnswer, Count: 1})
		if f := w.fails(t, bringup.CommissionNode, job, bringup.UpstreamTransient, "update_unproven"); f.Final {
			t.Error("it is not tried again")
		}
		w.does(t, bringup.CommissionNode, job)
	})
	t.Run("nothing was done", func(t *testing.T) {
		w := newWorld(t)
		job := w.work(1)
		w.upTo(t, bringup.CommissionNode, job)
		w.fault(t, simfault.Rule{Operation: "machine.commission", Fault: simfault.ErrorBefore, Count: 1})
		if f := w.fails(t, bringup.CommissionNode, job, bringup.UpstreamTransient, "commission_unproven"); f.Final {
			t.Error("it is not tried again")
		}
		w.does(t, bringup.CommissionNode, job)
		w.does(t, bringup.WaitForReady, job)
	})
}

func TestABMCThatMAASCannotReachIsTold(t *testing.T) {
	w := newWorld(t)
	job := w.work(1)
	w.upTo(t, bringup.CommissionNode, job)
	w.fault(t, simfault.Rule{Fault: simfault.BMCFailure, Count: 3})
	f := w.fails(t, bringup.CommissionNode, job, bringup.BMCPowerFailure, "maas_bmc_failure")
	if f.Final || f.Details["maas_events"] == nil {
		t.Errorf("failure is %+v", f)
	}
}

func TestATakenOverJobCommissionsNothing(t *testing.T) {
	w := newWorld(t, known(1, "new"))
	job := w.work(1)
	w.does(t, bringup.CreateOrFindInMAAS, job)
	before := w.sim.Changes()
	job.Fence = func(context.Context) error { return durable.Superseded("onboarding", job.Job) }
	if _, err := w.bringup.CommissionNode(system(t), job); err == nil || w.sim.Changes() != before {
		t.Errorf("%v, %d changes", err, w.sim.Changes()-before)
	}
}

func TestAMachineThatDoesNotBecomeReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan    func(*plan)
		rule    *simfault.Rule
		during  func(t *testing.T, w *world, job *bringup.Work)
		class   job.FailureClass
		code    string
		hurried bool
	}{
		"scripts fail": {
			rule: &simfault.Rule{Fault: simfault.FailCommissioning}, class: bringup.HardwareMismatch,
			code: "failed_commission",
		},
		"tests fail": {
			rule: &simfault.Rule{Fault: simfault.FailTesting}, class: bringup.HardwareMismatch,
			code: "failed_commission",
		},
		"it never boots, and the profile gives up": {
			rule: &simfault.Rule{Fault: simfault.PhaseHangs, Phase: region.PhasePXE}, hurried: true,
			class: bringup.PXEDiscoveryFailure, code: "failed_commission_timeout",
		},
		"it never boots, and MAAS gives up": {
			plan:  func(p *plan) { p.sim.Timing.Speed = 36000 },
			rule:  &simfault.Rule{Fault: simfault.PhaseHangs, Phase: region.PhasePXE},
			class: bringup.PXEDiscoveryFailure, code: "failed_commission_timeout",
		},
		"somebody aborts": {plan: slow, during: func(t *testing.T, w *world, job *bringup.Work) {
			if _, err := w.sim.Abort(t.Context(), admin, job.SystemID, url.Values{}); err != nil {
				t.Error(err)
			}
		}, class: bringup.StateAmbiguity, code: "commission_aborted"},
		"somebody removes it": {plan: slow, during: func(t *testing.T, w *world, job *bringup.Work) {
			w.happens(t, job.SystemID, "delete")
		}, class: bringup.StateAmbiguity, code: "machine_gone"},
		"somebody deploys it": {plan: slow, during: func(t *testing.T, w *world, job *bringup.Work) {
			w.happens(t, job.SystemID, "redeploy")
		}, class: bringup.StateAmbiguity, code: "machine_in_use"},
	} {
		t.Run(name, func(t *testing.T) {
			adjust := c.plan
			if adjust == nil {
				adjust = func(*plan) {}
			}
			w := newWorld(t, adjust)
			job := w.work(1)
			if c.rule != nil {
				w.fault(t, *c.rule)
			}
			w.upTo(t, bringup.WaitForReady, job)
			job.Since = time.Now()
			if c.hurried {
				job.Deadline = time.Now().Add(500 * time.Millisecond)
			}
			if c.during != nil {
				done := make(chan struct{})
				time.AfterFunc(50*time.Millisecond, func() { c.during(t, w, job); close(done) })
				defer func() { <-done }()
			}
			f := w.fails(t, bringup.WaitForReady, job, c.class, c.code)
			if !f.Final || job.Observed.Status == "" {
				t.Errorf("failure is %+v, observed %+v", f, job.Observed)
			}
			if events, some := f.Details["maas_events"].([]string); some && len(events) > 5 {
				t.Errorf("%d events", len(events))
			}
		})
	}
}

func TestAMachineThatThePowerOfCannotBeControlledIsNotAHardwareProblem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slow)
	job := w.work(1)
	w.upTo(t, bringup.WaitForReady, job)
	// MAAS gives up on the BMC after it has accepted: the machine is New again.
	if _, err := w.sim.Abort(t.Context(), admin, job.SystemID, url.Values{}); err != nil {
		t.Fatal(err)
	}
	w.until(t, job.SystemID, "New")
	w.fault(t, simfault.Rule{Fault: simfault.BMCFailure})
	if _, err := w.sim.Commission(t.Context(), admin, job.SystemID, url.Values{}); err == nil {
		t.Fatal("the BMC does not fail")
	}
	w.fails(t, bringup.WaitForReady, job, bringup.BMCPowerFailure, "failed_commission")
}

func TestAWaitEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slow)
	job := w.work(1)
	w.upTo(t, bringup.WaitForReady, job)
	ctx, stop := context.WithCancel(system(t))
	time.AfterFunc(50*time.Millisecond, stop)
	if _, err := w.bringup.WaitForReady(ctx, job); !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ends with %v", err)
	}
}

// A token that is rotated while machines are waited for ends no wait.
func TestAWaitOutlivesARotation(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	w := newWorld(t, func(p *plan) {
		p.config.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		p.sim.Timing.Ranges = map[string]region.Range{region.PhaseScripts: {
			Least: 2 * time.Second, Usual: 2 * time.Second,
			Most: 2 * time.Second,
		}}
	})
	job := w.work(1)
	w.upTo(t, bringup.WaitForReady, job)
	done := make(chan error, 1)
	go func() {
		_, err := w.bringup.WaitForReady(system(t), job)
		done <- err
	}()
	token, ok := w.sim.CreateToken(admin, "rotated").(map[string]string)
	if !ok {
		t.Fatal("the simulator gives tokens in another form")
	}
	if _, err := w.sites.SetCredentials(system(t), w.site.ID,
		site.Credentials{APIToken: redact.New(token["consumer_key"] + ":" + token["token_key"] + ":" +
			token["token_secret"])}); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(10 * time.Second))
	w.does(t, bringup.LoadSiteConfig, w.work(2)) // opens the region anew, and closes the old one
	if err := <-done; err != nil || job.Observed.Status != "Ready" {
		t.Errorf("the wait ends with %v, machine is %s", err, job.Observed.Status)
	}
}

func TestMAASThatDoesNotAnswerIsWaitedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.work(1)
	w.upTo(t, bringup.WaitForReady, job)
	w.fault(t, simfault.Rule{Operation: "machine.get", Fault: simfault.ErrorBefore, Status: 503})
	f := w.fails(t, bringup.WaitForReady, job, bringup.UpstreamTransient, "maas_unreachable")
	if f.Final {
		t.Error("it is not tried again")
	}
	w.sim.Faults.Clear()
	w.does(t, bringup.WaitForReady, job)
}

// Many machines that are waited for at once cost MAAS little more than one.
func TestABatchIsWaitedForWithSharedLooks(t *testing.T) {
	t.Parallel()
	const machines = 60
	w := newWorld(t, func(p *plan) {
		p.sim.Fleet = fleet.Options{Unknown: machines}
		p.sim.Timing.Ranges = map[string]region.Range{region.PhaseScripts: {
			Least: 2 * time.Second, Usual: 2 * time.Second,
			Most: 2 * time.Second,
		}}
		p.config.Watch.Pace = func(maas.Status) (least, most time.Duration) { return time.Second, 2 * time.Second }
	})
	var all sync.WaitGroup
	for n := range machines {
		all.Go(func() {
			job := w.work(n + 1)
			for _, stage := range beforeDeploy {
				if _, err := w.bringup.Stages()[stage](system(t), job); err != nil {
					t.Errorf("%s of %s: %v", stage, job.Hostname, err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := w.asked.total(); n > 13*machines || w.asked.of("machines.post") != machines ||
		w.asked.of("machine.commission") != machines {
		t.Errorf("%d requests for %d machines: %s", n, machines, w.asked)
	}
	t.Logf("%.1f requests for each of %d machines: %s", float64(w.asked.total())/machines, machines, w.asked)
}
