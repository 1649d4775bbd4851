package bringup_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// reimage is one of a node that was in service and is drained.
func (w *world) reimage(t *testing.T, n int, erase string) *bringup.Work {
	t.Helper()
	job := w.inService(t, n, erase)
	job.Reimage = true
	w.moves(t, job, node.Enrolled, node.Drain)
	return job
}

func (w *world) moves(t *testing.T, job *bringup.Work, events ...node.Event) {
	t.Helper()
	for _, e := range events {
		err := w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.Move(ctx, tx, job.Node, e, "a test wants it so")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) nodeOf(t *testing.T, job *bringup.Work) node.Node {
	t.Helper()
	n, err := w.nodes.Node(t.Context(), job.Node)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The stages of a reimage from the release to the new system.
var anew = []string{
	bringup.LoadSiteConfig, bringup.ReleaseMAASNode, bringup.ConfigureStorage, bringup.ApplyRoCEPhase2,
	bringup.EnsurePXEInterfaceAuto,
	bringup.RenderCloudInit, bringup.DeployViaMAAS, bringup.WaitForDeployed,
}

func TestAReimageKeepsTheNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.reimage(t, 1, "quick")
	for range 2 { // again from the top, as rerun does
		for _, stage := range anew {
			w.does(t, stage, job)
		}
		n := w.nodeOf(t, job)
		if n.Status != node.Enrolling || n.FirstPollAt != nil || n.AgentInstance != "" || n.AwaitedBy != job.WorkflowID {
			t.Fatalf("the node is %+v", n)
		}
	}
	m := w.machine(t, job.SystemID)
	if m.Status != region.Deployed || m.Annotations["gpuaas-job"] != job.Job || w.requested(t, job, erasedDisk) != 1 ||
		w.requested(t, job, startedDeployment) != 2 {
		t.Errorf("the machine is %s for %s; it was erased %d and deployed %d times", m.StatusName,
			m.Annotations["gpuaas-job"],
			w.requested(t, job, erasedDisk), w.requested(t, job, startedDeployment))
	}
	if job.Facts.DeployedAt == nil || job.Facts.Release.Achieved != "quick" ||
		slices.Contains(layerNames(job), "disk-init") {
		t.Errorf("facts are %+v", job.Facts)
	}
	for _, path := range w.vault.paths() {
		// which the agent makes needless
		if strings.HasPrefix(path, "first-boot/decommission/") && !strings.HasSuffix(path, "/login") {
			t.Errorf("%s is still in the secrets engine", path)
		}
	}
	w.told(t, job)
}

// Between its release and its first boot the node is as it was; its first boot
// is kept apart from that of its onboarding.
func TestAReimageForgetsTheNodeOnlyWhenItIsRendered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.reimage(t, 1, "none")
	w.does(t, bringup.ReleaseMAASNode, job)
	if n := w.nodeOf(t, job); n.Status != node.Draining {
		t.Fatalf("the node is %s", n.Status)
	}
	w.does(t, bringup.RenderCloudInit, job)
	if n := w.nodeOf(t, job); n.Status != node.Enrolling || !strings.Contains(w.userData(t, job), "gpuaas_n") ||
		job.Facts.FirstBootPath != "first-boot/decommission/"+job.Job {
		t.Errorf("the node is %s, its first boot at %s", n.Status, job.Facts.FirstBootPath)
	}
}

// A job that begins anew with the node that it had reimaged reimages it again.
func TestAReimageOfWhatCameOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.reimage(t, 1, "quick")
	for _, stage := range anew {
		w.does(t, stage, job)
	}
	w.moves(t, job, node.Enrolled)
	if out := w.does(t, bringup.ReleaseMAASNode, job); !out.Skipped {
		t.Fatalf("a node that works is released: %+v", out)
	}
	if out := w.does(t, bringup.RenderCloudInit, job); !out.Skipped {
		t.Fatalf("a node that works gets another first boot: %+v", out)
	}
	w.moves(t, job, node.Quarantine, node.Drain)
	for _, stage := range anew {
		w.does(t, stage, job)
	}
	if n := w.nodeOf(t, job); n.Status != node.Enrolling || w.requested(t, job, erasedDisk) != 2 ||
		w.requested(t, job, startedDeployment) != 3 {
		t.Errorf("the node is %s; it was erased %d and deployed %d times", n.Status, w.requested(t, job, erasedDisk),
			w.requested(t, job, startedDeployment))
	}
}

func TestAReimageNeverAddsANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(2))
	gone := w.reimage(t, 1, "none")
	w.does(t, bringup.ReleaseMAASNode, gone)
	gone.Node = w.work(1).Node
	w.fails(t, bringup.RenderCloudInit, gone, bringup.StateAmbiguity, "node_conflict")
	if _, err := w.nodes.Node(t.Context(), gone.Node); err == nil {
		t.Error("a node was added")
	}
	elsewhere := w.reimage(t, 2, "none")
	w.does(t, bringup.ReleaseMAASNode, elsewhere)
	w.moves(t, elsewhere, node.DrainFailed)
	w.fails(t, bringup.RenderCloudInit, elsewhere, bringup.StateAmbiguity, "node_conflict")
	if n := w.nodeOf(t, elsewhere); n.Status != node.Offline {
		t.Errorf("the node is %s", n.Status)
	}
}

// Giving a reimage up leaves the node in the inventory, and what an earlier job
// deployed alone.
func TestAReimageIsGivenUp(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		upTo  string
		reset bool
		node  node.Status
		maas  region.Status
	}{
		"before the release": {upTo: bringup.ReleaseMAASNode, node: node.Draining, maas: region.Deployed},
		"after the release":  {upTo: bringup.ConfigureStorage, node: node.Draining, maas: region.Ready},
		"rendered":           {upTo: bringup.DeployViaMAAS, node: node.Quarantined, maas: region.Ready},
		"deployed":           {upTo: "", node: node.Quarantined, maas: region.Deployed},
		"before the release, start anew": {
			upTo: bringup.ReleaseMAASNode, reset: true, node: node.Draining,
			maas: region.Deployed,
		},
		"deployed, start anew": {upTo: "", reset: true, node: node.Enrolling, maas: region.Ready},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, c := range cases {
		n++
		job := w.reimage(t, n, "quick")
		t.Run(name, func(t *testing.T) {
			for _, stage := range anew {
				if stage == c.upTo {
					break
				}
				w.does(t, stage, job)
			}
			job.Reset = c.reset
			for range 2 {
				if err := w.bringup.Compensate(system(t), job); err != nil {
					t.Fatal(err)
				}
			}
			w.until(t, job.SystemID, c.maas.String())
			if got := w.nodeOf(t, job); got.Status != c.node || len(job.Facts.Left) == 0 {
				t.Errorf("the node is %s; left is %q", got.Status, job.Facts.Left)
			}
			if ended := c.upTo != bringup.ReleaseMAASNode; ended != (job.Facts.Release != nil &&
				job.Facts.Release.EndedAt != nil) {
				t.Errorf("on record is %+v", job.Facts.Release)
			}
			if !c.reset || c.upTo != "" {
				return
			}
			job.Reset = false
			for _, stage := range anew {
				w.does(t, stage, job)
			}
			if w.requested(t, job, erasedDisk) != 1 {
				t.Error("what was erased is erased again")
			}
		})
	}
}

