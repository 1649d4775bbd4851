package bringup_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
)

// known makes MAAS know so many servers; MAAS calls them as work does.
func known(n int, stage string) func(*plan) {
	return func(p *plan) { p.sim.Fleet = fleet.Options{Machines: n, Stage: stage} }
}

func TestAMachineIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, w *world, job *bringup.Work)
		by     string
		most   int // requests
	}{
		"by host name": {by: "hostname", most: 2},
		"by the address of its BMC": {
			change: func(_ *testing.T, _ *world, job *bringup.Work) { job.Hostname = "another-name" },
			by:     "power_address", most: 4,
		},
		"by an address that MAAS writes otherwise": {
			change: func(t *testing.T, w *world, job *bringup.Work) {
				w.edit(t, hostname(1), url.Values{"power_parameters_power_address": {"FD00:0::1"}})
				job.Hostname, job.IPMIIP = "another-name", "fd00::1"
			},
			by: "power_address", most: 4,
		},
		"by its PXE MAC": {
			change: func(t *testing.T, w *world, job *bringup.Work) {
				job.PXEMAC = w.machine(t, hostname(1)).BootInterface.MAC
				w.edit(t, hostname(1), url.Values{"power_type": {"manual"}})
				job.Hostname = "another-name"
			},
			by: "pxe_mac", most: 4,
		},
		"by host name, before MAAS knows a BMC": {
			change: func(t *testing.T, w *world, _ *bringup.Work) {
				w.edit(t, hostname(1), url.Values{"power_type": {"manual"}})
			},
			by: "hostname", most: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, known(3, "new"))
			job, id := w.work(1), w.machine(t, hostname(1)).SystemID
			if c.change != nil {
				c.change(t, w, job)
			}
			w.does(t, bringup.CreateOrFindInMAAS, job)
			if job.SystemID != id || job.Facts.IdentifiedBy != c.by || w.saves.Load() != 1 {
				t.Errorf("found %s by %s, want %s by %s", job.SystemID, job.Facts.IdentifiedBy, id, c.by)
			}
			if n := w.asked.total(); n > c.most || w.asked.of("machines.post") > 0 {
				t.Errorf("MAAS was asked %d times: %s", n, w.asked)
			}
			if out := w.does(t, bringup.CreateOrFindInMAAS, job); !out.Skipped || job.Facts.IdentifiedBy != c.by {
				t.Errorf("the second time: %+v, %+v", out, job.Facts)
			}
		})
	}
}

// edit changes the record of a machine out of band.
func (w *world) edit(tb testing.TB, name string, f url.Values) {
	tb.Helper()
	if _, err := w.sim.Update(admin, w.machine(tb, name).SystemID, f); err != nil {
		tb.Fatal(err)
	}
}

func TestContradictingEvidenceStops(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, w *world, job *bringup.Work) []string{
		"name of one, BMC of another": func(t *testing.T, w *world, job *bringup.Work) []string {
			job.IPMIIP = fleet.BMCAddress(2)
			return []string{w.machine(t, hostname(1)).SystemID, w.machine(t, hostname(2)).SystemID}
		},
		"two with the same BMC": func(t *testing.T, w *world, job *bringup.Work) []string {
			w.edit(t, hostname(2), url.Values{"power_parameters_power_address": {job.IPMIIP}})
			return []string{w.machine(t, hostname(1)).SystemID, w.machine(t, hostname(2)).SystemID}
		},
		"name of one, MAC of another": func(t *testing.T, w *world, job *bringup.Work) []string {
			job.PXEMAC = w.machine(t, hostname(2)).BootInterface.MAC
			return []string{w.machine(t, hostname(1)).SystemID, w.machine(t, hostname(2)).SystemID}
		},
		"name with a BMC that nobody has": func(_ *testing.T, _ *world, job *bringup.Work) []string {
			job.IPMIIP = "10.99.99.99"
			return []string{"10.99.99.99", fleet.BMCAddress(1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, known(3, "ready"))
			job := w.work(1)
			named := change(t, w, job)
			before := w.sim.Changes()
			f := w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.StateAmbiguity, "discovery_conflict")
			for _, n := range named {
				if !strings.Contains(f.Message, n) {
					t.Errorf("%q does not name %s", f.Message, n)
				}
			}
			if !f.Final || job.SystemID != "" || w.sim.Changes() != before || w.saves.Load() != 0 {
				t.Errorf("failure is %+v, job has %q", f, job.SystemID)
			}
		})
	}
}

func TestAMachineOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stage  string
		change func(t *testing.T, w *world, job *bringup.Work)
		code   string
	}{
		"deployed": {stage: "deployed", code: "machine_in_use"},
		"allocated": {stage: "ready", code: "machine_in_use", change: func(t *testing.T, w *world, job *bringup.Work) {
			if _, err := w.sim.Allocate(admin, url.Values{"system_id": {w.machine(t, job.Hostname).SystemID}}); err != nil {
				t.Fatal(err)
			}
		}},
		"of another job": {
			stage: "deployed", code: "machine_in_use",
			change: func(t *testing.T, w *world, job *bringup.Work) {
				if _, err := w.sim.SetAnnotations(admin, w.machine(t, job.Hostname).SystemID,
					url.Values{"gpuaas-job": {"other"}}); err != nil {
					t.Fatal(err)
				}
			},
		},
		"a node already": {stage: "ready", code: "machine_bound", change: func(t *testing.T, w *world, job *bringup.Work) {
			w.bind(t, job, w.machine(t, job.Hostname).SystemID)
		}},
	} {
		for _, stage := range []string{bringup.CreateOrFindInMAAS, bringup.CommissionNode} {
			if c.code == "machine_bound" && stage == bringup.CommissionNode {
				continue // who came there has claimed it
			}
			t.Run(name+"/"+stage, func(t *testing.T) {
				w := newWorld(t, known(1, c.stage))
				job := w.work(1)
				if c.change != nil {
					c.change(t, w, job)
				}
				if stage == bringup.CommissionNode {
					job.SystemID = w.machine(t, job.Hostname).SystemID
				}
				before := w.sim.Changes()
				if f := w.fails(t, stage, job, bringup.StateAmbiguity, c.code); !f.Final || job.Observed.Status == "" {
					t.Errorf("failure is %+v, observed %+v", f, job.Observed)
				}
				if w.sim.Changes() != before {
					t.Error("the machine was changed")
				}
			})
		}
	}
}

// bind makes another node of a machine.
func (w *world) bind(tb testing.TB, job *bringup.Work, systemID string) {
	tb.Helper()
	const other = "01900000-0000-7000-8000-000000000001"
	const made = `INSERT INTO nodes (id, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, status) VALUES ($1, 'other', 'other', $2, 8, 'eu-1', 'maas', 'active')`
	if _, err := w.owner.Exec(tb.Context(), made, other, someSKU); err != nil {
		tb.Fatal(err)
	}
	const bound = `INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id, ipmi_ip) VALUES ($1, $2, $3, $4, $5)`
	if _, err := w.owner.Exec(tb.Context(), bound, other, job.Site.ID, job.Profile.ID, systemID, job.IPMIIP); err != nil {
		tb.Fatal(err)
	}
}

// A machine of this job that is further than expected is not touched by the
// stages before.
func TestAMachineThatThisJobDeployedIsNotPreparedAgain(t *testing.T) {
	w := newWorld(t, known(1, "deployed"))
	job := w.work(1)
	job.SystemID = w.machine(t, job.Hostname).SystemID
	if _, err := w.sim.SetAnnotations(admin, job.SystemID, url.Values{"gpuaas-job": {job.Job}}); err != nil {
		t.Fatal(err)
	}
	before := w.sim.Changes()
	for _, stage := range beforeDeploy {
		w.does(t, stage, job)
	}
	if w.sim.Changes() != before || job.Observed.Status != "Deployed" {
		t.Errorf("the machine was changed, or not seen: %+v, %s", job.Observed, w.asked)
	}
}

func TestALostAnswerMakesNoSecondMachine(t *testing.T) {
	t.Parallel()
	for _, kind := range []simfault.Kind{simfault.LostAnswer, simfault.ErrorAfter, simfault.Truncate} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t)
			w.fault(t, simfault.Rule{Operation: "machines.post", Fault: kind, Count: 1})
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			if w.asked.of("machines.post") != 1 || w.sim.Count() != 1 || job.Facts.IdentifiedBy != "created" {
				t.Errorf("%d machines, %s, %+v", w.sim.Count(), w.asked, job.Facts)
			}
		})
	}
	t.Run("nothing was done", func(t *testing.T) {
		w := newWorld(t)
		w.fault(t, simfault.Rule{Operation: "machines.post", Fault: simfault.ErrorBefore, Status: 500, Count: 1})
		job := w.work(1)
		if f := w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.UpstreamTransient, "create_unproven"); f.Final {
			t.Error("it is not tried again")
		}
		w.does(t, bringup.CreateOrFindInMAAS, job)
		if w.sim.Count() != 1 {
			t.Errorf("%d machines", w.sim.Count())
		}
	})
	t.Run("the worker dies before it keeps the id", func(t *testing.T) {
		w := newWorld(t)
		job := w.work(1)
		job.Save = func(context.Context) error { return context.Canceled }
		if _, err := w.bringup.CreateOrFindInMAAS(system(t), job); err == nil {
			t.Fatal("it goes on although nothing was kept")
		}
		w.does(t, bringup.CreateOrFindInMAAS, w.work(1))
		if w.sim.Count() != 1 {
			t.Errorf("%d machines", w.sim.Count())
		}
	})
}

