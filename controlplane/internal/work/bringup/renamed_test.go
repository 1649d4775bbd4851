package bringup_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

const ownImage = "custom/gpuaas-h200"

// When a deployed machine reports its hardware, MAAS renames what it installed.
// That is no other installation.
func TestASyncDoesNotChangeWhatWeDeployed(t *testing.T) {
	t.Parallel()
	cases := map[string]func(job *bringup.Work){
		"by our own record": func(*bringup.Work) {},
		// as a job of a version before has it
		"by the record of MAAS": func(job *bringup.Work) { job.Facts.Installation = nil },
	}
	w := newWorld(t, aFleet(len(cases)+1), func(p *plan) {
		p.sim.Images, p.policy.DistroSeries = []string{ownImage}, set(ownImage)
	})
	n := 0
	for name, before := range cases {
		n++
		job := w.arrived(t, n)
		t.Run(name, func(t *testing.T) {
			before(job)
			if m := w.machine(t, job.SystemID); m.OSystem+"/"+m.DistroSeries != "ubuntu/jammy" {
				t.Fatalf("MAAS calls it %s/%s", m.OSystem, m.DistroSeries)
			}
			p, missing, err := w.bringup.ProveInstalled(system(t), job)
			if err != nil || missing != "" || p.Image != ownImage || job.Facts.Image != ownImage {
				t.Errorf("proof %+v, missing %q, %v", p, missing, err)
			}
			if r := w.does(t, bringup.DeployViaMAAS, job); !r.Skipped {
				t.Errorf("it is deployed again: %s", r.Message)
			}
			w.does(t, bringup.WaitForDeployed, job)
			if job.Facts.Image != ownImage {
				t.Errorf("the image is %s", job.Facts.Image)
			}
		})
	}
}

// What somebody else installed since is another one, whatever its name was.
func TestAnInstallationOfSomebodyElseIsNotOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1), func(p *plan) {
		p.sim.Images, p.policy.DistroSeries = []string{ownImage}, set(ownImage)
	})
	work := w.arrived(t, 1)
	w.happens(t, work.SystemID, "redeploy")
	work.Deadline = time.Now().Add(10 * time.Second)
	if _, missing, err := w.bringup.ProveInstalled(system(t), work); err != nil || missing == "" {
		t.Errorf("proven all the same, %v", err)
	}
	w.fails(t, bringup.DeployViaMAAS, work, job.StateAmbiguity, "machine_in_use")
}
