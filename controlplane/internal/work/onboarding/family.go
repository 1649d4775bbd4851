package onboarding

import (
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// family holds the advice and explanations that operators get about
// onboardings.
var family = job.Family[Onboarding]{
	Noun:      bringup.Onboarding,
	Life:      &job.Parking,
	Table:     func(Onboarding) job.Table { return table },
	Sample:    func(j job.Job) Onboarding { return Onboarding{Job: j} },
	First:     first,
	Adoptable: func(o Onboarding) bool { return slices.Contains(adoptable, o.Observed.Status) },
	Classify:  bringup.Classify, ClassCauses: bringup.ClassCauses,
	Seen:      func(o Onboarding, now time.Time) job.Sighting { return o.Seen(now) },
	Left:      func(o Onboarding) []string { return o.Facts.Left },
	HoldsData: Onboarding.holdsData,
	Does:      does,
	Warns:     warns,
	Undone:    undone,
	AfterEnd:  afterEnd,
	Reached: func(o Onboarding, took string) string {
		return fmt.Sprintf("%s became node %s%s", o.Hostname, o.Node, took)
	},
}

// first lists the actions that repair a failure of a class; among equally safe
// ones, the best comes first.
var first = map[job.FailureClass][]job.Trigger{
	bringup.InputConfigError:              {job.Rerun},
	bringup.SiteCapabilityMissing:         {job.Resume, job.Rerun},
	bringup.UpstreamTransient:             {job.Resume, job.RetryStage, job.Rerun},
	bringup.BMCPowerFailure:               {job.RetryStage, job.Rerun},
	bringup.PXEDiscoveryFailure:           {job.Rerun, job.RetryStage},
	bringup.HardwareMismatch:              {job.Rerun, job.RetryStage},
	bringup.DeployInstallerFailure:        {job.Rerun, job.Resume},
	bringup.DeployCloudInitFailure:        {job.Rerun, job.Resume},
	bringup.PostDeployConnectivityFailure: {job.RetryStage, job.Resume},
	bringup.HardwareSyncFailure:           {job.RetryStage, job.Resume},
	bringup.AgentEnrollmentFailure:        {job.Resume, job.RetryStage},
	bringup.StateAmbiguity:                {job.Rerun, job.AdoptObserved},
}

// adoptable are the states of MAAS from which a job can go on.
var adoptable = []string{"Ready", "Allocated", "Deploying", "Deployed"}

func does(o Onboarding, action job.Trigger) string {
	if action == job.RestartClean && o.holdsData() {
		return "releases the machine if this job holds it, which DESTROYS what is on its disks, and starts from nothing"
	}
	return bringup.Does(action)
}

// warns reminds the operator of what the requester confirmed, perhaps days ago
// and perhaps another person.
func warns(o Onboarding, action job.Trigger) string {
	if goesOn := action == job.Resume || action == job.RetryStage || action == job.Rerun; goesOn &&
		o.ErrorCode == bringup.CodeIdentityVoid.Name {
		return "the machine is released and reinstalled, which DESTROYS what is on it: its first boot holds a token that works for nobody"
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
	return "when the machine is installed, its first boot DESTROYS the data on all disks except the root disk, as requested"
}

func undone(o Onboarding) string {
	if s, ok := table.Of(o.Stage); ok && s.OnCancel != "" && o.Facts.DeployedAt == nil {
		return s.OnCancel
	}
	if o.Facts.DeployedAt != nil {
		return leftDeployed + "; to release the machine instead, which DESTROYS what is on its disks, " +
			"choose Restart clean, then cancel while it is rolling back"
	}
	return nothingUndone
}

func afterEnd(o Onboarding) string {
	if o.Status == job.Cancelled {
		return "it has ended; onboard the machine anew, unless it left a node behind: see what is left in gpuaas onboarding show"
	}
	return fmt.Sprintf("it has reached its goal; the machine is node %s", o.Node)
}

// holdsData says whether something is installed on the machine, by this job or
// by somebody else.
func (o Onboarding) holdsData() bool {
	return o.Facts.DeployedAt != nil || o.Observed.Status == "Deployed"
}
