package onboarding_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/testsuite"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

// The job of a node whose token somebody else had is parked with that, and what
// is recommended gives the machine another first boot.
func TestAttackAStolenTokenParksTheJobUntilTheMachineIsInstalledAnew(t *testing.T) {
	y := newYard(t)
	y.script.fails(1, bringup.WaitForAgentEnrollment, job.Failure{
		Class: bringup.AgentEnrollmentFailure, Code: bringup.CodeIdentityVoid, Message: "nobody is it", Remedy: "resume",
		Final: true,
	})
	o := y.request(t, 1)
	var parked onboarding.Onboarding
	done := y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
		parked = y.read(t, o.ID)
		y.act(t, o.ID, onboarding.Recommend(parked)[0].Action)(env)
	})
	first := onboarding.Recommend(parked)[0]
	if parked.Status != job.FailedManualIntervention || parked.ErrorCode != bringup.CodeIdentityVoid.Name ||
		parked.Stage != bringup.RenderCloudInit ||
		first.Action != job.Resume || !strings.Contains(first.Does, "DESTROYS") {
		t.Errorf("parked %+v, recommended %+v", parked, first)
	}
	var rendered int
	for _, stage := range y.script.called() {
		if stage == bringup.RenderCloudInit {
			rendered++
		}
	}
	if done.Status != job.Completed || rendered != 2 || !slices.Contains(y.script.called(), bringup.DeployViaMAAS) {
		t.Errorf("afterwards %+v, stages %q", done, y.script.called())
	}
}

// Whoever was the node when it polled is nobody when the job is to complete.
func TestAttackAnIdentityThatIsVoidedAtTheLastMomentDoesNotComplete(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	y.script.on(bringup.WaitForAgentEnrollment, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		r, err := y.script.well(ctx, bringup.WaitForAgentEnrollment, w)
		if err == nil && n == 1 {
			_, err = y.owner.Exec(ctx, `UPDATE nodes SET identity_void = 'stolen' WHERE id = $1`, w.Node)
		}
		return r, err
	})
	var parked onboarding.Onboarding
	y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
		parked = y.read(t, o.ID)
		y.act(t, o.ID, job.Cancel)(env)
	})
	if parked.ErrorCode != bringup.CodeIdentityVoid.Name || !strings.Contains(parked.ErrorMessage, "stolen") {
		t.Errorf("parked %+v", parked)
	}
}
