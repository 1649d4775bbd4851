package bringup_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/sim/maas/region"
)

// after is another decommission of the same node, once the first was cancelled.
func (w *world) after(first *bringup.Work, erase string) *bringup.Work {
	job := w.work(1)
	job.Kind, job.WorkflowID, job.Erase, job.Prior = first.Kind, "decommission-"+job.Job, erase,
		append(slices.Clone(first.Prior), first.Job)
	job.Node, job.Hostname, job.IPMIIP, job.SystemID = first.Node, first.Hostname, first.IPMIIP, first.SystemID
	w.asked.reset()
	return job
}

// A job that was cancelled after its release must not leave a machine that no
// other job can take up: what MAAS reports of its erasing counts for the next.
func TestReleaseMaasNodeByAnEarlierJobOfTheNode(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		first, then string
		least       site.Erase
		code        string // of the release; empty: it is taken up
		adopted     string // what is achieved by adopting; empty: it cannot be
	}{
		"as much": {first: "quick", then: "quick", least: site.EraseQuick},
		"more":    {first: "secure", then: "quick", least: site.EraseQuick},
		"secure":  {first: "secure", then: "secure", least: site.EraseSecure},
		"nothing": {first: "none", then: "none", least: site.EraseNone},
		"less, enough for the policy": {
			first: "quick", then: "secure", least: site.EraseQuick, code: "released_elsewhere",
			adopted: "quick",
		},
		"less than the policy wants":   {first: "quick", then: "secure", least: site.EraseSecure, code: "released_elsewhere"},
		"none, and that is too little": {first: "none", then: "quick", least: site.EraseQuick, code: "released_elsewhere"},
	}
	w := newWorld(t, aFleet(len(cases)))
	n := 0
	for name, c := range cases {
		n++
		first := w.inService(t, n, c.first)
		t.Run(name, func(t *testing.T) {
			w.does(t, bringup.ReleaseMAASNode, first)
			job := w.after(first, c.then)
			job.Profile.Policy.MinimumErase, job.Profile.Policy.ReleaseFallbackNoErase = c.least, false
			if c.code == "" {
				f := evidence[bringup.ReleaseFacts](t, w.does(t, bringup.ReleaseMAASNode, job), bringup.EvidenceRelease)
				if f.Requested != c.then || f.Achieved != c.first || f.FellBack || f.EndedAt == nil ||
					!strings.Contains(strings.Join(f.Reported, "\n"), first.Job) {
					t.Errorf("the evidence is %+v", f)
				}
				if w.asked.of("machine.release") != 0 {
					t.Errorf("MAAS was asked: %s", w.asked)
				}
				return
			}
			w.fails(t, bringup.ReleaseMAASNode, job, bringup.StateAmbiguity, c.code)
			out, err := w.bringup.Adopt(system(t), job)
			if c.adopted == "" {
				if f := bringup.Classify(err); err == nil || f.Code.String() != "nothing_to_adopt" {
					t.Errorf("adopting answers %+v, %v", out, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f := evidence[bringup.ReleaseFacts](t, out, bringup.EvidenceRelease)
			if f.Achieved != c.adopted || !f.FellBack || f.DecidedBy != bringup.DecidedByAdopting {
				t.Errorf("the evidence is %+v", f)
			}
		})
	}
}

// What was erased before the last deployment says nothing of what was written
// since; and a job of another node is somebody else.
func TestReleaseMaasNodeByAnEarlierJobOfTheNodeBeforeADeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(2))
	first := w.inService(t, 1, "quick")
	w.does(t, bringup.ReleaseMAASNode, first)
	if _, err := w.sim.Deploy(admin, first.SystemID, url.Values{}); err != nil {
		t.Fatal(err)
	}
	w.until(t, first.SystemID, region.Deployed.String())
	w.happens(t, first.SystemID, "release")
	w.fails(t, bringup.ReleaseMAASNode, w.after(first, "quick"), bringup.StateAmbiguity, "released_elsewhere")

	stranger := w.inService(t, 2, "quick")
	w.does(t, bringup.ReleaseMAASNode, stranger)
	job := w.after(stranger, "quick")
	job.Prior = []string{id.NewString()}
	w.fails(t, bringup.ReleaseMAASNode, job, bringup.StateAmbiguity, "released_elsewhere")
}