func TestAJobThatWasTakenOverAddsNothing(t *testing.T) {
	w := newWorld(t)
	job := w.work(1)
	job.Fence = func(context.Context) error { return durable.Superseded("onboarding", job.Job) }
	_, err := w.bringup.CreateOrFindInMAAS(system(t), job)
	if fault.CodeOf(err) != durable.CodeSuperseded || w.sim.Count() != 0 {
		t.Errorf("%v, %d machines", err, w.sim.Count())
	}
}

func TestAMachineThatWasRemovedIsAddedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.work(1)
	job.Facts.Asked = &bringup.AskedFacts{KeepOut: true}
	w.upTo(t, bringup.ConfigureStorage, job)
	first := job.SystemID
	w.happens(t, first, "delete")
	for _, stage := range []string{
		bringup.CommissionNode, bringup.WaitForReady, bringup.ConfigureStorage,
		bringup.EnsurePXEInterfaceAuto,
	} {
		if w.fails(t, stage, job, bringup.StateAmbiguity, "machine_gone"); job.Observed.Status != bringup.Absent {
			t.Errorf("%s: observed %+v", stage, job.Observed)
		}
	}
	w.does(t, bringup.CreateOrFindInMAAS, job)
	if job.SystemID == first || job.SystemID == "" || job.Facts.Commissions != 0 || !job.Facts.KeepsOut() {
		t.Errorf("job has %s, %+v", job.SystemID, job.Facts)
	}
	w.upTo(t, bringup.RenderCloudInit, job)

	second := job.SystemID
	w.happens(t, second, "recreate")
	w.does(t, bringup.CreateOrFindInMAAS, job)
	if job.SystemID == second || job.Facts.IdentifiedBy != "hostname" {
		t.Errorf("job has %s, %+v", job.SystemID, job.Facts)
	}
}

func TestABatchListsTheBMCsOfARegionSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *plan) { p.sim.Fleet = fleet.Options{Unknown: 60} })
	var all sync.WaitGroup
	errs := make(chan error, 60)
	for n := range 60 {
		all.Go(func() {
			_, err := w.bringup.CreateOrFindInMAAS(system(t), w.work(n+1))
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if n := w.asked.of("machines.power_parameters"); n > 2 || w.sim.Count() != 60 {
		t.Errorf("%d machines, %s", w.sim.Count(), w.asked)
	}
}

// strict puts a MAAS in the way that adds no machine whose MACs nobody knows.
func strict(w *world, tb testing.TB) {
	tb.Helper()
	w.fault(tb, simfault.Rule{
		Operation: "machines.post", Fault: simfault.ErrorBefore, Status: http.StatusBadRequest,
		ContentType: "application/json",
		Text:        `{"mac_addresses": ["This field is required."]}`,
	})
}

func TestAServerIsMadeToBootAndLookedOutFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy bool // the only New machine may be claimed
		before func(t *testing.T, w *world)
		boots  func(w *world, address string)
		by     string
		code   string
		class  job.FailureClass
	}{
		"it appears with its BMC": {boots: enlists, by: "power_address"},
		"it appears without its BMC": {boots: func(w *world, address string) {
			enlists(w, address)
			blank(w, address)
		}, by: "discovered"},
		"it appears among others": {
			before: func(t *testing.T, w *world) {
				w.happens(t, fleet.BMCAddress(2), "enlist")
				blank(w, fleet.BMCAddress(2))
			},
			boots: func(w *world, address string) { enlists(w, address); blank(w, address) }, by: "discovered",
		},
		"another appears, of another BMC": {
			boots: func(w *world, address string) { enlists(w, fleet.BMCAddress(2)); enlists(w, address) }, by: "power_address",
		},
		"two appear": {
			boots: func(w *world, address string) {
				for _, a := range []string{address, fleet.BMCAddress(2)} {
					enlists(w, a)
					blank(w, a)
				}
			},
			class: bringup.StateAmbiguity, code: "discovery_ambiguous",
		},
		"none appears": {class: bringup.PXEDiscoveryFailure, code: "discovery_timeout"},
		"only another one is New": {
			before: func(t *testing.T, w *world) {
				w.happens(t, fleet.BMCAddress(2), "enlist")
				blank(w, fleet.BMCAddress(2))
			},
			class: bringup.PXEDiscoveryFailure, code: "discovery_timeout",
		},
		"only another one is New, and the policy allows it": {
			policy: true,
			before: func(t *testing.T, w *world) {
				w.happens(t, fleet.BMCAddress(2), "enlist")
				blank(w, fleet.BMCAddress(2))
			},
			by: "sole_new",
		},
		"only one with another BMC is New, and the policy allows it": {
			policy: true,
			before: func(t *testing.T, w *world) { w.happens(t, fleet.BMCAddress(2), "enlist") },
			class:  bringup.PXEDiscoveryFailure, code: "discovery_timeout",
		},
		"two are New, and the policy allows one": {
			policy: true,
			before: func(t *testing.T, w *world) {
				for _, n := range []int{2, 3} {
					w.happens(t, fleet.BMCAddress(n), "enlist")
					blank(w, fleet.BMCAddress(n))
				}
			},
			class: bringup.StateAmbiguity, code: "discovery_ambiguous",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(p *plan) { p.policy.AutoClaimSingleNewMachine = set(c.policy) })
			strict(w, t)
			if c.before != nil {
				c.before(t, w)
			}
			w.bmc.booted = func(address string) {
				if c.boots != nil {
					c.boots(w, address)
				}
			}
			job := w.work(1)
			if c.code == "discovery_timeout" || c.policy {
				job.Deadline = time.Now().Add(300 * time.Millisecond)
			}
			if c.code != "" {
				if f := w.fails(t, bringup.CreateOrFindInMAAS, job, c.class, c.code); !f.Final || job.SystemID != "" {
					t.Errorf("failure is %+v, job has %q", f, job.SystemID)
				}
			} else if w.does(t, bringup.CreateOrFindInMAAS, job); job.Facts.IdentifiedBy != c.by || job.SystemID == "" {
				t.Errorf("facts are %+v", job.Facts)
			}
			if got := w.bmc.cycled(); len(got) != 1 || got[0] != job.IPMIIP {
				t.Errorf("switched were %v", got)
			}
		})
	}
}

// enlists is a server that boots from the network and is met by MAAS.
func enlists(w *world, address string) {
	if _, err := w.sim.Enlist(address); err != nil {
		panic(err)
	}
}

// blank takes from MAAS what it found out about a BMC.
func blank(w *world, address string) {
	id, _ := w.sim.Find(address)
	if _, err := w.sim.Update(admin, id, url.Values{"power_type": {"manual"}, "power_parameters": {`{"power_address": ""}`}}); err != nil {
		panic(err)
	}
}

func TestAWorkerThatDiedDoesNotSwitchTheServerAgain(t *testing.T) {
	w := newWorld(t)
	strict(w, t)
	job := w.work(1)
	ctx, die := context.WithCancel(system(t))
	w.bmc.booted = func(string) { die() }
	if _, err := w.bringup.CreateOrFindInMAAS(ctx, job); err == nil {
		t.Fatal("it goes on")
	}
	enlists(w, job.IPMIIP)
	blank(w, job.IPMIIP)
	w.does(t, bringup.CreateOrFindInMAAS, job)
	if len(w.bmc.cycled()) != 1 || job.Facts.IdentifiedBy != "discovered" {
		t.Errorf("switched were %v, facts are %+v", w.bmc.cycled(), job.Facts)
	}
}

func TestABMCThatDoesNotAnswerIsTold(t *testing.T) {
	w := newWorld(t)
	strict(w, t)
	w.bmc.err = fault.New(fault.Unavailable, "bmc_unreachable", "the BMC does not answer").WithRemedy("check it")
	job := w.work(1)
	if f := w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.BMCPowerFailure, "bmc_unreachable"); f.Final {
		t.Error("it is not tried again")
	}
	w.bmc.err, w.bmc.booted = nil, func(address string) { enlists(w, address) }
	w.does(t, bringup.CreateOrFindInMAAS, job)
}
