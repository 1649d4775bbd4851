package bringup

import (
	"fmt"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// The ways in which stages fail that more than one family knows.
var (
	MAASAway      = job.FailsWith(UpstreamTransient, "MAAS or the secrets engine cannot be reached")
	OutOfBand     = job.FailsWith(StateAmbiguity, "the machine was changed, removed or taken by somebody else")
	NotCapable    = job.FailsWith(SiteCapabilityMissing, "MAAS refuses the token or lacks what the profile needs")
	BMCSilent     = job.FailsWith(BMCPowerFailure, "the BMC cannot be reached or refuses the credentials")
	noWayToReach  = job.FailsWith(PostDeployConnectivityFailure, "the machine cannot be reached over SSH")
	deployNotDone = job.FailsWith(DeployCloudInitFailure, "the deployment failed or took too long")
)

// MachineStage is a stage that installs a machine, for every family whose jobs
// go through it. What a cancel undoes is the family's to say.
func MachineStage(name string) job.Stage {
	for _, s := range machineStages {
		if s.Name == name {
			return s
		}
	}
	panic(fmt.Sprintf("there is no stage %s", name)) // a table names it, and tables are made when the program starts
}

var machineStages = []job.Stage{
	{
		Name: ConfigureStorage, Title: "Set up the boot disk", Attempts: 1, Resume: ConfigureStorage,
		Looks: "the disks of the machine", Does: "makes the BOSS disk the boot disk, flat layout", Expects: "the layout lies on the BOSS disk",
		Again: "what is already so is not written",
		Fails: []job.FailureMode{MAASAway, OutOfBand, job.FailsWith(HardwareMismatch, "no disk, or more than one, looks like the BOSS disk")},
	},
	{
		Name: ApplyRoCEPhase2, Title: "Set up RoCE addresses", Attempts: 1, Resume: ConfigureStorage,
		Looks: "the assignments of the hostname and the interfaces", Does: "creates missing /31 subnets and links",
		Expects: "each assigned address is linked; problems are a warning and never stop the job",
		Again:   "links that exist are left alone", Fails: []job.FailureMode{MAASAway},
	},
	{
		Name: EnsurePXEInterfaceAuto, Title: "Set up the PXE interface", Attempts: 2, Resume: ConfigureStorage,
		Looks: "the links of the PXE interface", Does: "links it AUTO if it is neither AUTO nor DHCP", Expects: "the PXE interface has an AUTO or DHCP link",
		Again: "a link that is right is left alone",
		Fails: []job.FailureMode{MAASAway, OutOfBand, job.FailsWith(HardwareMismatch, "there is no such interface, or it has no subnet")},
	},
	{
		Name: RenderCloudInit, Title: "Prepare the first boot", Attempts: 3, Resume: ConfigureStorage,
		Looks: "whether the node exists", Does: "adds the node to the inventory, issues its token, composes the first boot", Expects: "the first boot lies in the secrets engine",
		Again: "the node is made once; a token replaces the one before",
		Fails: []job.FailureMode{MAASAway, job.FailsWith(InputConfigError, "the SKU cannot be used"), job.FailsWith(StateAmbiguity, "another node has the hostname")},
	},
	{
		Name: DeployViaMAAS, Title: "Deploy", Attempts: 3, Resume: RenderCloudInit,
		Looks: "the machine, anew, before each effect", Does: "allocates the machine and deploys the image with the first boot", Expects: "MAAS shows the machine as Deploying for this job",
		Again: "a machine that this job already deploys is not deployed again",
		Fails: []job.FailureMode{MAASAway, NotCapable, BMCSilent, OutOfBand},
	},
	{
		Name: WaitForDeployed, Title: "Wait until Deployed", Attempts: 1, Limit: job.Limit(site.StageDeploy), Resume: RenderCloudInit,
		Looks: "the status of the machine, over and over", Does: "nothing", Expects: "MAAS shows the machine as Deployed with the image",
		Again: "it only reads", Fails: []job.FailureMode{MAASAway, OutOfBand, deployNotDone},
	},
	{
		Name: ClassifyDeployFailure, Title: "Find out why the deployment failed", Attempts: 1, Resume: RenderCloudInit, Detour: true,
		Looks: "the events and installation results of MAAS", Does: "releases the machine to Ready unless it is to be deployed again",
		Expects: "the failure is told apart: no datasource, or anything else", Again: "releasing looks first",
		Fails: []job.FailureMode{MAASAway, OutOfBand, deployNotDone},
	},
	{
		Name: RecoverForDatasourceRetry, Title: "Prepare another deployment", Attempts: 2, Limit: job.Limit(site.StageRelease), Resume: RenderCloudInit, Detour: true,
		Looks: "the status of the machine", Does: "aborts and releases; the deployment begins anew with a fresh token", Expects: "MAAS shows the machine as Ready",
		Again: "a machine that is Ready is left alone", Fails: []job.FailureMode{MAASAway, OutOfBand, deployNotDone},
	},
	{
		Name: EnsureHardwareSyncConfigured, Title: "Set up hardware sync", Attempts: 1, Limit: job.Limit(site.StageHWSyncSeed), Resume: EnsureHardwareSyncConfigured,
		Looks: "the machine's token in MAAS and its addresses", Does: "brings the credentials to the machine over SSH, or by its agent, and starts the timer", Expects: "the machine reports with its own credentials",
		Again: "bringing the credentials again changes nothing",
		Fails: []job.FailureMode{MAASAway, OutOfBand, noWayToReach, job.FailsWith(HardwareSyncFailure, "MAAS has no token for the machine")},
	},
	{
		Name: WaitForHardwareSyncHealthy, Title: "Wait for hardware sync", Attempts: 1, Limit: job.Limit(site.StageHWSyncHealth), Resume: EnsureHardwareSyncConfigured,
		Looks: "the last sync that MAAS saw, over and over", Does: "brings the credentials again now and then", Expects: "MAAS has seen a sync since, and no older than it may be",
		Again: "it looks first", Fails: []job.FailureMode{MAASAway, OutOfBand, noWayToReach, job.FailsWith(HardwareSyncFailure, "no healthy sync in time")},
	},
	{
		Name: WaitForAgentEnrollment, Title: "Wait for the agent", Attempts: 1, Limit: job.Limit(site.StageEnrollment), Awaits: true, Nudge: node.EnrolledSignal, Resume: WaitForAgentEnrollment,
		Looks: "whether the agent has polled", Does: "extends the token and repeats the first boot, twice at most; then has the agent lock the deploy login", Expects: "the agent has polled with its certificate, and nobody can log in by the deploy user",
		Again: "an agent that has polled, however late, is accepted",
		Fails: []job.FailureMode{MAASAway, OutOfBand, job.FailsWith(AgentEnrollmentFailure, "the agent does not enrol in time, or somebody else came with its token")},
	},
}
