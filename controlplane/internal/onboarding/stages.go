package onboarding

import (
	"slices"
	"time"

	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/site"
)

// The pseudo stages: what a workflow does besides going through the stages.
const (
	StageCompensate = "compensate"
	StageAdopt      = "adopt_observed_state"
)

// Stage is one row of the table that drives an onboarding, and that its
// documentation and explanations are made of.
type Stage struct {
	Name     string
	Title    string // for people
	Looks    string // what it observes first
	Does     string // its effect
	Expects  string // the condition that ends it
	Again    string // why it may be run again
	Attempts int    // in all, for failures that another attempt may mend
	Limit    site.Stage
	Resume   string // the stage that resume goes on with
	OnCancel string // what is undone when the job is cancelled during or after it
	Fails    []FailureMode
	Awaits   bool // waits for a signal to its workflow, never inside
	Detour   bool // reached only when another stage leads to it
	Pseudo   bool // not one of the stages: something else that a workflow does
}

// FailureMode is one way in which a stage fails.
type FailureMode struct {
	Class durable.FailureClass
	When  string
}

// transientAttempts is how many attempts any stage gets when what it needs is
// away for a while.
const transientAttempts = 5

// attempts is how many attempts a stage gets in all when it fails that way.
func (s Stage) attempts(class durable.FailureClass) int {
	if class == durable.UpstreamTransient {
		return max(s.Attempts, transientAttempts)
	}
	return s.Attempts
}

// brief says that the stage ends as soon as it has done what it does.
func (s Stage) brief() bool { return !s.Pseudo && !s.Detour && (s.Limit == "" || s.Awaits) }

// TimeLimit is how long the stage may take by a policy; zero: as long as it
// works at it.
func (s Stage) TimeLimit(p site.Policy) time.Duration {
	if s.Limit == "" {
		return 0
	}
	for _, t := range p.Timeouts() {
		if t.Stage == s.Limit {
			return t.Limit
		}
	}
	return 0
}

// Stages lists the sixteen stages in their order.
func Stages() []Stage { return slices.Clone(stages) }

// StageOf finds a stage, or a pseudo stage, by its name.
func StageOf(name string) (Stage, bool) {
	for _, list := range [][]Stage{stages, pseudoStages} {
		for _, s := range list {
			if s.Name == name {
				return s, true
			}
		}
	}
	return Stage{}, false
}

// firstStage is where every onboarding begins.
func firstStage() string { return stages[0].Name }

// following is the stage after another one; empty: that was the last. Detours
// follow nothing.
func following(name string) string {
	at := slices.IndexFunc(stages, func(s Stage) bool { return s.Name == name })
	for _, s := range stages[at+1:] {
		if !s.Detour {
			return s.Name
		}
	}
	return ""
}

const (
	nothingUndone = "nothing is undone: the machine stays in MAAS as it is"
	releasedReady = "the machine is released to Ready if this job holds it, the node record and its token are withdrawn"
	leftDeployed  = "the machine is left deployed for investigation, the node is quarantined"
)

var (
	maasAway      = FailureMode{durable.UpstreamTransient, "MAAS or the secrets engine cannot be reached"}
	outOfBand     = FailureMode{durable.StateAmbiguity, "the machine was changed, removed or taken by somebody else"}
	notCapable    = FailureMode{durable.SiteCapabilityMissing, "MAAS refuses the token or lacks what the profile needs"}
	bmcSilent     = FailureMode{durable.BMCPowerFailure, "the BMC cannot be reached or refuses the credentials"}
	noWayToReach  = FailureMode{durable.PostDeployConnectivityFailure, "the machine cannot be reached over SSH"}
	deployNotDone = FailureMode{durable.DeployCloudInitFailure, "the deployment failed or took too long"}
)

