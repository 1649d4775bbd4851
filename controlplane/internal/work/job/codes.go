package job

import "gpuaas/controlplane/internal/base/fault"

// CodeMarked is the code of a job that an operator stopped.
const CodeMarked = "operator_marked"

// The codes that the runner itself gives.
var (
	codeMarked = DeclareCode(Code{
		Name: CodeMarked, Class: StateAmbiguity,
		Cause:   "An operator stopped automation.",
		Remedy:  "find out why it was stopped and fix that, then resume",
		Runbook: "onboarding-parked",
	})
	codeLost = DeclareCode(Code{
		Name: "stage_lost", Class: StateAmbiguity,
		Cause:   "Control plane workers crash in this stage, or it runs into its time limit.",
		Remedy:  "look at the logs of the workers, then retry",
		Runbook: "onboarding-parked",
		Mends:   Mends{AnyFamily: RetryStage},
	})
	codeDefect = DeclareCode(Code{
		Name: "stage_defect", Class: StateAmbiguity,
		Cause:   "This is a bug in the control plane.",
		Remedy:  "report it with the log line of the worker, then retry with a version that fixes it",
		Runbook: "onboarding-parked",
	})
	codeMisled = DeclareCode(Code{
		Name: "stage_unknown", Class: StateAmbiguity,
		Cause:   "A bug in the control plane, or the job was started by a version that had other stages.",
		Remedy:  "stop the automation of this job, and report the bug to the gpuaas developers",
		Runbook: "onboarding-parked",
	})
	codeKilled = DeclareCode(Code{
		Name: "worker_killed", Class: UpstreamTransient, Fault: true,
		Cause:   "The worker was killed while it executed the stage.",
		Remedy:  "do nothing: another worker repeats the stage",
		Runbook: "onboarding-parked",
	})
)

// ErrKilled is returned by Mischief to simulate a worker that dies at this
// moment: nothing is recorded, and Temporal gives the stage to another worker.
var ErrKilled = fault.New(fault.Unavailable, codeKilled.Name, "the worker was killed in the middle of a stage")
