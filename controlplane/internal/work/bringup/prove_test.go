package bringup_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// arrived is a job that is parked although nothing is missing any more: its
// machine is installed and reports its hardware, and the agent is there.
func (w *world) arrived(t *testing.T, n int) *bringup.Work {
	t.Helper()
	job := w.ready(t, n)
	job.WorkflowID = "onboarding-" + job.Job
	w.deployed(t, job)
	job.Facts.SyncBefore, job.Facts.SyncSeededAt, job.Facts.SyncSeeds = set(time.Now().Add(-time.Hour)), set(time.Now()), 1
	w.syncs(t, job)
	w.polls(t, job)
	w.heard(t, job, time.Now().Add(5*time.Second))
	return job
}

// syncs lets the machine report its hardware.
func (w *world) syncs(t *testing.T, job *bringup.Work) {
	t.Helper()
	if err := w.sim.Signal(job.SystemID, "OK"); err != nil {
		t.Fatal(err)
	}
}

// hears replaces when the agent was last heard of.
func (w *world) hears(t *testing.T, job *bringup.Work, at time.Time) {
	t.Helper()
	w.changes(t, `UPDATE node_contacts SET last_contact_at = $2 WHERE node_id = $1`, job.Node, at)
}

func (w *world) changes(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := w.owner.Exec(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) annotates(t *testing.T, job *bringup.Work, mark string) {
	t.Helper()
	if _, err := w.sim.SetAnnotations(admin, job.SystemID, url.Values{"gpuaas-job": {mark}}); err != nil {
		t.Fatal(err)
	}
}

// Looking proves what is there, and leaves MAAS, the node and the row alone.
func TestAMachineIsProvenInstalled(t *testing.T) {
	t.Parallel()
	cases := map[string]func(t *testing.T, w *world, job *bringup.Work){
		"the agent came late": func(*testing.T, *world, *bringup.Work) {},
		"the node is active already": func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.moves(t, job, node.Enrolled)
		},
		"MAAS reported a later state by then": func(_ *testing.T, _ *world, job *bringup.Work) { job.Facts.DeployedAt = nil },
		"the hardware sync came late, and by itself": func(t *testing.T, w *world, job *bringup.Work) {
			job.Facts.SyncBefore, job.Facts.SyncSeededAt, job.Facts.SyncSeeds = nil, nil, 0
			w.fault(t, simfault.Rule{Fault: simfault.Lie, Operation: "machine.get", Machine: job.SystemID, Set: map[string]any{
				"last_sync": time.Now().Add(time.Minute).UTC().Format(time.RFC3339),
			}})
		},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, before := range cases {
		n++
		job := w.arrived(t, n)
		t.Run(name, func(t *testing.T) {
			before(t, w, job)
			job.Fence = func(context.Context) error { t.Error("an effect was about to be made"); return nil }
			machine, asNode := asText(t, w.machine(t, job.SystemID)), asText(t, w.nodeOf(t, job))
			w.asked.reset()
			saves := w.saves.Load()
			p, missing, err := w.bringup.ProveInstalled(system(t), job)
			if err != nil || missing != "" {
				t.Fatalf("missing is %q, %v", missing, err)
			}
			if p.Image != "ubuntu/noble" || p.LastSync == nil || p.InstalledAt.IsZero() || p.AgentVersion != "1.2.3" ||
				p.LastContactAt.IsZero() || p.FirstPollAt.IsZero() {
				t.Errorf("the proof is %+v", p)
			}
			if f := job.Facts; f.DeployedAt == nil || f.SyncHealthy == nil || f.SyncHealthy.Before(*f.DeployedAt) ||
				f.Image != "ubuntu/noble" || len(f.Addresses) == 0 {
				t.Errorf("the facts are %+v", f)
			}
			if job.Observed.Status != "Deployed" || w.asked.of("machine.get") < 2 {
				t.Errorf("it was seen as %+v, by %s", job.Observed, w.asked)
			}
			if asText(t, w.machine(t, job.SystemID)) != machine || asText(t, w.nodeOf(t, job)) != asNode ||
				w.saves.Load() != saves {
				t.Error("looking changed something")
			}
		})
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Every piece of proof that is missing is one too many.
func TestWhatIsNotProven(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		before  func(t *testing.T, w *world, job *bringup.Work)
		missing string
	}{
		"an operator released it in MAAS": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.happens(t, job.SystemID, "release")
		}, "is Ready in MAAS"},
		"an operator redeployed it in MAAS": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.happens(t, job.SystemID, "redeploy")
		}, ""},
		"an operator broke it in MAAS": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.happens(t, job.SystemID, "break")
		}, " in MAAS"},
		"the machine disappeared": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.happens(t, job.SystemID, "delete")
		}, "no longer in MAAS"},
		"the machine was re-created": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.happens(t, job.SystemID, "recreate")
		}, "no longer in MAAS"},
		"which machine it is, is not known": {
			func(_ *testing.T, _ *world, job *bringup.Work) { job.SystemID = "" },
			"not known",
		},
		"it is another server": {func(_ *testing.T, _ *world, job *bringup.Work) {
			job.Hostname,
				job.IPMIIP = "other", "10.9.9.9"
		}, "of this job"},
		"another job holds it": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.annotates(t, job, id.NewString())
		}, "does not hold"},
		"nobody holds it": {
			func(t *testing.T, w *world, job *bringup.Work) { w.annotates(t, job, "") },
			"does not hold",
		},
		"somebody else deployed it": {redeployedAndMarked, "somebody else asked"},
		"it runs another image": {func(_ *testing.T, _ *world,
			job *bringup.Work,
		) {
			job.Profile.Policy.DistroSeries = "ubuntu/jammy"
		}, "and not ubuntu/jammy"},
		"it has hardware sync that is wrong": {func(_ *testing.T, _ *world,
			job *bringup.Work,
		) {
			job.Profile.Policy.RequireHWSync = false
		}, "not as the profile wants"},
		"the hardware sync is no newer": {func(_ *testing.T, _ *world, job *bringup.Work) {
			job.Facts.SyncBefore = set(time.Now().Add(time.Minute))
		}, "since it was installed"},
		"RoCE is known not to work": {func(_ *testing.T, _ *world,
			job *bringup.Work,
		) {
			job.Facts.RoCEProblems = []string{"rdma0: no link"}
		}, "rdma0: no link"},
		"there is no node": {
			func(_ *testing.T, _ *world, job *bringup.Work) { job.Node = id.New[id.Node]() },
			"no node",
		},
		"the node is quarantined": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.moves(t, job, node.Quarantine)
		}, "is quarantined"},
		"the node is offline": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.moves(t, job, node.Enrolled, node.LoseContact)
		}, "is offline"},
		"somebody else holds the node": {heldByAnother, "does not hold the node"},
		"the node enrols for another job": {
			func(_ *testing.T, _ *world, job *bringup.Work) { job.WorkflowID = "another" },
			"for something else",
		},
		"the agent never polled": {func(t *testing.T, w *world, job *bringup.Work) {
			w.changes(t, `UPDATE nodes SET first_poll_at = NULL WHERE id = $1`, job.Node)
		}, "has not polled"},
		"the agent was never heard of": {func(t *testing.T, w *world, job *bringup.Work) {
			w.changes(t, `DELETE FROM node_contacts WHERE node_id = $1`, job.Node)
		}, "not heard of"},
		"the agent is silent": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.hears(t, job, time.Now().Add(-3*time.Minute))
		}, "not heard of within"},
		"the agent is of the system before": {func(t *testing.T, w *world,
			job *bringup.Work,
		) {
			w.hears(t, job, time.Now().Add(-90*time.Second))
		}, "since the machine was installed"},
		"it is deployed only for the moment": {changesItsMind, "differently at each look"},
		"a reimage does not hold the node": {
			func(_ *testing.T, _ *world, job *bringup.Work) { job.Reimage = true },
			"does not hold the node",
		},
		"no hardware sync was ever seeded": {func(_ *testing.T, _ *world,
			job *bringup.Work,
		) {
			job.Facts.SyncBefore = nil
		}, "since it was installed"},
		"MAAS heard of its hardware long ago": {func(_ *testing.T, _ *world, _ *bringup.Work) {}, "lately"},
	}
	var ahead atomic.Int64 // our clock, of the real one
	w := newWorld(t, aFleet(len(cases)), func(p *plan) {
		p.sim.Images = []string{"ubuntu/jammy"}
		p.config.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	n := 0
	for name, c := range cases {
		n++
		job := w.arrived(t, n)
		c.before(t, w, job)
		t.Run(name, func(t *testing.T) {
			if strings.HasSuffix(name, "long ago") {
				ahead.Store(int64(time.Hour))
				w.hears(t, job, time.Now().Add(time.Hour))
				defer ahead.Store(0)
			}
			facts := asText(t, job.Facts)
			_, missing, err := w.bringup.ProveInstalled(system(t), job)
			if err != nil || missing == "" || !strings.Contains(missing, c.missing) {
				t.Errorf("missing is %q, %v; want %q", missing, err, c.missing)
			}
			if asText(t, job.Facts) != facts {
				t.Error("what was not proven became a fact")
			}
			w.discreet(t, missing)
		})
	}
}

// redeployedAndMarked is somebody who installed the machine anew, and left our
// name on it.
func redeployedAndMarked(t *testing.T, w *world, job *bringup.Work) {
	w.happens(t, job.SystemID, "release")
	if _, err := w.sim.Deploy(admin, job.SystemID, url.Values{"enable_hw_sync": {"true"}}); err != nil {
		t.Fatal(err)
	}
	w.until(t, job.SystemID, region.Deployed.String())
	w.syncs(t, job)
	w.annotates(t, job, job.Job)
	w.hears(t, job, time.Now().Add(5*time.Second))
}

func heldByAnother(t *testing.T, w *world, job *bringup.Work) {
	w.changes(t, `UPDATE nodes SET held_by = 'decommission 1' WHERE id = $1`, job.Node)
}

// changesItsMind shows another installation at the second look.
func changesItsMind(t *testing.T, w *world, job *bringup.Work) {
	w.fault(t, simfault.Rule{
		Fault: simfault.Lie, Operation: "machine.get", Machine: job.SystemID, Skip: 1,
		Set: map[string]any{"current_installation_result_id": 987654},
	})
}

// MAAS that does not answer proves nothing, and disproves nothing.
func TestMAASThatIsAwayProvesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.arrived(t, 1)
	w.sim.Close()
	_, missing, err := w.bringup.ProveInstalled(system(t), job)
	if err == nil || missing != "" || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("missing is %q, %v", missing, err)
	}
}