var stages = []Stage{
	{
		Name: bringup.LoadSiteConfig, Title: "Read the site", Attempts: 3, Resume: bringup.LoadSiteConfig,
		Looks: "the site, its profile and its MAAS", Does: "nothing", Expects: "the site is active, MAAS answers, takes the token and has the image",
		Again: "it only reads", OnCancel: nothingUndone,
		Fails: []FailureMode{maasAway, notCapable, {durable.InputConfigError, "the site is disabled and nothing was begun"}},
	},
	{
		Name: bringup.ResolvePowerCredentials, Title: "Choose BMC credentials", Attempts: 3, Resume: bringup.LoadSiteConfig,
		Looks: "the overrides of the site, then its default", Does: "nothing", Expects: "credentials for the BMC are known",
		Again: "it only reads", OnCancel: nothingUndone,
		Fails: []FailureMode{maasAway, {durable.SiteCapabilityMissing, "there are no credentials for the BMC"}},
	},
	{
		Name: bringup.CreateOrFindInMAAS, Title: "Find the machine in MAAS", Attempts: 3, Limit: site.StageDiscovery, Resume: bringup.CreateOrFindInMAAS,
		Looks: "MAAS, by hostname, then power address, then PXE MAC", Does: "creates the machine if MAAS has none, or boots it from the network to be discovered",
		Expects: "exactly one machine of MAAS is this one", Again: "it looks before it creates", OnCancel: nothingUndone,
		Fails: []FailureMode{
			maasAway, bmcSilent,
			{durable.PXEDiscoveryFailure, "the machine does not appear in MAAS in time"},
			{durable.StateAmbiguity, "several machines may be meant, or the one found is in use"},
		},
	},
	{
		Name: bringup.CommissionNode, Title: "Commission", Attempts: 3, Resume: bringup.CreateOrFindInMAAS,
		Looks: "the status of the machine", Does: "sets hostname and power parameters, starts commissioning", Expects: "the machine is commissioning or Ready",
		Again: "a machine that is Ready or commissioning is left alone", OnCancel: nothingUndone,
		Fails: []FailureMode{maasAway, bmcSilent, outOfBand},
	},
	{
		Name: bringup.WaitForReady, Title: "Wait until Ready", Attempts: 1, Limit: site.StageCommission, Resume: bringup.CommissionNode,
		Looks: "the status of the machine, over and over", Does: "nothing", Expects: "MAAS shows the machine as Ready",
		Again: "it only reads", OnCancel: nothingUndone,
		Fails: []FailureMode{
			maasAway, bmcSilent, outOfBand,
			{durable.HardwareMismatch, "commissioning failed"},
			{durable.PXEDiscoveryFailure, "commissioning took too long"},
		},
	},
	{
		Name: bringup.ConfigureStorage, Title: "Set up the boot disk", Attempts: 1, Resume: bringup.ConfigureStorage,
		Looks: "the disks of the machine", Does: "makes the BOSS disk the boot disk, flat layout", Expects: "the layout lies on the BOSS disk",
		Again: "what is already so is not written", OnCancel: nothingUndone,
		Fails: []FailureMode{maasAway, outOfBand, {durable.HardwareMismatch, "no disk, or more than one, looks like the BOSS disk"}},
	},
	{
		Name: bringup.ApplyRoCEPhase2, Title: "Set up RoCE addresses", Attempts: 1, Resume: bringup.ConfigureStorage,
		Looks: "the assignments of the hostname and the interfaces", Does: "creates missing /31 subnets and links",
		Expects: "each assigned address is linked; problems are a warning and never stop the job",
		Again:   "links that exist are left alone", OnCancel: nothingUndone, Fails: []FailureMode{maasAway},
	},
	{
		Name: bringup.EnsurePXEInterfaceAuto, Title: "Set up the PXE interface", Attempts: 2, Resume: bringup.ConfigureStorage,
		Looks: "the links of the PXE interface", Does: "links it AUTO if it is neither AUTO nor DHCP", Expects: "the PXE interface has an AUTO or DHCP link",
		Again: "a link that is right is left alone", OnCancel: nothingUndone,
		Fails: []FailureMode{maasAway, outOfBand, {durable.HardwareMismatch, "there is no such interface, or it has no subnet"}},
	},
	{
		Name: bringup.RenderCloudInit, Title: "Prepare the first boot", Attempts: 3, Resume: bringup.ConfigureStorage,
		Looks: "whether the node exists", Does: "adds the node to the inventory, issues its token, composes the first boot", Expects: "the first boot lies in the secrets engine",
		Again: "the node is made once; a token replaces the one before", OnCancel: releasedReady,
		Fails: []FailureMode{maasAway, {durable.InputConfigError, "the SKU cannot be used"}, {durable.StateAmbiguity, "another node has the hostname"}},
	},
	{
		Name: bringup.DeployViaMAAS, Title: "Deploy", Attempts: 3, Resume: bringup.RenderCloudInit,
		Looks: "the machine, anew, before each effect", Does: "allocates the machine and deploys the image with the first boot", Expects: "MAAS shows the machine as Deploying for this job",
		Again: "a machine that this job already deploys is not deployed again", OnCancel: releasedReady,
		Fails: []FailureMode{maasAway, notCapable, bmcSilent, outOfBand},
	},
	{
		Name: bringup.WaitForDeployed, Title: "Wait until Deployed", Attempts: 1, Limit: site.StageDeploy, Resume: bringup.RenderCloudInit,
		Looks: "the status of the machine, over and over", Does: "nothing", Expects: "MAAS shows the machine as Deployed with the image",
		Again: "it only reads", OnCancel: releasedReady, Fails: []FailureMode{maasAway, outOfBand, deployNotDone},
	},
	{
		Name: bringup.ClassifyDeployFailure, Title: "Find out why the deployment failed", Attempts: 1, Resume: bringup.RenderCloudInit, Detour: true,
		Looks: "the events and installation results of MAAS", Does: "releases the machine to Ready unless it is to be deployed again",
		Expects: "the failure is told apart: no datasource, or anything else", Again: "releasing looks first", OnCancel: releasedReady,
		Fails: []FailureMode{maasAway, outOfBand, deployNotDone},
	},
	{
		Name: bringup.RecoverForDatasourceRetry, Title: "Prepare another deployment", Attempts: 2, Limit: site.StageRelease, Resume: bringup.RenderCloudInit, Detour: true,
		Looks: "the status of the machine", Does: "aborts and releases; the deployment begins anew with a fresh token", Expects: "MAAS shows the machine as Ready",
		Again: "a machine that is Ready is left alone", OnCancel: releasedReady, Fails: []FailureMode{maasAway, outOfBand, deployNotDone},
	},
	{
		Name: bringup.EnsureHardwareSyncConfigured, Title: "Set up hardware sync", Attempts: 1, Limit: site.StageHWSyncSeed, Resume: bringup.EnsureHardwareSyncConfigured,
		Looks: "the machine's token in MAAS and its addresses", Does: "brings the credentials to the machine over SSH and starts the timer", Expects: "the machine reports with its own credentials",
		Again: "bringing the credentials again changes nothing", OnCancel: leftDeployed,
		Fails: []FailureMode{maasAway, outOfBand, noWayToReach, {durable.HardwareSyncFailure, "MAAS has no token for the machine"}},
	},
	{
		Name: bringup.WaitForHardwareSyncHealthy, Title: "Wait for hardware sync", Attempts: 1, Limit: site.StageHWSyncHealth, Resume: bringup.EnsureHardwareSyncConfigured,
		Looks: "the last sync that MAAS saw, over and over", Does: "brings the credentials again now and then", Expects: "MAAS has seen a sync since, and no older than it may be",
		Again: "it looks first", OnCancel: leftDeployed, Fails: []FailureMode{maasAway, outOfBand, noWayToReach, {durable.HardwareSyncFailure, "no healthy sync in time"}},
	},
	{
		Name: bringup.WaitForAgentEnrollment, Title: "Wait for the agent", Attempts: 1, Limit: site.StageEnrollment, Awaits: true, Resume: bringup.WaitForAgentEnrollment,
		Looks: "whether the agent has polled", Does: "extends the token and repeats the first boot, twice at most", Expects: "the agent has polled with its certificate",
		Again: "an agent that has polled, however late, is accepted", OnCancel: leftDeployed,
		Fails: []FailureMode{maasAway, outOfBand, {durable.AgentEnrollmentFailure, "the agent does not enrol in time"}},
	},
}

var pseudoStages = []Stage{
	{
		Name: StageCompensate, Title: "Undo", Attempts: 3, Limit: site.StageRelease, Pseudo: true,
		Looks: "how far the job has come", Does: "undoes what may be undone", Expects: "nothing of this job is left, except for what is said",
		Again: "what is undone already is left alone", Fails: []FailureMode{maasAway, outOfBand},
	},
	{
		Name: StageAdopt, Title: "Adopt what is there", Attempts: 1, Pseudo: true,
		Looks: "the machine in MAAS and the node", Does: "nothing", Expects: "the machine is provably this one, in a state that a stage begins with",
		Again: "it only reads", Fails: []FailureMode{maasAway, {durable.StateAmbiguity, "nothing that is seen can be adopted"}},
	},
}
