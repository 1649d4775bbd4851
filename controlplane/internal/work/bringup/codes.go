package bringup

import "gpuaas/controlplane/internal/work/job"

// The codes of failures that several stages have.
var (
	// CodeIdentityVoid: another machine, or another key, came with the token.
	CodeIdentityVoid = job.DeclareCode(job.Code{
		Name: "enrollment_identity_void", Class: AgentEnrollmentFailure,
		Cause: "Another machine, or another key, came with the token of this machine: it was read off the " +
			"network or the disk, or MAAS knows other hardware than the machine has.",
		Remedy: "find out who had the token of the machine, and whether it is the machine that MAAS " +
			"knows; then resume: the machine is reinstalled with a new token, and the old token stops working",
		Runbook: "node-identity-conflict",
		Rewind:  RenderCloudInit,
	})
	// CodeMachineClaimed: another job under way has the machine.
	CodeMachineClaimed = job.DeclareCode(job.Code{
		Name: "machine_claimed", Class: StateAmbiguity,
		Cause: "Two onboardings found the same machine: one of them has the wrong host name, BMC address or PXE " +
			"MAC.",
		Remedy:  "find out which of the two the machine is; cancel the other job, then rerun",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.Rerun},
	})
	// CodeMachineGone: MAAS does not have the machine any more.
	CodeMachineGone = job.DeclareCode(job.Code{
		Name: "machine_gone", Class: StateAmbiguity,
		Cause:   "Somebody deleted the machine in MAAS.",
		Remedy:  "find out who deleted it; then rerun to look for it again, or cancel",
		Runbook: "decommission-parked",
	})
	codeMachineInUse = job.DeclareCode(job.Code{
		Name: "machine_in_use", Class: StateAmbiguity,
		Cause: "The machine found in MAAS is deployed or held by somebody else: the wrong host name or " +
			"BMC address, or a machine that was never released.",
		Remedy:  "find out in MAAS who holds it (see its annotations); rerun once it is free",
		Runbook: "decommission-parked",
		Mends:   job.Mends{Onboarding: job.Rerun, Decommission: job.Resume},
	})
	codeMachineReleased = job.DeclareCode(job.Code{
		Name: "machine_released", Class: StateAmbiguity,
		Cause:   "Somebody released the machine in MAAS.",
		Remedy:  "find out who released it, then rerun: it continues from the present state of the machine",
		Runbook: "decommission-parked",
		Mends:   job.Mends{Decommission: job.Rerun},
	})
	codeMachineNotReady = job.DeclareCode(job.Code{
		Name: "machine_not_ready", Class: StateAmbiguity,
		Cause:   "Somebody changed the machine in MAAS while it was being prepared.",
		Remedy:  "find out who changed it, then rerun",
		Runbook: "onboarding-parked",
	})
	codeMachineNotDeployed = job.DeclareCode(job.Code{
		Name: "machine_not_deployed", Class: StateAmbiguity,
		Cause:   "Somebody released or redeployed the machine in MAAS.",
		Remedy:  "find out who changed it; rerun continues from the present state of the machine, cancel leaves it as it is",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Decommission: job.Rerun},
	})
	codeMachineHollow = job.DeclareCode(job.Code{
		Name: "machine_hollow", Class: StateAmbiguity,
		Cause: "MAAS shows the machine as deployed although nothing was installed on it: somebody brought " +
			"it back from Broken.",
		Remedy:  "look at the machine and its events in MAAS; restart clean deploys it again",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.RestartClean, Decommission: job.Resume},
	})
	codeNothingToAdopt = job.DeclareCode(job.Code{
		Name: "nothing_to_adopt", Class: StateAmbiguity,
		Cause:   "Nothing in MAAS proves that this machine has come further than this job.",
		Remedy:  "rerun continues from the present state of the machine; restart clean starts over",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.Rerun, Decommission: job.RetryStage},
	})
	codeAnnotateFailed = job.DeclareCode(job.Code{
		Name:    "annotate_failed",
		Cause:   "MAAS did not save the mark that ties the machine to this job.",
		Remedy:  "look at the machine in MAAS and who may change it there, then resume",
		Runbook: "onboarding-parked",
	})
	codeDeployFailed = job.DeclareCode(job.Code{
		Name: "deploy_failed", Class: DeployInstallerFailure,
		Cause:   "The installer failed; its log in MAAS says where.",
		Remedy:  "read the events and the installation log of the machine in MAAS, remove the cause, then rerun",
		Runbook: "onboarding-parked",
	})
	codeDeployTimeout = job.DeclareCode(job.Code{
		Name: "deploy_timeout", Class: DeployInstallerFailure,
		Cause: "The installation takes longer than the profile allows: MAAS did not see the installed system " +
			"start.",
		Remedy:  "read the events and the installation log of the machine in MAAS, remove the cause, then rerun",
		Runbook: "onboarding-parked",
	})
	codeDeployedMeanwhile = job.DeclareCode(job.Code{
		Name: "deployed_meanwhile", Class: StateAmbiguity,
		Cause:   "Somebody deployed the machine in MAAS while it was being prepared here.",
		Remedy:  "nothing: the machine is used as it is",
		Runbook: "onboarding-parked",
	})
	codeReleaseFailed = job.DeclareCode(job.Code{
		Name: "release_failed", Class: UpstreamTransient,
		Cause:   "MAAS does not begin to release the machine.",
		Remedy:  "look at the machine and its events in MAAS, then resume",
		Runbook: "onboarding-compensating",
	})
	codeAbortFailed = job.DeclareCode(job.Code{
		Name: "abort_failed", Class: UpstreamTransient,
		Cause:   "MAAS does not stop the installation.",
		Remedy:  "look at the machine in MAAS, then resume",
		Runbook: "onboarding-compensating",
	})
	codeReleaseStuck = job.DeclareCode(job.Code{
		Name: "release_stuck", Class: StateAmbiguity,
		Cause:   "The machine hangs while MAAS releases it: most often its BMC, or a disk that cannot be erased.",
		Remedy:  "switch the machine off by hand and correct its state in MAAS, then resume",
		Runbook: "decommission-parked",
	})
	codeEraseFailed = job.DeclareCode(job.Code{
		Name: "release_erase_failed", Class: StateAmbiguity,
		Cause:   "A disk cannot be erased: it has failed, or does not support the command.",
		Remedy:  "check the machine in MAAS: its disks still hold data. Retry the stage to erase them again",
		Runbook: "decommission-parked",
	})
	codeReleasedButOn = job.DeclareCode(job.Code{
		Name: "release_power_on", Class: BMCPowerFailure,
		Cause:   "MAAS cannot switch the machine off, which releasing it requires.",
		Remedy:  "check the BMC, switch the machine off, then resume",
		Runbook: "decommission-parked",
	})
	codeSyncDisabled = job.DeclareCode(job.Code{
		Name: "hw_sync_disabled", Class: HardwareSyncFailure,
		Cause: "The machine was deployed without hardware sync, which MAAS enables only when it deploys: " +
			"somebody else deployed it, or the profile was changed since.",
		Remedy:  "restart clean deploys it again with hardware sync",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.RestartClean},
	})
	codeSyncProgramMissing = job.DeclareCode(job.Code{
		Name: "hw_sync_program_missing", Class: UpstreamTransient,
		Cause: "MAAS does not serve the hardware sync program, so its checksum cannot be pinned.",
		Remedy: "serve MAAS over https, or make it serve maas-run-scripts; or accept plain HTTP: gpuaas site " +
			"update SITE --hw-sync-http accepted",
		Runbook: "onboarding-parked",
	})
	codeNoLogin = job.DeclareCode(job.Code{
		Name: "ssh_no_login", Class: PostDeployConnectivityFailure,
		Cause: "There is no key to the machine: it was deployed by somebody else, or its agent has " +
			"enrolled and the key was destroyed.",
		Remedy:  "wait until its agent polls; if it does not, check the machine on its console",
		Runbook: "onboarding-parked",
	})
	codeNoAddress = job.DeclareCode(job.Code{
		Name: "ssh_no_address", Class: PostDeployConnectivityFailure,
		Cause:   "MAAS reports no address of the deployed machine: its interface got none.",
		Remedy:  "check the links of its interfaces in MAAS",
		Runbook: "onboarding-parked",
	})
)

var codePowerCycle = job.DeclareCode(job.Code{
	Name: "power_cycle_failed", Class: BMCPowerFailure,
	Cause:   "MAAS was asked to power-cycle the machine, and the BMC did not confirm it.",
	Remedy:  "check the BMC and how MAAS reaches it, switch the machine on if it is off, then retry",
	Runbook: "decommission-parked",
})