// A late agent of a node that was installed anew.
func TestAReimageIsProvenInstalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.reimage(t, 1, "quick")
	err := w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.Hold(ctx, tx, job.Node, job.Kind+" "+job.Job, "a test wants it so")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range anew {
		w.does(t, stage, job)
	}
	if _, missing, err := w.bringup.ProveInstalled(system(t), job); err != nil ||
		!strings.Contains(missing, "has not polled") {
		t.Fatalf("missing is %q, %v", missing, err)
	}
	job.Facts.SyncBefore = set(time.Now().Add(-time.Hour))
	w.syncs(t, job)
	w.polls(t, job)
	w.changes(t, `DELETE FROM node_contacts WHERE node_id = $1`, job.Node)
	w.heard(t, job, time.Now().Add(5*time.Second))
	if _, missing, err := w.bringup.ProveInstalled(system(t), job); err != nil || missing != "" {
		t.Errorf("missing is %q, %v", missing, err)
	}
}

func TestAMachineIsProvenVacant(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		before  func(t *testing.T, w *world, job *bringup.Work)
		missing string
	}{
		"released and off": {func(t *testing.T, w *world, job *bringup.Work) { w.happens(t, job.SystemID, "release") }, ""},
		"gone":             {func(t *testing.T, w *world, job *bringup.Work) { w.happens(t, job.SystemID, "delete") }, ""},
		"released and on": {func(t *testing.T, w *world, job *bringup.Work) {
			w.happens(t, job.SystemID, "release")
			w.happens(t, job.SystemID, "power_on")
		}, "power on"},
		"still deployed": {func(*testing.T, *world, *bringup.Work) {}, "is Deployed in MAAS"},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, c := range cases {
		n++
		job := w.ready(t, n)
		w.deployed(t, job)
		c.before(t, w, job)
		t.Run(name, func(t *testing.T) {
			missing, err := w.bringup.ProveVacant(system(t), job)
			if err != nil || (missing == "") != (c.missing == "") || !strings.Contains(missing, c.missing) {
				t.Errorf("missing is %q, %v; want %q", missing, err, c.missing)
			}
		})
	}
}
