package bringup_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/sim/maas/fleet"
)

// claimsPlay is what other jobs have claimed: the job by the machine.
type claimsPlay map[string]string

func (c claimsPlay) ClaimedMachines(_ context.Context, _ id.Site, except string) (map[string]string, error) {
	others := maps.Clone(c)
	maps.DeleteFunc(others, func(_, job string) bool { return job == except })
	return others, nil
}

// kept is what a later execution of the job finds in its row.
func kept(tb testing.TB, job *bringup.Work) {
	tb.Helper()
	row, err := json.Marshal(job.Facts)
	if err != nil {
		tb.Fatal(err)
	}
	job.Facts = bringup.Facts{}
	if err := json.Unmarshal(row, &job.Facts); err != nil {
		tb.Fatal(err)
	}
}

// rerun is how an operator lets a job begin anew, with so much time.
func rerun(tb testing.TB, job *bringup.Work, limit time.Duration) {
	tb.Helper()
	kept(tb, job)
	job.Epoch++
	job.Since, job.Deadline = time.Now(), time.Now().Add(limit)
}

func TestTheOnlyNewMachineIsNotClaimedWhenItIsAnotherJobs(t *testing.T) {
	t.Parallel()
	claims := claimsPlay{}
	w := newWorld(t, func(p *plan) { p.policy.AutoClaimSingleNewMachine, p.config.Claims = set(true), claims })
	strict(w, t)
	first, second := w.work(1), w.work(2)
	w.bmc.booted = func(address string) {
		if address == first.IPMIIP {
			enlists(w, address)
			blank(w, address)
		}
	}
	w.does(t, bringup.CreateOrFindInMAAS, first) // and parks before MAAS hears of its BMC
	claims[first.SystemID] = first.Job
	second.Deadline = time.Now().Add(300 * time.Millisecond)
	w.fails(t, bringup.CreateOrFindInMAAS, second, bringup.PXEDiscoveryFailure, "discovery_timeout")
	if second.SystemID != "" {
		t.Errorf("%s is claimed twice", second.SystemID)
	}
	if out := w.does(t, bringup.CreateOrFindInMAAS, first); !out.Skipped {
		t.Errorf("its own claim: %+v", out)
	}
}

func TestAMachineOfAnotherJobUnderWayIsNotClaimedByAnyEvidence(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, w *world, job *bringup.Work){
		"host name": func(*testing.T, *world, *bringup.Work) {},
		"BMC":       func(_ *testing.T, _ *world, job *bringup.Work) { job.Hostname = "another-name" },
		"PXE MAC": func(t *testing.T, w *world, job *bringup.Work) {
			job.PXEMAC = w.machine(t, hostname(1)).BootInterface.MAC
			w.edit(t, hostname(1), url.Values{"power_type": {"manual"}})
			job.Hostname = "another-name"
		},
		"an earlier round": func(t *testing.T, w *world, job *bringup.Work) {
			job.SystemID = w.machine(t, hostname(1)).
				SystemID
		},
	} {
		t.Run(name, func(t *testing.T) {
			claims := claimsPlay{}
			w := newWorld(t, known(1, "ready"), func(p *plan) { p.config.Claims = claims })
			job, systemID := w.work(1), w.machine(t, hostname(1)).SystemID
			change(t, w, job)
			had, before := job.SystemID, w.sim.Changes()
			claims[systemID] = "the-other"
			f := w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.StateAmbiguity, "machine_claimed")
			if !f.Final || f.Details["job_id"] != "the-other" || f.Details["system_id"] != systemID {
				t.Errorf("failure is %+v", f)
			}
			if job.SystemID != had || w.saves.Load() != 0 || w.sim.Changes() != before {
				t.Errorf("the job has %q, the machine was changed or claimed", job.SystemID)
			}
			delete(claims, systemID)
			w.does(t, bringup.CreateOrFindInMAAS, job)
		})
	}
}

func TestAJobWhoseClaimIsRefusedHasNoMachine(t *testing.T) {
	w := newWorld(t)
	strict(w, t)
	w.bmc.booted = func(address string) { enlists(w, address); blank(w, address) }
	job := w.work(1)
	save := job.Save
	job.Save = func(ctx context.Context) error {
		if job.SystemID != "" {
			return bringup.CodeMachineClaimed.Failed("another was faster").ForGood()
		}
		return save(ctx)
	}
	w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.StateAmbiguity, "machine_claimed")
	if job.SystemID != "" || job.PXEMAC != "" || job.Facts.IdentifiedBy != "" || job.Facts.NetworkBootsAt == nil {
		t.Errorf("the job has %q, %q, %+v", job.SystemID, job.PXEMAC, job.Facts)
	}
}

func TestAServerIsClaimedBeforeTheNextOneIsMadeToBoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	strict(w, t)
	w.bmc.booted = func(address string) { enlists(w, address); blank(w, address) }
	first, second := w.work(1), w.work(2)
	second.Deadline = time.Now().Add(200 * time.Millisecond)
	save := first.Save
	first.Save = func(ctx context.Context) error {
		if first.SystemID != "" {
			if out := w.does(t, bringup.CreateOrFindInMAAS, second); out.Await == nil {
				t.Errorf("another job of the site looks already: %+v", out)
			}
		}
		return save(ctx)
	}
	w.does(t, bringup.CreateOrFindInMAAS, first)
}

func TestTimeInTheQueueForANetworkBootCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	strict(w, t)
	first, second := w.work(1), w.work(2)
	booted := make(chan struct{}, 1)
	w.bmc.booted = func(address string) {
		if address == first.IPMIIP {
			booted <- struct{}{}
			return
		}
		enlists(w, address)
		blank(w, address)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.bringup.CreateOrFindInMAAS(system(t), first)
		done <- err
	}()
	<-booted
	second.Deadline = time.Now().Add(150 * time.Millisecond)
	for n := range 3 { // far beyond its own time
		out := w.does(t, bringup.CreateOrFindInMAAS, second)
		kept(t, second)
		if out.Await == nil || out.Await.Most <= 0 || (out.Message != "") != (n == 0) {
			t.Fatalf("round %d: %+v", n, out)
		}
	}
	enlists(w, first.IPMIIP)
	blank(w, first.IPMIIP)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.does(t, bringup.CreateOrFindInMAAS, second)
	if got := w.bmc.cycled(); !slices.Equal(got, []string{first.IPMIIP, second.IPMIIP}) ||
		first.SystemID == second.SystemID || second.Facts.QueuedAt != nil {
		t.Errorf("switched were %v, facts are %+v", got, second.Facts)
	}
}

// The time that a server has begins when it is switched, and a worker that takes
// the stage over does not give it another one.
func TestAServerHasTheTimeOfTheProfileOnceItIsSwitched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	strict(w, t)
	job := w.work(1)
	const limit = 300 * time.Millisecond
	job.Since = time.Now().Add(-time.Hour) // in the queue
	job.Deadline = job.Since.Add(limit)
	begun := time.Now()
	w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.PXEDiscoveryFailure, "discovery_timeout")
	if took := time.Since(begun); took < limit {
		t.Errorf("given up after %v", took)
	}
	at := *job.Facts.NetworkBootsAt
	kept(t, job)
	w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.PXEDiscoveryFailure, "discovery_timeout")
	if !job.Facts.NetworkBootsAt.Equal(at) || len(w.bmc.cycled()) != 1 {
		t.Errorf("switched %v, facts are %+v", w.bmc.cycled(), job.Facts)
	}
}

func TestAServerThatAppearsLateIsRecognisedByARerun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others int // that are New before
		rounds int // in vain
	}{"the only one": {rounds: 1}, "among others": {others: 1, rounds: 1}, "after two rounds": {rounds: 2}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			strict(w, t)
			for n := range c.others {
				enlists(w, fleet.BMCAddress(n+2))
				blank(w, fleet.BMCAddress(n+2))
			}
			job := w.work(1)
			for range c.rounds {
				rerun(t, job, 2*time.Second)
				w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.PXEDiscoveryFailure, "discovery_timeout")
			}
			late, err := w.sim.Enlist(job.IPMIIP)
			if err != nil {
				t.Fatal(err)
			}
			blank(w, job.IPMIIP)
			rerun(t, job, time.Minute)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			if job.Facts.IdentifiedBy != "discovered" || len(w.bmc.cycled()) != c.rounds || job.SystemID != late {
				t.Errorf("job has %s (want %s), switched %v, facts are %+v", job.SystemID, late, w.bmc.cycled(), job.Facts)
			}
		})
	}
}

// A server that could not be switched did not boot: what appears meanwhile is
// another one.
func TestWhatAppearsBeforeTheServerIsSwitchedIsAnotherOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	strict(w, t)
	w.bmc.err = context.DeadlineExceeded
	job := w.work(1)
	if _, err := w.bringup.CreateOrFindInMAAS(system(t), job); err == nil {
		t.Fatal("it goes on")
	}
	enlists(w, fleet.BMCAddress(2))
	blank(w, fleet.BMCAddress(2))
	w.bmc.err = nil
	rerun(t, job, 2*time.Second)
	w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.PXEDiscoveryFailure, "discovery_timeout")
}

func TestAServerThatAnotherJobHeldIsRecognisedOnceThatLetsGo(t *testing.T) {
	t.Parallel()
	claims := claimsPlay{}
	w := newWorld(t, func(p *plan) { p.config.Claims = claims })
	strict(w, t)
	job := w.work(1)
	vain := func() {
		rerun(t, job, 2*time.Second)
		w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.PXEDiscoveryFailure, "discovery_timeout")
	}
	vain()
	systemID, err := w.sim.Enlist(job.IPMIIP)
	if err != nil {
		t.Fatal(err)
	}
	blank(w, job.IPMIIP)
	claims[systemID] = "the-other"
	vain()
	delete(claims, systemID)
	rerun(t, job, time.Minute)
	if w.does(t, bringup.CreateOrFindInMAAS, job); job.SystemID != systemID || len(w.bmc.cycled()) != 2 {
		t.Errorf("job has %q, want %s; switched %v", job.SystemID, systemID, w.bmc.cycled())
	}
}
