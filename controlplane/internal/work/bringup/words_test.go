package bringup_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// Whatever MAAS refuses at whichever stage, of a job of either family: what it
// said itself is part of what operators are told, once.
func TestMAASsOwnSentenceIsShown(t *testing.T) {
	const sentence = "The flux of gpu-00001 is not balanced."
	asNew := func(_ *testing.T, w *world) *bringup.Work { return w.work(1) }
	asReady := func(t *testing.T, w *world) *bringup.Work { return w.ready(t, 1) }
	asRendered := func(t *testing.T, w *world) *bringup.Work {
		job := w.ready(t, 1)
		w.does(t, bringup.RenderCloudInit, job)
		return job
	}
	asNode := func(t *testing.T, w *world) *bringup.Work { return w.inService(t, 1, "none") }
	for name, c := range map[string]struct {
		stage, operation string
		status           int
		family           func(*testing.T, *world) *bringup.Work
	}{
		"site":       {bringup.LoadSiteConfig, "*", 500, asNew},
		"find":       {bringup.CreateOrFindInMAAS, "machines.*", 400, asNew},
		"commission": {bringup.CommissionNode, "machine.put", 400, asReady},
		"link":       {bringup.EnsurePXEInterfaceAuto, "*", 500, asReady},
		"allocate":   {bringup.DeployViaMAAS, "machines.allocate", 409, asRendered},
		"deploy":     {bringup.DeployViaMAAS, "machine.deploy", 400, asRendered},
		"release":    {bringup.ReleaseMAASNode, "machine.release", 409, asNode},
		"power off":  {bringup.PowerOffMAASNode, "machine.power_off", 503, asNode},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aFleet(1))
			job := c.family(t, w)
			w.fault(t, simfault.Rule{Fault: simfault.ErrorBefore, Operation: c.operation, Status: c.status, Text: sentence})
			_, err := w.bringup.Stages()[c.stage](system(t), job)
			if err == nil {
				t.Fatal("it does not fail")
			}
			if f := bringup.Classify(bringup.Classify(err)); strings.Count(f.Message, sentence) != 1 {
				t.Errorf("%s: %s", f.Code, f.Message)
			}
		})
	}
}

// A machine that MAAS gave up on is explained with MAAS's reason.
func TestMAASsOwnReasonOfAFailedInspectionIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *plan) { p.sim.Timing.Speed = 36000 })
	job := w.work(1)
	w.fault(t, simfault.Rule{Fault: simfault.PhaseHangs, Phase: region.PhasePXE})
	w.upTo(t, bringup.WaitForReady, job)
	f := w.fails(t, bringup.WaitForReady, job, bringup.PXEDiscoveryFailure, "failed_commission_timeout")
	if !strings.Contains(f.Message, "MAAS says ") || !strings.Contains(f.Message, "timed out after") {
		t.Error(f.Message)
	}
}

// What something in front of MAAS says is not called MAAS's own words.
func TestAWebPageIsNotMAASsSentence(t *testing.T) {
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.fault(t, simfault.Rule{
		Fault: simfault.ErrorBefore, Operation: "*", Status: 404, Text: "<html>gone</html>", ContentType: "text/html",
	})
	f := w.fails(t, bringup.CommissionNode, job, bringup.SiteCapabilityMissing, maas.CodeNotMAAS)
	if strings.Contains(f.Message, "MAAS says") {
		t.Error(f.Message)
	}
}
