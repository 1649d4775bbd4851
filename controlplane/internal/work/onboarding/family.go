package onboarding

import (
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// family is what operators are advised and told about onboardings.
var family = job.Family[Onboarding]{
	Noun:      "onboarding",
	Life:      &job.Parking,
	Table:     func(Onboarding) job.Table { return table },
	Sample:    func(j job.Job) Onboarding { return Onboarding{Job: j} },
	First:     first,
	FirstOf:   firstOf,
	Adoptable: func(o Onboarding) bool { return slices.Contains(adoptable, o.Observed.Status) },
	Classify:  bringup.Classify, Causes: bringup.Causes, ClassCauses: bringup.ClassCauses,
	Seen: func(o Onboarding) (string, *time.Time) { return o.Seen() },
	Left: func(o Onboarding) []string { return o.Facts.Left },
	Rewind: map[string]string{
		codeSyncUnproven: bringup.EnsureHardwareSyncConfigured, bringup.CodeIdentityVoid: bringup.RenderCloudInit,
	},
	HoldsData: Onboarding.holdsData,
	Does:      does,
	Warns:     warns,
	Undone:    undone,
	AfterEnd:  afterEnd,
	Awaits:    "a place within the limits of the site and the batch is free",
	Reached: func(o Onboarding, took string) string {
		return fmt.Sprintf("%s became node %s%s", o.Hostname, o.Node, took)
	},
}

// first says which action mends a failure of a class, best first.
var first = map[job.FailureClass][]job.Trigger{
	bringup.InputConfigError:              {job.Rerun, job.Cancel},
	bringup.SiteCapabilityMissing:         {job.Resume, job.Rerun},
	bringup.UpstreamTransient:             {job.Resume, job.RetryStage, job.Rerun},
	bringup.BMCPowerFailure:               {job.RetryStage, job.Rerun},
	bringup.PXEDiscoveryFailure:           {job.Rerun, job.RetryStage},
	bringup.HardwareMismatch:              {job.Rerun, job.RetryStage},
	bringup.DeployCloudInitFailure:        {job.Rerun, job.RestartClean},
	bringup.PostDeployConnectivityFailure: {job.RetryStage, job.Resume},
	bringup.HardwareSyncFailure:           {job.RetryStage, job.Resume},
	bringup.AgentEnrollmentFailure:        {job.Resume, job.RetryStage},
	bringup.StateAmbiguity:                {job.Rerun, job.AdoptObserved, job.RestartClean},
}

// firstOf is the best action where the code of a failure says more than its
// class: adopting a machine that is not ours finds nothing, and what is not what
// was installed is not mended by looking again.
var firstOf = map[string]job.Trigger{
	"nothing_to_adopt":       job.Rerun,
	"machine_in_use":         job.Rerun,
	"machine_bound":          job.Rerun,
	"machine_claimed":        job.Rerun,
	"stage_lost":             job.RetryStage,
	"maas_machine_locked":    job.Rerun,
	"discovery_conflict":     job.Rerun,
	"discovery_ambiguous":    job.Rerun,
	"node_conflict":          job.Rerun,
	"first_boot_missing":     job.Resume,
	"first_boot_changed":     job.Resume,
	"machine_hollow":         job.RestartClean,
	"deployed_image_differs": job.RestartClean,
	"ssh_host_key_changed":   job.RestartClean,
	"hw_sync_disabled":       job.RestartClean,
}

// adoptable are the states of MAAS that a job can go on from.
var adoptable = []string{"Ready", "Allocated", "Deploying", "Deployed"}

func does(o Onboarding, action job.Trigger) string {
	if action == job.RestartClean && o.holdsData() {
		return "releases the machine if this job holds it, which DESTROYS what is on its disks, and starts from nothing"
	}
	return bringup.Does(action)
}

// warns reminds of what was confirmed when the onboarding was asked for, perhaps
// by somebody else and days ago.
func warns(o Onboarding, action job.Trigger) string {
	if goesOn := action == job.Resume || action == job.RetryStage || action == job.Rerun; goesOn && o.ErrorCode == bringup.CodeIdentityVoid {
		return "the machine is released and installed anew, which DESTROYS what is on it: its first boot holds a token that works for nobody"
	}
	if !o.InitializeDisks {
		return ""
	}
	switch action {
	case job.RetryStage, job.Resume, job.Rerun:
		if o.Facts.DeployedAt != nil {
			return ""
		}
	case job.RestartClean:
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
	if o.Status == job.Cancelled {
		return "it has ended; onboard the machine anew, unless it left a node behind: see what is left in gpuaas onboarding show"
	}
	return fmt.Sprintf("it has reached its goal; the machine is node %s", o.Node)
}

// holdsData says that something is installed on the machine, by this job or by
// somebody else.
func (o Onboarding) holdsData() bool {
	return o.Facts.DeployedAt != nil || o.Observed.Status == "Deployed"
}
