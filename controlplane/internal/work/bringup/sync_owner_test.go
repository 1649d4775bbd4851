package bringup_test

import (
	"testing"

	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
)

// MAAS has one interval for all machines. Two sites that share it do not set it in
// turns: the oldest one does.
func TestOnlyTheOwnerSetsTheIntervalOfHardwareSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1), func(p *plan) { p.policy.HardwareSyncInterval = set("20m") })
	if _, err := w.owner.Exec(t.Context(), `UPDATE maas_sites SET created_at = created_at + interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	if _, err := w.sites.CreateSite(system(t), "older", site.SettingsChange{
		RegionCode: set("eu-1"), APIBaseURL: set(w.sim.URL), PXEIface: set("eno1"), NodePXEIface: set("eno8303"),
	}); err != nil {
		t.Fatal(err)
	}
	job := w.ready(t, 1)
	w.does(t, bringup.RenderCloudInit, job)
	w.does(t, bringup.DeployViaMAAS, job)
	w.does(t, bringup.WaitForDeployed, job)
	if got := w.asked.of("maas.set_config"); got != 0 {
		t.Errorf("the interval of the other site was written over %d times", got)
	}
	if m := w.machine(t, job.SystemID); *m.SyncInterval != 900 {
		t.Errorf("the interval is %d", *m.SyncInterval)
	}
}
