package bringup_test

import (
	"testing"

	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// This job's deployment failed and was released; then somebody else installed
// the machine, past any event that names them. What this job asked for before
// the release does not make the machine its own again: nothing touches it, a
// clean restart included.
func TestWhatSomebodyElseInstalledAfterOurReleaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.work(1)
	w.upTo(t, bringup.RenderCloudInit, job)
	w.begin(t, job, simfault.PhaseFails, region.PhaseInstall)
	w.fails(t, bringup.WaitForDeployed, job, bringup.DeployInstallerFailure, "deploy_failed")
	w.fails(t, bringup.ClassifyDeployFailure, job, bringup.DeployInstallerFailure, "deploy_failed")
	w.happens(t, job.SystemID, "redeploy")
	for _, stage := range []string{
		bringup.CommissionNode, bringup.WaitForReady, bringup.ConfigureStorage,
		bringup.DeployViaMAAS,
	} {
		w.fails(t, stage, job, bringup.StateAmbiguity, "machine_in_use")
	}
	boots := w.machine(t, job.SystemID)
	job.Reset = true
	err := w.bringup.Compensate(system(t), job)
	after := w.machine(t, job.SystemID)
	if after.Status != boots.Status || after.Owner == nil || after.OSystem != boots.OSystem {
		t.Errorf("undoing (%v) made the machine of somebody else %+v, left %q", err, after.StatusName, job.Facts.Left)
	}
}
