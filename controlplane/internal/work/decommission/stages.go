package decommission

import (
	"slices"

	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// The stages that are not those of bringup, by the names of the state model.
const (
	StageDisable      = "disable_node"
	StageForceRelease = "force_release_allocations"
	StageDrain        = "drain_node"
	StageStorage      = "cleanup_storage"
	StageScrub        = "scrub_gpu"
	StageStorageAgain = "cleanup_storage_again"
	StageScrubAgain   = "scrub_gpu_again"
	StageValidate     = "validate_clean_node"
	StageRetire       = "retire_gpuaas_node"
	StageRemove       = "remove_gpuaas_node_record"
	StageSecrets      = "cleanup_secrets"
	StageReactivate   = "reactivate_node"
	StageCertificate  = "issue_certificate"
	StageEnable       = "enable_node"

	stageLoad         = bringup.LoadSiteConfig
	stageRelease      = bringup.ReleaseMAASNode
	stagePowerOff     = bringup.PowerOffMAASNode
	stageRemoveRecord = bringup.RemoveMAASRecord
)

// What the table says more than once.
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

var (
	maasAway      = bringup.MAASAway
	outOfBand     = bringup.OutOfBand
	agentSilent   = job.FailsWith(bringup.NodeAgentUnreachable, "the agent does not answer, or the task is lost")
	rootHad       = job.FailureMode{Class: bringup.StateAmbiguity, When: "somebody had root on the installation that the evidence is from"}
	inventoryAway = job.FailsWith(bringup.UpstreamTransient, "the inventory cannot be changed")
)

// plans says which stages a mode goes through, in their order.
var plans = map[Mode][]string{
	SoftReset: {StageDisable, StageDrain, StageStorage, StageScrub, StageValidate, StageCertificate, StageEnable},
	Reimage: {
		StageDisable, StageDrain, StageStorage, StageScrub, stageLoad, stageRelease,
		bringup.ConfigureStorage, bringup.ApplyRoCEPhase2, bringup.EnsurePXEInterfaceAuto, bringup.RenderCloudInit, bringup.DeployViaMAAS,
		bringup.WaitForDeployed, bringup.ClassifyDeployFailure, bringup.RecoverForDatasourceRetry,
		bringup.EnsureHardwareSyncConfigured, bringup.WaitForHardwareSyncHealthy, bringup.WaitForAgentEnrollment,
		StageStorageAgain, StageScrubAgain, StageValidate, StageCertificate, StageEnable,
	},
	FullDecommission: {
		StageDisable, StageForceRelease, StageDrain, stageLoad, stageRelease, stagePowerOff, StageRetire, StageRemove, StageSecrets, stageRemoveRecord,
		StageCertificate,
	},
	StorageCleanup: {StageDisable, StageStorage, StageValidate, StageEnable},
	Drain:          {StageDisable, StageForceRelease, StageDrain, StageRetire},
	Retire:         {StageDisable, StageForceRelease, StageDrain, StageStorage, StageScrub, StageValidate, StageCertificate, StageRetire},
	Reactivate:     {StageReactivate, StageDrain, StageStorage, StageScrub, StageValidate, StageEnable},
	Remove:         {StageRemove, StageSecrets},
}

// cleaning is where each mode goes on when a validation found something: where
// it cleans. A machine that was installed anew is cleaned where somebody had
// root, and otherwise only looked at again.
var cleaning = map[Mode]string{
	SoftReset: StageDrain, Retire: StageDrain, StorageCleanup: StageStorage, Reactivate: StageDrain, Reimage: StageStorageAgain,
}

// tables are the plans with their stages, made once.
var tables = laidOut()

func laidOut() map[Mode]job.Table {
	catalog := map[string]job.Stage{}
	for _, s := range slices.Concat(ownStages, machineStages) {
		catalog[s.Name] = s
	}
	out := map[Mode]job.Table{}
	for mode, names := range plans {
		for _, name := range names {
			s := catalog[name]
			if name == StageValidate {
				s.Resume = cleaning[mode]
			}
			if mode == Reactivate { // it issues no paper that a residual risk could stand in
				s.Overridable = false
				if name == StageDrain {
					s.Resume = StageReactivate
				}
			}
			out[mode] = append(out[mode], s)
		}
		out[mode] = append(out[mode], pseudoStages...)
	}
	return out
}

// TableOf is what a mode goes through.
func TableOf(m Mode) job.Table { return slices.Clone(tables[m]) }

// AllStages names every stage, each once.
func AllStages() []string {
	var out []string
	for _, s := range slices.Concat(ownStages, machineStages, pseudoStages) {
		out = append(out, s.Name)
	}
	return out
}

var ownStages = []job.Stage{
	{
		Name: StageDisable, Title: "Take it out of scheduling", Attempts: databaseRetryCount, Resume: StageDisable,
		Looks: "the state of the node and who holds it", Does: "holds the node, and lets it drain where the mode takes it out of service",
		Expects: "nothing new is scheduled on the node", Again: "a node that it holds already is left so", OnCancel: letGo,
		Fails: []job.FailureMode{inventoryAway, {Class: bringup.StateAmbiguity, When: "another operation holds the node, or its state does not allow it"}},
	},
	{
		Name: StageForceRelease, Title: "End allocations", Attempts: 3, Resume: StageForceRelease,
		Looks: "the allocations of the node", Does: "ends those that are left", Expects: "nobody has the node", Again: looksFirst, OnCancel: letGo,
		Fails: []job.FailureMode{{Class: bringup.StateAmbiguity, When: "allocations remain attached"}},
	},
	{
		Name: StageDrain, Title: "Drain", Attempts: 2, Awaits: true, Resume: StageDisable, Overridable: true,
		Looks: "the task that drains the node", Does: "ends terminal sessions, removes the accounts of tenants, refuses new ones",
		Expects: "no account of a tenant is left", Again: sameTask, OnCancel: letGo,
		Fails: []job.FailureMode{agentSilent, {Class: bringup.SanitizationFailure, When: "the drain failed, or accounts are left"}},
	},
	{
		Name: StageStorage, Title: "Clean storage", Attempts: 2, Awaits: true, Resume: StageStorage, Overridable: true,
		Looks: "the task that cleans storage", Does: "empties temporary and scratch folders, sanitizes data disks, unmounts what tenants mounted",
		Expects: "nothing is left, and every data disk is verified", Again: sameTask, OnCancel: letGo,
		Fails: []job.FailureMode{agentSilent, {Class: bringup.SanitizationFailure, When: "something is left, or a disk kept data or has no method that the policy accepts"}},
	},
	{
		Name: StageScrub, Title: "Scrub GPU memory", Attempts: 2, Awaits: true, Resume: StageScrub, Overridable: true,
		Looks: "the task that scrubs", Does: "overwrites and verifies the memory of all GPUs, resets them", Expects: "no word of it is left",
		Again: sameTask, OnCancel: letGo,
		Fails: []job.FailureMode{agentSilent, {Class: bringup.SanitizationFailure, When: "the scrub is incomplete, or found data after it"}},
	},
	{
		Name: StageStorageAgain, Title: "Clean storage again", Attempts: 2, Awaits: true, Resume: StageStorageAgain, Overridable: true,
		Looks:   "whether somebody had root on the installation before, and the task that cleans storage",
		Does:    "empties and sanitizes once more, through the new installation; nothing where nobody had root",
		Expects: "nothing is left, and every data disk is verified by an installation that nobody had root on", Again: sameTask, OnCancel: letGo,
		Fails: []job.FailureMode{agentSilent, {Class: bringup.SanitizationFailure, When: "something is left, or a disk kept data or has no method that the policy accepts"}},
	},
	{
		Name: StageScrubAgain, Title: "Scrub GPU memory again", Attempts: 2, Awaits: true, Resume: StageScrubAgain, Overridable: true,
		Looks:   "whether somebody had root on the installation before, and the task that scrubs",
		Does:    "overwrites and verifies the memory of all GPUs once more, through the new installation; nothing where nobody had root",
		Expects: "no word of it is left, as an installation says that nobody had root on", Again: sameTask, OnCancel: letGo,
		Fails: []job.FailureMode{agentSilent, {Class: bringup.SanitizationFailure, When: "the scrub is incomplete, or found data after it"}},
	},
	{
		Name: StageValidate, Title: "Validate that it is clean", Attempts: 1, Awaits: true, Resume: StageDrain,
		Looks: "users, processes, mounts, shared memory, files of all local file systems, disks, GPUs, terminals, and what of the installation differs from its baseline", Does: "nothing; a node that is not clean is quarantined",
		Expects: "nothing of a tenant is found", Again: onlyReads, OnCancel: letGo,
		Fails: []job.FailureMode{agentSilent, {Class: bringup.SanitizationFailure, When: "something of a tenant was found"}, rootHad},
	},
	{
		Name: StageCertificate, Title: "Sign the evidence", Attempts: 5, Resume: StageCertificate,
		Looks: "the evidence of all stages", Does: "issues the certificate or handover receipt, signed and chained", Expects: "it is signed and kept",
		Again: "one that was issued is taken as it is", OnCancel: nothingUndone,
		Fails: []job.FailureMode{maasAway, {Class: bringup.StateAmbiguity, When: "a claim has no evidence"}, rootHad},
	},
	{
		Name: StageEnable, Title: "Return it to scheduling", Attempts: 2, Awaits: true, Resume: StageEnable,
		Looks: "the proof that the node is clean", Does: "lets the agent take users again and lets go of the node", Expects: "the node is active and schedulable, if nobody else holds it",
		Again: looksFirst, OnCancel: letGo,
		Fails: []job.FailureMode{agentSilent, {Class: bringup.StateAmbiguity, When: "no clean validation is newer than the last taint"}},
	},
	{
		Name: StageReactivate, Title: "Let its agent in again", Attempts: databaseRetryCount, Resume: StageReactivate,
		Looks: "the state of the node", Does: "makes the retired node active, but holds it", Expects: "the node is active and held",
		Again: looksFirst, OnCancel: "the node is held until somebody retires it anew",
		Fails: []job.FailureMode{inventoryAway},
	},
	{
		Name: StageRetire, Title: "Retire", Attempts: databaseRetryCount, Resume: StageRetire,
		Looks: "the state of the node", Does: "makes it retired", Expects: "the node is retired", Again: looksFirst, OnCancel: nothingUndone,
		Fails: []job.FailureMode{inventoryAway, {Class: bringup.StateAmbiguity, When: "the node is not draining"}},
	},
	{
		Name: StageRemove, Title: "Remove from the inventory", Attempts: 2, Awaits: true, Resume: StageRemove, Overridable: true,
		Looks: "whether an installation is left", Does: "uninstalls the agent unless the installation is gone, then deletes the node",
		Expects: "the node is deleted; its id is never used again", Again: sameTask, OnCancel: "a node that was not deleted is retired",
		Fails: []job.FailureMode{agentSilent, {Class: bringup.StateAmbiguity, When: "the agent could not be uninstalled"}},
	},
	{
		Name: StageSecrets, Title: "Clean up secrets", Attempts: 3, Resume: StageSecrets,
		Looks: "the secrets that belong to the node", Does: "deletes its first boots, voids its tokens, revokes its certificates",
		Expects: "they are gone; what could not be removed is a follow-up and never stops the job", Again: "what is gone is gone", OnCancel: nothingUndone,
		Fails: []job.FailureMode{maasAway},
	},
}

// machineStages are those that bringup carries out.
var machineStages = []job.Stage{
	{
		Name: stageLoad, Title: "Read the site", Attempts: 3, Resume: stageLoad, Looks: "the site, its profile and its MAAS", Does: "nothing",
		Expects: "MAAS answers and takes the token", Again: onlyReads, OnCancel: letGo,
		Fails: []job.FailureMode{maasAway, {Class: bringup.SiteCapabilityMissing, When: "MAAS refuses the token or lacks what the profile needs"}},
	},
	{
		Name: stageRelease, Title: "Release in MAAS", Attempts: 2, Limit: job.Limit(site.StageRelease), Resume: stageRelease, Overridable: true,
		Looks: "the machine, and whether it is provably that of the node", Does: "releases it with the erase that was asked for; DESTROYS what is on it",
		Expects: "MAAS shows the machine as Ready", Again: "a release that is under way is waited for", OnCancel: notBack,
		Fails: []job.FailureMode{maasAway, outOfBand, {Class: bringup.StateAmbiguity, When: "erasing failed, and the policy allows nothing less"}},
	},
	{
		Name: stagePowerOff, Title: "Switch it off", Attempts: 2, Resume: stagePowerOff, Overridable: true, Looks: "the power state", Does: "switches it off through MAAS",
		Expects: "the power is seen to be off", Again: "a machine that is off is left so", OnCancel: notBack,
		Fails: []job.FailureMode{maasAway, outOfBand, {Class: bringup.BMCPowerFailure, When: "the BMC does not switch it off"}},
	},
	{
		Name: stageRemoveRecord, Title: "Remove the record of MAAS", Attempts: 2, Resume: stageRemoveRecord, Looks: "the policy, and the machine in MAAS",
		Does: "deletes the machine in MAAS if the policy says so", Expects: "the record is gone, or left by policy; a failure is a follow-up and never stops the job",
		Again: looksFirst, OnCancel: nothingUndone, Fails: []job.FailureMode{maasAway},
	},
	bringup.MachineStage(bringup.ConfigureStorage).Cancelled(notBack),
	bringup.MachineStage(bringup.ApplyRoCEPhase2).Cancelled(notBack),
	bringup.MachineStage(bringup.EnsurePXEInterfaceAuto).Cancelled(notBack),
	bringup.MachineStage(bringup.RenderCloudInit).Cancelled(notBack),
	bringup.MachineStage(bringup.DeployViaMAAS).Cancelled(notBack),
	bringup.MachineStage(bringup.WaitForDeployed).Cancelled(notBack),
	bringup.MachineStage(bringup.ClassifyDeployFailure).Cancelled(notBack),
	bringup.MachineStage(bringup.RecoverForDatasourceRetry).Cancelled(notBack),
	bringup.MachineStage(bringup.EnsureHardwareSyncConfigured).Cancelled(notBack),
	bringup.MachineStage(bringup.WaitForHardwareSyncHealthy).Cancelled(notBack),
	bringup.MachineStage(bringup.WaitForAgentEnrollment).Cancelled(notBack),
}

var pseudoStages = []job.Stage{
	{
		Name: job.StageCompensate, Title: "Let go", Attempts: 3, Limit: job.Limit(site.StageRelease), Pseudo: true, Looks: "how far the operation came",
		Does: "cancels the task that is under way, and returns the node to what it was where nothing was destroyed", Expects: "the node has an owner or a state of its own",
		Again: looksFirst, Fails: []job.FailureMode{maasAway, inventoryAway},
	},
	{
		Name: job.StageAdopt, Title: "Adopt the observed state", Attempts: 3, Pseudo: true, Looks: "the node and its machine as they are now", Does: "nothing",
		Expects: "a stage that it can go on with", Again: onlyReads, Fails: []job.FailureMode{maasAway, outOfBand},
	},
}