func TestAdoptionByADecommission(t *testing.T) {
	t.Parallel()
	free := func(t *testing.T, w *world, job *bringup.Work) { w.happens(t, job.SystemID, "release") }
	upTo := func(stage string) func(t *testing.T, w *world, job *bringup.Work) {
		return func(t *testing.T, w *world, job *bringup.Work) {
			for _, s := range anew {
				if s == stage {
					return
				}
				w.does(t, s, job)
			}
		}
	}
	cases := map[string]struct {
		full   bool
		erase  string
		least  site.Erase
		before func(t *testing.T, w *world, job *bringup.Work)
		next   string // empty: there is nothing to adopt
	}{
		"released by somebody, reimage":         {erase: "quick", before: free, next: bringup.ConfigureStorage},
		"released by somebody, full":            {erase: "none", full: true, before: free, next: bringup.PowerOffMAASNode},
		"released by somebody, below the least": {erase: "quick", least: site.EraseQuick, before: free},
		"not released yet": {
			erase: "none", before: upTo(bringup.ReleaseMAASNode),
			next: bringup.ReleaseMAASNode,
		},
		"released": {
			erase: "none", before: upTo(bringup.ConfigureStorage),
			next: bringup.ConfigureStorage,
		},
		"deployed": {
			erase: "none", before: upTo(""),
			next: bringup.AfterDeployment[0],
		},
		"deployed, not noticed": {
			erase: "none", next: bringup.WaitForDeployed,
			before: func(t *testing.T, w *world, job *bringup.Work) {
				upTo(bringup.WaitForDeployed)(t, w, job)
				w.until(t, job.SystemID, region.Deployed.String())
			},
		},
		"of a stranger": {erase: "none", before: func(_ *testing.T, _ *world, job *bringup.Work) { job.Prior = nil }},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, c := range cases {
		n++
		job := w.reimage(t, n, c.erase)
		t.Run(name, func(t *testing.T) {
			job.Reimage, job.Profile.Policy.MinimumErase = !c.full, c.least
			c.before(t, w, job)
			out, err := w.bringup.Adopt(system(t), job)
			if c.next == "" {
				if f := bringup.Classify(err); err == nil || f.Code.String() != "nothing_to_adopt" || f.Remedy == "" {
					t.Fatalf("it goes on with %+v, %v", out, err)
				}
				return
			}
			if err != nil || out.Next != c.next {
				t.Fatalf("it goes on with %+v, %v", out, err)
			}
			if !strings.HasPrefix(name, "released by") {
				return
			}
			f := evidence[bringup.ReleaseFacts](t, out, bringup.EvidenceRelease)
			if f.Achieved != "unknown" || f.FellBack != (c.erase != "none") || f.FallbackReason == "" || f.EndedAt == nil {
				t.Errorf("on record is %+v", f)
			}
			if again := w.does(t, bringup.ReleaseMAASNode, job); !again.Skipped {
				t.Errorf("the release is done again: %+v", again)
			}
		})
	}
}

// A decommission does not need what a deployment takes.
func TestAReleaseNeedsNoImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(2))
	job := w.inService(t, 1, "none")
	job.Profile.Policy.DistroSeries = "ubuntu/none"
	w.does(t, bringup.LoadSiteConfig, job)
	job.Reimage = true
	w.fails(t, bringup.LoadSiteConfig, job, bringup.SiteCapabilityMissing, "maas_image_missing")
}

// A deployment of a reimage that fails is given back and may be tried again.
func TestAReimageWhoseDeploymentFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.reimage(t, 1, "none")
	for _, stage := range anew[:6] {
		w.does(t, stage, job)
	}
	w.fault(t, simfault.Rule{Fault: simfault.FailDeploy, Machine: job.SystemID, Count: 1})
	w.does(t, bringup.DeployViaMAAS, job)
	w.fails(t, bringup.WaitForDeployed, job, bringup.DeployInstallerFailure, "deploy_failed")
	w.fails(t, bringup.ClassifyDeployFailure, job, bringup.DeployInstallerFailure, "deploy_failed")
	for _, stage := range anew {
		w.does(t, stage, job)
	}
	if n := w.nodeOf(t, job); n.Status != node.Enrolling || w.machine(t, job.SystemID).Status != region.Deployed {
		t.Errorf("the node is %s", n.Status)
	}
}
