package bringup

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// WaitForDeployed names the stage "Wait until Deployed".
const WaitForDeployed = "wait_for_deployed"

var _ = catalog.Declare(job.Stage{
	Name: WaitForDeployed, Title: "Wait until Deployed", Attempts: 1, Limit: job.Limit(site.StageDeploy),
	Resume:  RenderCloudInit,
	Usually: "10 to 30 min",
	Looks:   "the status of the machine, over and over",
	Does:    "nothing",
	Expects: "MAAS shows the machine as Deployed with the image",
	Again:   "it only reads",
	Fails:   []job.FailureMode{MAASAway, OutOfBand, notInstalled, notBooted},
}, (*Bringup).WaitForDeployed)

// The code of failures that only this stage has.
var codeDeployAborted = job.DeclareCode(job.Code{
	Name: "deploy_aborted", Class: StateAmbiguity,
	Cause:   "Somebody stopped the installation in MAAS.",
	Remedy:  "check the machine and its events in MAAS, then rerun: it continues from the present state of the machine",
	Runbook: "onboarding-parked",
	Mends:   job.Mends{Decommission: job.Rerun},
})

// WaitForDeployed waits for the end of the installation. Deployed says that the
// first boot asked for its user data; whether that succeeded, later stages tell.
func (b *Bringup) WaitForDeployed(ctx context.Context, w *Work) (Result, error) {
	m, err := b.awaitMachine(ctx, w, w.Deadline, maas.UntilDeployed)
	if err != nil {
		return Result{}, b.undeployed(ctx, w, m, err)
	}
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	if m, err = asDeployed(ctx, r, w, m); err != nil {
		return Result{}, err
	}
	if err := b.ourDeployment(ctx, r, w, m); err != nil {
		return Result{}, err
	}
	addresses, err := b.reachable(ctx, w, m)
	if err != nil {
		return Result{}, err
	}
	if w.Facts.DeployedAt == nil {
		at := b.now().UTC()
		w.Facts.DeployedAt = &at
	}
	w.Facts.Addresses, w.Facts.Image = addresses, m.Image()
	w.Facts.DeployFailure, w.Facts.DeployEvidence = "", ""
	if err := w.Save(ctx); err != nil {
		return Result{}, err
	}
	if err := b.cfg.Nodes.ExpectFrom(ctx, w.Node, m.IPAddresses); err != nil {
		return Result{}, err
	}
	if err := b.dropFirstBoot(ctx, w); err != nil {
		return Result{}, err
	}
	return Result{
		Message: fmt.Sprintf("%s runs %s", w.Hostname, m.Image()),
		Details: map[string]any{"image": m.Image(), "addresses": m.IPAddresses},
	}, nil
}

// undeployed says why the machine did not become Deployed.
func (b *Bringup) undeployed(ctx context.Context, w *Work, m maas.Machine, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var f *Failure
	switch code := fault.CodeOf(err); {
	case code != maas.CodeMachineFailed && code != maas.CodeWaitEnded:
		return err
	case m.Status == maas.StatusDeploying && ours(m, w):
		f = codeDeployTimeout.Failed("%s is still Deploying at the end of the time that the profile gives a deployment",
			w.Hostname)
		f.Next = ClassifyDeployFailure
	case m.Status == maas.StatusFailedDeployment && ours(m, w):
		f = codeDeployFailed.Failed("the deployment of %s failed: %s", w.Hostname, Classify(err).Message)
		f.Next = ClassifyDeployFailure
	case m.Status == maas.StatusAllocated && ours(m, w):
		f = codeDeployAborted.Failed("the deployment of %s was aborted in MAAS, and not by this job", w.Hostname).ForGood()
	case m.Hollow():
		f = codeMachineHollow.Failed("MAAS shows %s as Deployed, but nothing is installed on it", w.Hostname).ForGood()
	default:
		f = codeMachineReleased.Failed("%s is %s in MAAS: somebody took it away while it was being deployed", w.Hostname,
			m.Status.Label()).ForGood()
	}
	return f.Because(err).With("check the machine and its events in MAAS, then rerun: it continues from the present state of the machine").
		About(map[string]any{"maas_status": m.Status.Label(), "expected": maas.StatusDeployed.Label()})
}
