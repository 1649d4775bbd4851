package decommission

import (
	"context"
	"fmt"
	"slices"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// catalog holds the stages of decommissions that are not those of bringup. Each
// declares itself in stage_<name>.go.
var catalog job.Catalog[func(hooks, context.Context, Decommission, *bringup.Work) (job.Result, error)]

// The stages of bringup that this package names often.
const (
	stageLoad         = bringup.LoadSiteConfig
	stageRelease      = bringup.ReleaseMAASNode
	stagePowerOff     = bringup.PowerOffMAASNode
	stageRemoveRecord = bringup.RemoveMAASRecord
)

// Texts that several stages share.
const (
	nothingUndone = "nothing is undone"
	letGo         = "the node is let go: it returns to what it was, unless it is not proven clean, in which case it stays held"
	notBack       = "what was released cannot be brought back: the node stays out of service; reimage it, or decommission it fully"
	onlyReads     = "it only reads"
	looksFirst    = "it looks first"
	sameTask      = "a task that is under way is waited for, and never given twice"
)

// databaseRetryCount is how many attempts a change of the inventory gets.
const databaseRetryCount = 3

// The failures that several stages share.
var (
	maasAway    = bringup.MAASAway
	outOfBand   = bringup.OutOfBand
	agentSilent = job.FailsWith(bringup.NodeAgentUnreachable, "the agent does not answer, or the task is lost")
	rootHad     = job.FailsWith(bringup.StateAmbiguity,
		"somebody had root on the installation that the evidence is from")
	inventoryAway = job.FailsWith(bringup.UpstreamTransient, "the inventory cannot be changed")
)

// plans lists the stages of each mode, in order.
var plans = map[Mode][]string{
	SoftReset: {StageDisable, StageDrain, StageStorage, StageScrub, StageValidate, StageCertificate, StageEnable},
	Reimage: slices.Concat([]string{
		StageDisable, StageDrain, StageStorage, StageScrub, stageLoad, stageRelease,
		bringup.ConfigureStorage, bringup.ApplyRoCEPhase2, bringup.EnsurePXEInterfaceAuto, bringup.RenderCloudInit,
		bringup.DeployViaMAAS,
		bringup.WaitForDeployed, bringup.ClassifyDeployFailure, bringup.RecoverForDatasourceRetry,
	}, bringup.AfterDeployment, []string{
		StageStorageAgain, StageScrubAgain, StageValidate, StageCertificate, StageEnable,
	}),
	FullDecommission: {
		StageDisable, StageForceRelease, StageDrain, stageLoad, stageRelease, stagePowerOff, StageRetire, StageRemove,
		StageSecrets, stageRemoveRecord,
		StageCertificate,
	},
	StorageCleanup: {StageDisable, StageStorage, StageValidate, StageEnable},
	Drain:          {StageDisable, StageForceRelease, StageDrain, StageRetire},
	Retire: {
		StageDisable, StageForceRelease, StageDrain, StageStorage, StageScrub, StageValidate,
		StageCertificate, StageRetire,
	},
	Reactivate: {StageReactivate, StageDrain, StageStorage, StageScrub, StageValidate, StageEnable},
	Remove:     {StageRemove, StageSecrets},
}

// cleaning is the stage to which each mode goes back when a validation found
// something: the one that cleans. A reinstalled machine is cleaned again if
// somebody had root, and otherwise only validated again.
var cleaning = map[Mode]string{
	SoftReset: StageDrain, Retire: StageDrain, StorageCleanup: StageStorage, Reactivate: StageDrain,
	Reimage: StageStorageAgain,
}

// ownStages lists the stages of this package in reading order.
var ownStages = []string{
	StageDisable, StageForceRelease, StageDrain, StageStorage, StageScrub, StageStorageAgain, StageScrubAgain,
	StageValidate, StageCertificate, StageEnable, StageReactivate, StageRetire, StageRemove, StageSecrets,
}

// machineStages are the stages of bringup that decommissions use, with what a
// cancel undoes.
var machineStages = slices.Concat([]job.Stage{
	readSite(),
	bringup.MachineStage(stageRelease).Cancelled(notBack),
	bringup.MachineStage(stagePowerOff).Cancelled(notBack),
	bringup.MachineStage(stageRemoveRecord).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.ConfigureStorage).Cancelled(notBack),
	bringup.MachineStage(bringup.ApplyRoCEPhase2).Cancelled(notBack),
	bringup.MachineStage(bringup.EnsurePXEInterfaceAuto).Cancelled(notBack),
	bringup.MachineStage(bringup.RenderCloudInit).Cancelled(notBack),
	bringup.MachineStage(bringup.DeployViaMAAS).Cancelled(notBack),
	bringup.MachineStage(bringup.WaitForDeployed).Cancelled(notBack),
	bringup.MachineStage(bringup.ClassifyDeployFailure).Cancelled(notBack),
	bringup.MachineStage(bringup.RecoverForDatasourceRetry).Cancelled(notBack),
}, deployedStages())

// deployedStages are the stages after the deployment.
func deployedStages() (out []job.Stage) {
	for _, name := range bringup.AfterDeployment {
		out = append(out, bringup.MachineStage(name).Cancelled(notBack))
	}
	return out
}

// readSite is the stage that reads the site. The job has begun already, so it
// goes on even if somebody disables the site meanwhile.
func readSite() job.Stage {
	s := bringup.MachineStage(stageLoad).Cancelled(letGo)
	s.Expects, s.Fails = "MAAS answers and takes the token", []job.FailureMode{maasAway, bringup.NotCapable}
	return s
}

var (
	// pseudoStages are what a workflow does besides its stages.
	pseudoStages []job.Stage
	// tables are the plans with their stages.
	tables map[Mode]job.Table
)

func init() { // all files have declared their stages by now
	pseudoStages = []job.Stage{catalog.Of(job.StageCompensate), catalog.Of(job.StageAdopt)}
	tables = laidOut(plans)
}

// allStages lists every stage once, in the order in which people read about them;
// the pseudo stages come last.
func allStages() []job.Stage {
	var own []job.Stage
	for _, name := range ownStages {
		own = append(own, catalog.Of(name))
	}
	return slices.Concat(own, machineStages, pseudoStages)
}

// laidOut makes the table of each mode from its plan. It panics if a plan names a
// stage that is not in ownStages or machineStages.
func laidOut(plans map[Mode][]string) map[Mode]job.Table {
	all := job.Table(allStages())
	out := map[Mode]job.Table{}
	for mode, names := range plans {
		for _, name := range names {
			s, known := all.Of(name)
			if !known {
				panic(fmt.Sprintf("%s goes through the stage %s, which does not exist", mode, name))
			}
			out[mode] = append(out[mode], inMode(s, mode))
		}
		out[mode] = append(out[mode], pseudoStages...)
	}
	return out
}

// inMode is a stage with what a mode changes about it.
func inMode(s job.Stage, mode Mode) job.Stage {
	if s.Name == StageValidate {
		s.Resume = cleaning[mode]
	}
	if mode == Reactivate { // it issues no document that could state a residual risk
		s.Overridable = false
		if s.Name == StageDrain {
			s.Resume = StageReactivate
		}
	}
	return s
}

// AllStages names every stage, each once.
func AllStages() []string {
	var out []string
	for _, s := range allStages() {
		out = append(out, s.Name)
	}
	return out
}
