package bringup_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

func TestAdoption(t *testing.T) {
	t.Parallel()
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	commission := func(t *testing.T, w *world, job *bringup.Work, phase string, fault simfault.Kind) {
		t.Helper()
		w.fault(t, simfault.Rule{Fault: fault, Phase: phase, Machine: job.SystemID, Count: 1})
		_, err := w.sim.Commission(context.Background(), admin, job.SystemID, url.Values{})
		must(t, err)
	}
	// enrolled is a machine whose agent has polled, and whose annotation is gone.
	enrolled := func(t *testing.T, w *world, job *bringup.Work, mark string) {
		t.Helper()
		w.deployed(t, job)
		_, err := w.owner.Exec(t.Context(), "UPDATE nodes SET first_poll_at = now() WHERE id = $1", job.Node)
		must(t, err)
		_, err = w.sim.SetAnnotations(admin, job.SystemID, url.Values{"gpuaas-job": {mark}})
		must(t, err)
	}
	// byHand is somebody who released a node and deployed it again, as it was.
	byHand := func(t *testing.T, w *world, job *bringup.Work) {
		t.Helper()
		enrolled(t, w, job, "")
		w.happens(t, job.SystemID, "release")
		_, err := w.sim.Deploy(admin, job.SystemID, url.Values{"enable_hw_sync": {"true"}})
		must(t, err)
		w.until(t, job.SystemID, region.Deployed.String())
	}
	cases := map[string]struct {
		before func(t *testing.T, w *world, job *bringup.Work)
		next   string // empty: a failure
		code   string // empty: nothing_to_adopt
	}{
		"new": {
			func(t *testing.T, w *world, job *bringup.Work) { w.happens(t, job.SystemID, "recreate") },
			bringup.CreateOrFindInMAAS, "",
		},
		"commissioning": {func(t *testing.T, w *world, job *bringup.Work) {
			commission(t, w, job, "scripts",
				simfault.PhaseHangs)
		}, bringup.WaitForReady, ""},
		"testing": {func(t *testing.T, w *world, job *bringup.Work) {
			commission(t, w, job, "tests",
				simfault.PhaseHangs)
		}, bringup.WaitForReady, ""},
		"failed commissioning": {func(t *testing.T, w *world, job *bringup.Work) {
			commission(t, w, job, "scripts", simfault.PhaseFails)
			w.until(t, job.SystemID, region.FailedCommissioning.String())
		}, bringup.CommissionNode, ""},
		"ready": {func(*testing.T, *world, *bringup.Work) {}, bringup.ConfigureStorage, ""},
		"not yet found": {
			func(_ *testing.T, _ *world, job *bringup.Work) { job.SystemID = "" },
			bringup.CreateOrFindInMAAS, "",
		},
		"held, not yet marked": {
			func(t *testing.T, w *world, job *bringup.Work) { w.allocated(t, job, 2) },
			bringup.RenderCloudInit, "",
		},
		"held and marked": {
			func(t *testing.T, w *world, job *bringup.Work) { w.allocated(t, job, 3) },
			bringup.RenderCloudInit, "",
		},
		"held by somebody": {func(t *testing.T, w *world, job *bringup.Work) {
			_, err := w.sim.Allocate(admin, url.Values{"system_id": {job.SystemID}})
			must(t, err)
		}, "", ""},
		"deploying": {
			func(t *testing.T, w *world, job *bringup.Work) { w.begin(t, job, simfault.PhaseHangs, "install") },
			bringup.WaitForDeployed, "",
		},
		"deploying by somebody": {func(t *testing.T, w *world, job *bringup.Work) {
			w.fault(t, simfault.Rule{Fault: simfault.PhaseHangs, Phase: "install", Machine: job.SystemID})
			_, err := w.sim.Deploy(admin, job.SystemID, url.Values{})
			must(t, err)
		}, "", ""},
		"failed deployment": {func(t *testing.T, w *world, job *bringup.Work) {
			w.begin(t, job, simfault.PhaseFails, "install")
			w.until(t, job.SystemID, region.FailedDeployment.String())
		}, bringup.ClassifyDeployFailure, ""},
		"deployed": {
			func(t *testing.T, w *world, job *bringup.Work) { w.deployed(t, job) },
			bringup.AfterDeployment[0], "",
		},
		"deployed, not yet noticed": {func(t *testing.T, w *world, job *bringup.Work) {
			w.deployed(t, job)
			job.Facts.DeployedAt = nil
		}, bringup.WaitForDeployed, ""},
		"deployed with another image": {func(t *testing.T, w *world, job *bringup.Work) {
			w.deployed(t, job)
			job.Profile.Policy.DistroSeries = "ubuntu/jammy"
		}, "", "deployed_image_differs"},
		"deployed by somebody": {func(t *testing.T, w *world, job *bringup.Work) {
			_, err := w.sim.Deploy(admin, job.SystemID, url.Values{"enable_hw_sync": {"true"}})
			must(t, err)
			w.until(t, job.SystemID, region.Deployed.String())
		}, "", ""},
		"deployed for another job": {
			func(t *testing.T, w *world, job *bringup.Work) { enrolled(t, w, job, "another") }, "",
			"",
		},
		"deployed by hand, and enrolled": {func(t *testing.T, w *world, job *bringup.Work) {
			byHand(t, w, job)
			w.heard(t, job, time.Now().Add(5*time.Second))
		}, bringup.AfterDeployment[0], ""},
		"deployed by hand after it had enrolled": {func(t *testing.T, w *world, job *bringup.Work) {
			byHand(t, w, job)
			w.heard(t, job, time.Now().Add(-5*time.Second))
		}, "", ""},
		"deployed by hand, heard of while that was under way": {func(t *testing.T, w *world, job *bringup.Work) {
			w.fault(t, simfault.Rule{
				Fault: simfault.PhaseDrags, Phase: "install", Machine: job.SystemID, Skip: 1,
				Delay: simfault.Duration(2 * time.Second),
			})
			byHand(t, w, job)
			w.heard(t, job, w.happened(t, job, "Deployed").Add(-time.Millisecond))
		}, "", ""},
		"adopted before, and enrolled late": {func(t *testing.T, w *world, job *bringup.Work) {
			byHand(t, w, job)
			_, err := w.sim.SetAnnotations(admin, job.SystemID, url.Values{"gpuaas-job": {job.Job}})
			must(t, err)
			w.heard(t, job, time.Now().Add(5*time.Second))
		}, bringup.AfterDeployment[0], ""},
		"adopted before, and never enrolled": {func(t *testing.T, w *world, job *bringup.Work) {
			byHand(t, w, job)
			_, err := w.sim.SetAnnotations(admin, job.SystemID, url.Values{"gpuaas-job": {job.Job}})
			must(t, err)
			w.heard(t, job, time.Now().Add(-5*time.Second))
		}, "", ""},
		"enrolled without its mark": {
			func(t *testing.T, w *world, job *bringup.Work) { enrolled(t, w, job, "") },
			bringup.AfterDeployment[0], "",
		},
		"releasing": {func(t *testing.T, w *world, job *bringup.Work) {
			w.deployed(t, job)
			w.fault(t, simfault.Rule{Fault: simfault.StuckOff, Machine: job.SystemID})
			_, err := w.sim.Release(context.Background(), admin, job.SystemID, url.Values{})
			must(t, err)
		}, "", ""},
		"broken": {func(t *testing.T, w *world, job *bringup.Work) {
			w.deployed(t, job)
			_, err := w.sim.MarkBroken(context.Background(), admin, job.SystemID, url.Values{})
			must(t, err)
		}, "", ""},
		"hollow": {func(t *testing.T, w *world, job *bringup.Work) {
			w.deployed(t, job)
			_, err := w.sim.MarkBroken(context.Background(), admin, job.SystemID, url.Values{})
			must(t, err)
			_, err = w.sim.MarkFixed(admin, job.SystemID, url.Values{})
			must(t, err)
		}, "", ""},
		"removed": {func(t *testing.T, w *world, job *bringup.Work) { w.happens(t, job.SystemID, "delete") }, "", ""},
		"two of them": {func(t *testing.T, w *world, job *bringup.Work) {
			w.happens(t, job.SystemID, "twin")
			job.SystemID = ""
		}, "", "discovery_conflict"},
	}
	w := newWorld(t, aFleet(len(cases)), func(p *plan) { p.sim.Images = []string{"ubuntu/jammy"} })
	n := 0
	for name, c := range cases {
		n++
		job := w.ready(t, n)
		t.Run(name, func(t *testing.T) {
			c.before(t, w, job)
			requests := w.requested(t, job, startedDeployment)
			result, err := w.bringup.Adopt(system(t), job)
			if c.next != "" {
				if err != nil || result.Next != c.next || result.Message == "" {
					t.Fatalf("it goes on with %q, %v (%+v)", result.Next, err, err)
				}
				if got, known := w.sim.Find(job.Hostname); !known || got != job.SystemID {
					t.Errorf("the job is on %q, the machine is %q", job.SystemID, got)
				}
			} else {
				code := c.code
				if code == "" {
					code = "nothing_to_adopt"
				}
				if f := bringup.Classify(err); err == nil || f.Class != bringup.StateAmbiguity || f.Code.String() != code ||
					!f.Final || f.Remedy == "" {
					t.Fatalf("it fails with %v (%+v)", err, result)
				}
			}
			if w.requested(t, job, startedDeployment) != requests {
				t.Error("an adoption deployed")
			}
			w.told(t, job, result)
		})
	}
}

