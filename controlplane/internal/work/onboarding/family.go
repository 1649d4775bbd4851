package onboarding

import (
	"fmt"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// family is what operators are advised and told about onboardings.
var family = job.Family[Onboarding]{
	Noun:      "onboarding",
	Table:     func(Onboarding) job.Table { return table },
	Sample:    func(j job.Job) Onboarding { return Onboarding{Job: j} },
	First:     first,
	FirstOf:   firstOf,
	Adoptable: adoptable,
	Rewind: map[string]string{
		codeSyncUnproven: bringup.EnsureHardwareSyncConfigured, bringup.CodeIdentityVoid: bringup.RenderCloudInit,
	},
	HoldsData: Onboarding.holdsData,
	Does:      does,
	Warns:     warns,
	Undone:    undone,
	AfterEnd:  afterEnd,
	Usually:   usually,
	Awaits:    "a place within the limits of the site and the batch is free",
	Reached: func(o Onboarding, took string) string {
		return fmt.Sprintf("%s became node %s%s", o.Hostname, o.Node, took)
	},
}

// first says which action mends a failure of a class, best first.
var first = map[durable.FailureClass][]durable.JobEvent{
	durable.InputConfigError:              {durable.JobRerun, durable.JobCancel},
	durable.SiteCapabilityMissing:         {durable.JobResume, durable.JobRerun},
	durable.UpstreamTransient:             {durable.JobResume, durable.JobRetryStage, durable.JobRerun},
	durable.BMCPowerFailure:               {durable.JobRetryStage, durable.JobRerun},
	durable.PXEDiscoveryFailure:           {durable.JobRerun, durable.JobRetryStage},
	durable.HardwareMismatch:              {durable.JobRerun, durable.JobRetryStage},
	durable.DeployCloudInitFailure:        {durable.JobRerun, durable.JobRestartClean},
	durable.PostDeployConnectivityFailure: {durable.JobRetryStage, durable.JobResume},
	durable.HardwareSyncFailure:           {durable.JobRetryStage, durable.JobResume},
	durable.AgentEnrollmentFailure:        {durable.JobResume, durable.JobRetryStage},
	durable.StateAmbiguity:                {durable.JobRerun, durable.JobAdoptObserved, durable.JobRestartClean},
}

// firstOf is the best action where the code of a failure says more than its
// class: adopting a machine that is not ours finds nothing, and what is not what
// was installed is not mended by looking again.
var firstOf = map[string]durable.JobEvent{
	"nothing_to_adopt":       durable.JobRerun,
	"machine_in_use":         durable.JobRerun,
	"machine_bound":          durable.JobRerun,
	"machine_claimed":        durable.JobRerun,
	"stage_lost":             durable.JobRetryStage,
	"maas_machine_locked":    durable.JobRerun,
	"discovery_conflict":     durable.JobRerun,
	"discovery_ambiguous":    durable.JobRerun,
	"node_conflict":          durable.JobRerun,
	"first_boot_missing":     durable.JobResume,
	"first_boot_changed":     durable.JobResume,
	"machine_hollow":         durable.JobRestartClean,
	"deployed_image_differs": durable.JobRestartClean,
	"ssh_host_key_changed":   durable.JobRestartClean,
	"hw_sync_disabled":       durable.JobRestartClean,
}

// adoptable are the states of MAAS that a job can go on from.
var adoptable = []string{"Ready", "Allocated", "Deploying", "Deployed"}

// usually says how long stages take that wait for hardware.
var usually = map[string]string{
	bringup.CreateOrFindInMAAS:           "seconds; up to half an hour when the machine must be discovered first",
	bringup.WaitForReady:                 "8 to 20 min",
	bringup.WaitForDeployed:              "10 to 30 min",
	bringup.RecoverForDatasourceRetry:    "1 to 5 min",
	bringup.EnsureHardwareSyncConfigured: "under a minute once the machine answers over SSH",
	bringup.WaitForHardwareSyncHealthy:   "a minute or two",
	bringup.WaitForAgentEnrollment:       "1 to 5 min",
	job.StageCompensate:                  "1 to 5 min; hours when disks are erased",
}

func does(o Onboarding, action durable.JobEvent) string {
	if action == durable.JobRestartClean && o.holdsData() {
		return "releases the machine if this job holds it, which DESTROYS what is on its disks, and starts from nothing"
	}
	return ""
}

// warns reminds of what was confirmed when the onboarding was asked for, perhaps
// by somebody else and days ago.
func warns(o Onboarding, action durable.JobEvent) string {
	if goesOn := action == durable.JobResume || action == durable.JobRetryStage || action == durable.JobRerun; goesOn && o.ErrorCode == bringup.CodeIdentityVoid {
		return "the machine is released and installed anew, which DESTROYS what is on it: its first boot holds a token that works for nobody"
	}
	if !o.InitializeDisks {
		return ""
	}
	switch action {
	case durable.JobRetryStage, durable.JobResume, durable.JobRerun:
		if o.Facts.DeployedAt != nil {
			return ""
		}
	case durable.JobRestartClean:
	default:
		return ""
	}
	return "once installed, its first boot DESTROYS the data on all disks but the root disk, as was asked for"
}

func undone(o Onboarding) string {
	if s, ok := table.Of(o.Stage); ok && s.OnCancel != "" && o.Facts.DeployedAt == nil {
		return s.OnCancel
	}
	if o.Facts.DeployedAt != nil {
		return leftDeployed + "; to give the machine back instead, restart clean first and cancel that"
	}
	return nothingUndone
}

func afterEnd(o Onboarding) string {
	if o.Status == durable.JobCancelled {
		return "it has ended; onboard the machine anew, unless it left a node behind: see what is left in gpuaas onboarding show"
	}
	return fmt.Sprintf("it has reached its goal; the machine is node %s", o.Node)
}

// holdsData says that something is installed on the machine, by this job or by
// somebody else.
func (o Onboarding) holdsData() bool {
	return o.Facts.DeployedAt != nil || o.Observed.Status == "Deployed"
}
