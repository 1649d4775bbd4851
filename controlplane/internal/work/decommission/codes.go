package decommission

import (
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// The failure codes that several stages share.
var (
	codeTainted = job.DeclareCode(job.Code{
		Name: "node_tainted", Class: bringup.StateAmbiguity,
		Cause:   "A tenant got access to the node after it was validated.",
		Remedy:  "rerun to clean and validate it again",
		Runbook: "node-quarantined",
		Mends:   job.Mends{bringup.Decommission: job.Rerun},
	})
	codeRoot = job.DeclareCode(job.Code{
		Name: node.CodeRoot, Class: bringup.StateAmbiguity,
		Cause:   "Somebody had root on this installation, so its own reports prove nothing.",
		Remedy:  "cancel this job, then reimage the node: gpuaas node reimage NODE",
		Runbook: "node-quarantined",
		Mends:   job.Mends{bringup.Decommission: job.Cancel},
	})
	codeUnreachable = job.DeclareCode(job.Code{
		Name: "agent_unreachable", Class: bringup.NodeAgentUnreachable,
		Cause: "The machine is off, cut off from the network, or its agent does not run.",
		Remedy: "look at the machine and its agent, then retry; or quarantine it: cancel, then gpuaas " +
			"node quarantine; or go on without it and record the residual risk: gpuaas decommission " +
			"override",
		Runbook: "decommission-parked",
	})
	codeAgentLost = job.DeclareCode(job.Code{
		Name: "agent_lost", Class: bringup.NodeAgentUnreachable,
		Cause: "The machine went down in the middle of the task, or its agent was stopped.",
		Remedy: "look at the machine and its agent, then retry; or quarantine it: cancel, then gpuaas " +
			"node quarantine; or go on without it and record the residual risk: gpuaas decommission " +
			"override",
		Runbook: "decommission-parked",
	})
	codeTaskCancelled = job.DeclareCode(job.Code{
		Name: "task_cancelled", Class: bringup.StateAmbiguity,
		Cause:   "Somebody cancelled the task of the node by hand.",
		Remedy:  "find out who cancelled it, then retry",
		Runbook: "node-task-expired",
	})
	codeTaskFailed = job.DeclareCode(job.Code{
		Name: "task_failed", Class: bringup.SanitizationFailure,
		Cause:   "The agent tried the task and failed.",
		Remedy:  "fix what it reports, then retry",
		Runbook: "decommission-parked",
	})
	codeTaskOutput = job.DeclareCode(job.Code{
		Name: "task_output_invalid", Class: bringup.StateAmbiguity,
		Cause:   "The agent's version does not fit the control plane, or it is not a gpuaas agent.",
		Remedy:  "look at the version of the agent, update it, then retry",
		Runbook: "node-task-expired",
	})
)
