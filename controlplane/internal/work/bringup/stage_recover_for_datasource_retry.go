package bringup

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// RecoverForDatasourceRetry names the stage "Prepare another deployment".
const RecoverForDatasourceRetry = "recover_for_datasource_retry"

var _ = catalog.Declare(job.Stage{
	Name: RecoverForDatasourceRetry, Title: "Prepare another deployment", Attempts: 2,
	Limit: job.Limit(site.StageRelease), Resume: RenderCloudInit, Detour: true,
	Usually: "1 to 5 min",
	Looks:   "the status of the machine",
	Does:    "aborts and releases; the deployment starts over with a fresh token",
	Expects: "MAAS shows the machine as Ready",
	Again:   "a machine that is Ready is left alone",
	Fails:   []job.FailureMode{MAASAway, OutOfBand, notInstalled, notBooted},
}, (*Bringup).RecoverForDatasourceRetry)

// RecoverForDatasourceRetry gives the machine back to MAAS, for one more
// deployment with a fresh first boot.
func (b *Bringup) RecoverForDatasourceRetry(ctx context.Context, w *Work) (Result, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, err := b.machine(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	if m.Installed() && ours(m, w) {
		return lateSuccess(w), nil
	}
	if m, err = b.release(ctx, r, w); err != nil {
		return Result{}, err
	}
	w.Facts.Redeploys++
	next := RenderCloudInit
	if m.Status == maas.StatusNew { // its latest commissioning had not passed
		if w.Reimage {
			return Result{}, uncommissioned(w)
		}
		next = CommissionNode
	}
	return Result{
		Message: fmt.Sprintf("%s is %s again; deployment %d follows", w.Hostname, m.Status.Label(), w.Facts.Deploys+1),
		Details: map[string]any{"redeploys": w.Facts.Redeploys}, Next: next,
	}, nil
}

// uncommissioned makes the failure of a reimage whose machine MAAS wants to inspect
// again. The machine was in service, so an operator has to find out why.
func uncommissioned(w *Work) *Failure {
	return codeMachineNotReady.Failed("%s is New in MAAS after its release, because its latest commissioning had not passed", w.Hostname).
		With("commission the machine in MAAS; once it is Ready, resume").ForGood().
		About(map[string]any{"maas_status": maas.StatusNew.Label(), "expected": maas.StatusReady.Label()})
}
