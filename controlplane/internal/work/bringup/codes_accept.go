package bringup

import "gpuaas/controlplane/internal/work/job"

// The codes with which a machine that has an agent is not accepted as a node.
var (
	codeDataDisksNotClean = job.DeclareCode(job.Code{
		Name: "data_disks_not_clean", Class: HardwareMismatch,
		Cause: "The data disks hold old data, and the profile requires them to be clean.",
		Remedy: "wipe them (blkdiscard -z), or give the node the task node.data_disks with action initialize and destroy, " +
			"which DESTROYS what is on them; or set data_disks of the profile to leave; then resume",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{job.AnyFamily: job.Resume},
	})
	codeDataDisksUnseen = job.DeclareCode(job.Code{
		Name: "data_disks_not_seen", Class: AgentEnrollmentFailure,
		Cause:   "The agent could not look at the disks that do not carry the system.",
		Remedy:  "fix on the machine what it reports, then resume",
		Runbook: "onboarding-parked",
	})
	codeHardwareDiffers = job.DeclareCode(job.Code{
		Name: "hardware_does_not_match", Class: HardwareMismatch,
		Cause: "The machine has other GPUs, fewer disks or interfaces, or less memory than its SKU says; parts may have failed, " +
			"or it is another kind of machine.",
		Remedy: "fix the machine or correct the SKU (gpuaas sku update), then resume to check the hardware again; or cancel " +
			"and onboard the machine with the right SKU",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{job.AnyFamily: job.Resume},
	})
)
