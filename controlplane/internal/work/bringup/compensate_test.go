package bringup_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// begin renders, and deploys a machine that never gets further than a phase.
func (w *world) begin(t *testing.T, job *bringup.Work, fault simfault.Kind, phase string) {
	t.Helper()
	w.does(t, bringup.RenderCloudInit, job)
	w.fault(t, simfault.Rule{Fault: fault, Phase: phase, Machine: job.SystemID, Count: 1})
	w.does(t, bringup.DeployViaMAAS, job)
}

// allocated is a job that was stopped between holding and deploying.
func (w *world) allocated(t *testing.T, job *bringup.Work, at int) {
	t.Helper()
	w.does(t, bringup.RenderCloudInit, job)
	fence := job.Fence
	interrupt(job, at, func() error { return durable.Superseded("onboarding", job.Job) })
	if _, err := w.bringup.DeployViaMAAS(system(t), job); err == nil {
		t.Fatal("it deployed")
	}
	job.Fence = fence
}

func (w *world) deployed(t *testing.T, job *bringup.Work) {
	t.Helper()
	for _, stage := range []string{bringup.RenderCloudInit, bringup.DeployViaMAAS, bringup.WaitForDeployed} {
		w.does(t, stage, job)
	}
}

func TestCompensation(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		before func(t *testing.T, w *world, job *bringup.Work)
		reset  bool
		maas   region.Status
		node   node.Status // empty: there never was one
		left   string
	}{
		"nothing was started": {
			before: func(_ *testing.T, _ *world, job *bringup.Work) { job.SystemID = "" },
			maas:   region.Ready,
		},
		"only found": {
			before: func(*testing.T, *world, *bringup.Work) {}, maas: region.Ready,
			left: "stays known to MAAS, as Ready",
		},
		"rendered": {
			before: func(t *testing.T, w *world, job *bringup.Work) { w.does(t, bringup.RenderCloudInit, job) },
			maas:   region.Ready, node: node.Deleted, left: "stays known to MAAS, as Ready",
		},
		"held, not yet marked": {
			before: func(t *testing.T, w *world, job *bringup.Work) { w.allocated(t, job, 2) },
			maas:   region.Ready, node: node.Deleted, left: "stays known to MAAS, as Ready",
		},
		"held and marked": {
			before: func(t *testing.T, w *world, job *bringup.Work) { w.allocated(t, job, 3) },
			maas:   region.Ready, node: node.Deleted, left: "stays known to MAAS, as Ready",
		},
		"deploying": {
			before: func(t *testing.T, w *world, job *bringup.Work) { w.begin(t, job, simfault.PhaseHangs, "install") },
			maas:   region.Ready, node: node.Deleted, left: "stays known to MAAS, as Ready",
		},
		"deployment failed": {
			before: func(t *testing.T, w *world, job *bringup.Work) {
				w.begin(t, job, simfault.PhaseFails, "install")
				w.fails(t, bringup.WaitForDeployed, job, bringup.DeployInstallerFailure, "deploy_failed")
			},
			maas: region.Ready, node: node.Deleted, left: "stays known to MAAS, as Ready",
		},
		"deployed": {
			before: func(t *testing.T, w *world, job *bringup.Work) { w.deployed(t, job) },
			maas:   region.Deployed, node: node.Quarantined, left: "stays Deployed in MAAS",
		},
		"deployed, not yet noticed": {
			before: func(t *testing.T, w *world, job *bringup.Work) {
				w.deployed(t, job)
				job.Facts.DeployedAt = nil
			},
			maas: region.Deployed, node: node.Quarantined, left: "stays Deployed in MAAS",
		},
		"deployed once, released by somebody, and held again": {
			before: func(t *testing.T, w *world, job *bringup.Work) {
				w.deployed(t, job)
				w.happens(t, job.SystemID, "release")
				at := job.Facts.DeployedAt
				w.allocated(t, job, 3)
				if job.Facts.DeployedAt != nil || job.Facts.Image != "" {
					t.Errorf("it is still taken for deployed: %+v", job.Facts)
				}
				job.Facts.DeployedAt = at // as if the worker had died before it could note that
			},
			maas: region.Ready, node: node.Deleted, left: "stays known to MAAS, as Ready",
		},
		"deployed, from a clean start": {
			before: func(t *testing.T, w *world, job *bringup.Work) { w.deployed(t, job) }, reset: true,
			maas: region.Ready, node: node.Deleted, left: "stays known to MAAS, as Ready",
		},
		"deploying, from a clean start": {
			before: func(t *testing.T, w *world, job *bringup.Work) { w.begin(t, job, simfault.PhaseHangs, "install") },
			reset:  true,
			maas:   region.Ready, node: node.Deleted, left: "stays known to MAAS, as Ready",
		},
		"released by somebody": {
			before: func(t *testing.T, w *world, job *bringup.Work) {
				w.deployed(t, job)
				w.happens(t, job.SystemID, "release")
			},
			maas: region.Ready, node: node.Deleted, left: "stays known to MAAS, as Ready",
		},
		"in the hands of somebody else": {
			before: func(t *testing.T, w *world, job *bringup.Work) {
				w.does(t, bringup.RenderCloudInit, job)
				if _, err := w.sim.Deploy(admin, job.SystemID, url.Values{}); err != nil {
					t.Fatal(err)
				}
			},
			reset: true, maas: region.Deployed, node: node.Deleted, left: "it was not touched",
		},
		"removed from MAAS": {
			before: func(t *testing.T, w *world, job *bringup.Work) {
				w.begin(t, job, simfault.PhaseHangs, "install")
				w.happens(t, job.SystemID, "delete")
			},
			node: node.Deleted, left: "does not have the machine",
		},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, c := range cases {
		n++
		job := w.ready(t, n)
		t.Run(name, func(t *testing.T) {
			c.before(t, w, job)
			job.Reset = c.reset
			systemID := job.SystemID
			var left []string
			for range 2 { // again, because its end may have been lost
				if err := w.bringup.Compensate(system(t), job); err != nil {
					t.Fatal(err)
				}
				if left == nil {
					left = job.Facts.Left
				}
			}
			if text := strings.Join(left, "; "); !strings.Contains(text, c.left) || c.left == "" && text != "" {
				t.Errorf("left is %q, want %q", text, c.left)
			}
			if systemID != "" && c.left != "does not have the machine" {
				w.until(t, systemID, c.maas.String())
			}
			got, err := w.nodes.Node(t.Context(), job.Node)
			if got.Status != c.node || c.node != "" && err != nil {
				t.Errorf("the node is %q, %v", got.Status, err)
			}
			bound, err := binding.ByMachine(t.Context(), w.db, job.Site.ID, systemID)
			if kept := c.node == node.Quarantined; kept != (err == nil && bound.Node == job.Node && bound.IPMIIP == job.IPMIIP) {
				t.Errorf("the machine is bound to %+v, %v", bound, err)
			}
			if slices.Contains(w.vault.paths(), "first-boot/onboarding/"+job.Job) || job.Facts.FirstBootPath != "" {
				t.Error("the first boot is still in the secrets engine")
			}
			if c.reset && (job.SystemID != systemID || job.Facts.Deploys != 0 || job.Facts.DeployedAt != nil ||
				job.Facts.NodeCreated) {
				t.Errorf("facts are %+v", job.Facts)
			}
			w.told(t, job)
		})
	}
}

func TestANewRoundAfterACleanStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	job.Facts.Asked = &bringup.AskedFacts{KeepOut: true, MatchHardware: true}
	w.deployed(t, job)
	job.Reset = true
	if err := w.bringup.Compensate(system(t), job); err != nil {
		t.Fatal(err)
	}
	if a := job.Facts.Asked; a == nil || !a.KeepOut || !a.MatchHardware {
		t.Errorf("of what was asked for, it remembers %+v", a)
	}
	job.Reset, job.Node = false, w.work(1).Node
	w.deployed(t, job)
	if got := w.requested(t, job, startedDeployment); got != 2 || job.Facts.Deploys != 1 {
		t.Errorf("it was deployed %d times, facts %+v", got, job.Facts)
	}
}

func TestACompensationThatIsTakenOverStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.begin(t, job, simfault.PhaseHangs, "install")
	interrupt(job, 1, func() error { return durable.Superseded("onboarding", job.Job) })
	if err := w.bringup.Compensate(system(t), job); err == nil || !strings.Contains(err.Error(), durable.CodeSuperseded) {
		t.Errorf("it ends with %v", err)
	}
	if m := w.machine(t, job.SystemID); m.Status != region.Deploying {
		t.Errorf("the machine is %s", m.StatusName)
	}
}

