package onboarding

import (
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// The codes of what stops an onboarding after all stages are done.
var (
	codeMachineUnknown = job.DeclareCode(job.Code{
		Name: "machine_unknown", Class: bringup.StateAmbiguity,
		Cause: "The onboarding came to its end without having found its machine: a defect, or facts of it " +
			"were lost.",
		Remedy:  "rerun looks for the machine in MAAS again",
		Runbook: "onboarding-parked",
	})
	codeAgentNotSeen = job.DeclareCode(job.Code{
		Name: "agent_not_seen", Class: bringup.AgentEnrollmentFailure,
		Cause:   "The certificate of the agent was replaced, or the node was changed, after its agent had enrolled.",
		Remedy:  "look at the agent on the machine, then resume: the job waits for it again",
		Runbook: "node-enrolling-stuck",
	})
	codeSyncUnproven = job.DeclareCode(job.Code{
		Name: "hw_sync_unproven", Class: bringup.HardwareSyncFailure,
		Cause:   "The agent reported, but no healthy hardware sync was seen.",
		Remedy:  "retry: the credentials of hardware sync are brought to the machine again",
		Runbook: "onboarding-parked",
		Rewind:  bringup.EnsureHardwareSyncConfigured,
	})
)