// heard notes when the agent of the job's node was last heard from.
func (w *world) heard(t *testing.T, job *bringup.Work, at time.Time) {
	t.Helper()
	if _, err := w.owner.Exec(t.Context(), "INSERT INTO node_contacts (node_id, last_contact_at) VALUES ($1, $2)",
		job.Node, at); err != nil {
		t.Fatal(err)
	}
}

// happened is when MAAS last noted something about the machine.
func (w *world) happened(t *testing.T, job *bringup.Work, kind string) (at time.Time) {
	t.Helper()
	page, err := w.sim.Events(admin, url.Values{"id": {job.SystemID}, "level": {"DEBUG"}, "limit": {"1000"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		created, err := time.Parse("Mon, 02 Jan. 2006 15:04:05", e.Created)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == kind && created.After(at) {
			at = created
		}
	}
	return at
}

// What was true of the installation before is not true of the adopted one: it
// has another key, was seeded with nothing, and its agent has yet to poll.
func TestAnAdoptedInstallationStartsWithNothingProven(t *testing.T) {
	t.Parallel()
	tasks := &agenttask.Commands{}
	w, street := newStreet(t, 1, func(p *plan) { p.config.Tasks = tasks })
	tasks.DB = w.db
	b, job := street.awaiting(t, w, 1)
	w.polls(t, job)
	w.happens(t, job.SystemID, "release")
	if _, err := w.sim.Deploy(admin, job.SystemID, url.Values{"enable_hw_sync": {"true"}}); err != nil {
		t.Fatal(err)
	}
	w.until(t, job.SystemID, region.Deployed.String())
	b.Reinstall(t)
	w.heard(t, job, time.Now().Add(5*time.Second))
	job.Epoch++
	r, err := w.bringup.Adopt(system(t), job)
	if err != nil || r.Next != bringup.AfterDeployment[0] {
		t.Fatalf("it goes on with %q, %v", r.Next, err)
	}
	if f := job.Facts; f.DeployedAt == nil || f.SSHHostKey != "" || f.HostKey != "" || !f.Adopted ||
		f.SyncSeededAt != nil || f.SyncHealthy != nil {
		t.Errorf("facts are %+v", f)
	}
	// Nobody gave this installation a key, so that only its agent can be asked.
	said := len(b.Commands())
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	w.answers(t, job, agentwire.TypeHWSyncReseed, "succeeded", "")
	if len(b.Commands()) != said {
		t.Errorf("said over SSH: %q", b.Commands()[said:])
	}
	if err := w.sim.Signal(job.SystemID, "OK"); err != nil {
		t.Fatal(err)
	}
	w.does(t, bringup.WaitForHardwareSyncHealthy, job)
	job.Since = time.Now()
	job.Deadline = job.Since.Add(30 * time.Minute)
	w.waits(t, job, 10*time.Minute)
	w.polls(t, job)
	w.does(t, bringup.WaitForAgentEnrollment, job)
	w.answers(t, job, agentwire.TypeLoginLock, "succeeded", "")
	if r := w.does(t, bringup.WaitForAgentEnrollment, job); r.Await != nil {
		t.Errorf("%+v", r)
	}
}

// A machine that was deleted and added again is found under its new id, and what
// was true of the old one is forgotten.
func TestAnAdoptedMachineIsBroughtUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.begin(t, job, simfault.PhaseHangs, "install")
	old := job.SystemID
	job.Facts.BootDiskID = 99
	w.happens(t, job.SystemID, "recreate")
	w.fails(t, bringup.WaitForDeployed, job, bringup.StateAmbiguity, "machine_gone")
	w.sim.Faults.Clear()
	result, err := w.bringup.Adopt(system(t), job)
	if err != nil || result.Next != bringup.CreateOrFindInMAAS || job.SystemID == old || job.Facts.BootDiskID != 0 {
		t.Fatalf("it goes on with %+v, %v; facts %+v", result, err, job.Facts)
	}
	for _, stage := range order[2:11] {
		w.does(t, stage, job)
	}
	if m := w.machine(t, job.SystemID); m.Status != region.Deployed {
		t.Errorf("the machine is %s", m.StatusName)
	}
}