// A release that MAAS cannot end is led out of it, or left to an operator.
func TestAReleaseThatIsStuck(t *testing.T) {
	cases := map[string]struct {
		rules []simfault.Rule
		class job.FailureClass
		code  string // empty: it is released in the end
	}{
		"by the ladder": {},
		"cannot be broken": {
			[]simfault.Rule{{Fault: simfault.ErrorBefore, Operation: "machine.mark_broken", Status: 403}},
			bringup.StateAmbiguity, "release_stuck",
		},
		"cannot be fixed": {
			[]simfault.Rule{{Fault: simfault.ErrorBefore, Operation: "machine.mark_fixed", Status: 500}},
			bringup.StateAmbiguity, "release_stuck",
		},
		"answers are lost": {rules: []simfault.Rule{
			{Fault: simfault.LostAnswer, Operation: "machine.mark_broken"},
			{Fault: simfault.ErrorAfter, Operation: "machine.mark_fixed", Status: 500},
		}},
		"cannot be powered": {[]simfault.Rule{{
			Fault: simfault.ErrorBefore, Operation: "machine.power_off", Status: 500,
			Text: "Connection timed out while performing power action",
		}}, bringup.BMCPowerFailure, "release_power_on"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aFleet(1))
			job := w.ready(t, 1)
			w.deployed(t, job)
			w.fault(t, simfault.Rule{Fault: simfault.StuckOff, Count: 1})
			for _, rule := range c.rules {
				w.fault(t, rule)
			}
			job.Reset, job.Profile.Policy.ReleaseTimeoutSeconds = true, 1
			err := w.bringup.Compensate(system(t), job)
			if c.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				if m := w.machine(t, job.SystemID); m.Status != region.Ready || m.PowerState != "off" {
					t.Errorf("the machine is %s, %s", m.StatusName, m.PowerState)
				}
				return
			}
			f := bringup.Classify(err)
			if err == nil || f.Class != c.class || f.Code.String() != c.code || !f.Final || f.Remedy == "" {
				t.Fatalf("it fails with %v", err)
			}
			if got, err := w.nodes.Node(t.Context(), job.Node); err != nil || got.Status != node.Enrolling {
				t.Errorf("the node is %s, %v", got.Status, err)
			}
		})
	}
}

// A release that is asked for after the time of its stage was up gets its time
// all the same: only one that hangs is led out by force.
func TestAReleaseThatIsAskedForLateIsNotStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.deployed(t, job)
	job.Reset, job.Deadline = true, time.Now().Add(-time.Hour)
	w.fault(t, simfault.Rule{
		Fault: simfault.PhaseDrags, Phase: region.PhasePowerOff, Machine: job.SystemID,
		Delay: simfault.Duration(300 * time.Millisecond),
	})
	w.asked.reset()
	if err := w.bringup.Compensate(system(t), job); err != nil {
		t.Fatal(err)
	}
	if w.asked.of("machine.mark_broken") != 0 {
		t.Errorf("a release that had just begun was broken off: %s", w.asked)
	}
	w.until(t, job.SystemID, region.Ready.String())
}

// A BMC that fails leaves the machine as it was; it is tried again.
func TestAReleaseThatTheBMCRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.deployed(t, job)
	job.Reset = true
	w.fault(t, simfault.Rule{Fault: simfault.BMCFailure, Power: "off", Count: 1})
	err := w.bringup.Compensate(system(t), job)
	if f := bringup.Classify(err); err == nil || f.Class != bringup.BMCPowerFailure ||
		f.Code.String() != "release_failed" || f.Final {
		t.Fatalf("it fails with %v", err)
	}
	if err := w.bringup.Compensate(system(t), job); err != nil {
		t.Fatal(err)
	}
	w.until(t, job.SystemID, region.Ready.String())
}
