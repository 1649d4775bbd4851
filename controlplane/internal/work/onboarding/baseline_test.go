package onboarding_test

import (
	"testing"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// A node may be bound before its onboarding completes, and its machine installed
// once more since: which installation it runs on is to be seen anew.
func TestACompletedOnboardingForgetsWhatWasInstalledBefore(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	bound := false
	y.mischief.before = func(call durable.StageCall) error {
		if call.Stage != bringup.WaitForAgentEnrollment || bound {
			return nil
		}
		bound = true
		y.exec(t, `INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id, installation_id) VALUES ($1, $2, $3, 'sys-c0001', 77)`, o.Node, o.Site, o.Profile)
		return nil
	}
	done := y.run(t, o.ID)
	if done.Status != job.Completed || !bound {
		t.Fatalf("it is %s at %s (bound %t): %s", done.Status, done.Stage, bound, done.ErrorMessage)
	}
	if got := y.count(t, `SELECT installation_id FROM node_maas_state WHERE node_id = $1 AND last_maas_status = 'Deployed'`, o.Node); got != 0 {
		t.Errorf("it is known to run %d", got)
	}
}
