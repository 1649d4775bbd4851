package onboarding

import (
	"slices"

	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Stages lists the sixteen stages in their order.
func Stages() []job.Stage { return slices.Clone(stages) }

// table is the stages and the pseudo stages.
var table = slices.Concat(job.Table(stages), pseudoStages)

const (
	nothingUndone = "nothing is undone: the machine stays in MAAS as it is"
	releasedReady = "the machine is released to Ready if this job holds it, the node record and its token are withdrawn"
	leftDeployed  = "the machine is left deployed for investigation, the node is quarantined"
)

// The ways in which stages fail that all jobs know.
var (
	maasAway   = bringup.MAASAway
	outOfBand  = bringup.OutOfBand
	notCapable = bringup.NotCapable
	bmcSilent  = bringup.BMCSilent
)

var stages = []job.Stage{
	{
		Name: bringup.LoadSiteConfig, Title: "Read the site", Attempts: 3, Resume: bringup.LoadSiteConfig,
		Looks: "the site, its profile and its MAAS", Does: "nothing", Expects: "the site is active, MAAS answers, takes the token and has the image",
		Again: "it only reads", OnCancel: nothingUndone,
		Fails: []job.FailureMode{maasAway, notCapable, job.FailsWith(bringup.InputConfigError, "the site is disabled and nothing was begun")},
	},
	{
		Name: bringup.ResolvePowerCredentials, Title: "Choose BMC credentials", Attempts: 3, Resume: bringup.LoadSiteConfig,
		Looks: "the overrides of the site, then its default", Does: "nothing", Expects: "credentials for the BMC are known",
		Again: "it only reads", OnCancel: nothingUndone,
		Fails: []job.FailureMode{maasAway, job.FailsWith(bringup.SiteCapabilityMissing, "there are no credentials for the BMC")},
	},
	{
		Name: bringup.CreateOrFindInMAAS, Title: "Find the machine in MAAS", Attempts: 3, Limit: job.Limit(site.StageDiscovery), Resume: bringup.CreateOrFindInMAAS,
		Looks: "MAAS, by hostname, then power address, then PXE MAC", Does: "creates the machine if MAAS has none, or boots it from the network to be discovered",
		Expects: "exactly one machine of MAAS is this one", Again: "it looks before it creates", OnCancel: nothingUndone,
		Fails: []job.FailureMode{
			maasAway, bmcSilent,
			job.FailsWith(bringup.PXEDiscoveryFailure, "the machine does not appear in MAAS in time"),
			job.FailsWith(bringup.StateAmbiguity, "several machines may be meant, or the one found is in use"),
		},
	},
	{
		Name: bringup.CommissionNode, Title: "Commission", Attempts: 3, Resume: bringup.CreateOrFindInMAAS,
		Looks: "the status of the machine", Does: "sets hostname and power parameters, starts commissioning", Expects: "the machine is commissioning or Ready",
		Again: "a machine that is Ready or commissioning is left alone", OnCancel: nothingUndone,
		Fails: []job.FailureMode{maasAway, bmcSilent, outOfBand},
	},
	{
		Name: bringup.WaitForReady, Title: "Wait until Ready", Attempts: 1, Limit: job.Limit(site.StageCommission), Resume: bringup.CommissionNode,
		Looks: "the status of the machine, over and over", Does: "nothing", Expects: "MAAS shows the machine as Ready",
		Again: "it only reads", OnCancel: nothingUndone,
		Fails: []job.FailureMode{
			maasAway, bmcSilent, outOfBand,
			job.FailsWith(bringup.HardwareMismatch, "commissioning failed"),
			job.FailsWith(bringup.PXEDiscoveryFailure, "commissioning took too long"),
		},
	},
	bringup.MachineStage(bringup.ConfigureStorage).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.ApplyRoCEPhase2).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.EnsurePXEInterfaceAuto).Cancelled(nothingUndone),
	bringup.MachineStage(bringup.RenderCloudInit).Cancelled(releasedReady),
	bringup.MachineStage(bringup.DeployViaMAAS).Cancelled(releasedReady),
	bringup.MachineStage(bringup.WaitForDeployed).Cancelled(releasedReady),
	bringup.MachineStage(bringup.ClassifyDeployFailure).Cancelled(releasedReady),
	bringup.MachineStage(bringup.RecoverForDatasourceRetry).Cancelled(releasedReady),
	bringup.MachineStage(bringup.EnsureHardwareSyncConfigured).Cancelled(leftDeployed),
	bringup.MachineStage(bringup.WaitForHardwareSyncHealthy).Cancelled(leftDeployed),
	bringup.MachineStage(bringup.WaitForAgentEnrollment).Cancelled(leftDeployed),
}

var pseudoStages = []job.Stage{
	{
		Name: job.StageCompensate, Title: "Undo", Attempts: 3, Limit: job.Limit(site.StageRelease), Pseudo: true,
		Looks: "how far the job has come", Does: "undoes what may be undone", Expects: "nothing of this job is left, except for what is said",
		Again: "what is undone already is left alone", Fails: []job.FailureMode{maasAway, outOfBand},
	},
	{
		Name: job.StageAdopt, Title: "Adopt what is there", Attempts: 1, Pseudo: true,
		Looks: "the machine in MAAS and the node", Does: "nothing", Expects: "the machine is provably this one, in a state that a stage begins with",
		Again: "it only reads", Fails: []job.FailureMode{maasAway, job.FailsWith(bringup.StateAmbiguity, "nothing that is seen can be adopted")},
	},
}
