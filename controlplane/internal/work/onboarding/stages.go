package onboarding

import (
	"context"
	"slices"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// catalog holds what onboardings do besides the stages of package bringup. Each
// entry declares itself in stage_<name>.go.
var catalog job.Catalog[func(hooks, context.Context, *bringup.Work) (job.Result, error)]

// What cancelling undoes, by how far the onboarding has come.
const (
	nothingUndone = "nothing is undone: the machine stays in MAAS as it is"
	releasedReady = "the machine is released to Ready if this job holds it, the node record and its token are withdrawn"
	leftDeployed  = "the machine is left deployed for investigation, the node is quarantined"
)

// stages lists the stages of an onboarding in order. Package bringup declares
// them in its files stage_<name>.go.
var stages = slices.Concat([]job.Stage{
	bringup.MachineStage(bringup.LoadSiteConfig).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.ResolvePowerCredentials).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.CreateOrFindInMAAS).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.CommissionNode).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.WaitForReady).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.ConfigureStorage).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.ApplyRoCEPhase2).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.EnsurePXEInterfaceAuto).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.RenderCloudInit).Cancelled(releasedReady),
	bringup.MachineStage(bringup.DeployViaMAAS).Cancelled(releasedReady),
	bringup.MachineStage(bringup.WaitForDeployed).Cancelled(releasedReady),
	bringup.MachineStage(bringup.ClassifyDeployFailure).Cancelled(releasedReady),
	bringup.MachineStage(bringup.RecoverForDatasourceRetry).Cancelled(releasedReady),
}, deployedStages())

// deployedStages are the stages after the deployment.
func deployedStages() (out []job.Stage) {
	for _, name := range bringup.AfterDeployment {
		out = append(out, bringup.MachineStage(name).Cancelled(leftDeployed))
	}
	return out
}

var (
	// pseudoStages are what a workflow does besides its stages.
	pseudoStages []job.Stage
	// table holds the stages and the pseudo stages.
	table job.Table
)

func init() { // all files have declared their stages by now
	pseudoStages = []job.Stage{catalog.Of(job.StageCompensate), catalog.Of(job.StageAdopt)}
	table = slices.Concat(job.Table(stages), pseudoStages)
}

// classes returns the failure classes of the stages, in order.
func classes() []job.FailureClass {
	return slices.DeleteFunc(slices.Clone(bringup.FailureClasses), func(c job.FailureClass) bool {
		return !slices.ContainsFunc(table, func(s job.Stage) bool {
			return slices.ContainsFunc(s.Fails, func(f job.FailureMode) bool { return f.Class == c })
		})
	})
}
