package job

import "gpuaas/controlplane/internal/base/fault"

// CodeMarked is the code of a job that an operator stopped.
const CodeMarked = "operator_marked"

// The codes that the runner itself gives.
var (
	codeMarked = DeclareCode(Code{
		Name: CodeMarked, Class: StateAmbiguity,
		Cause:   "An operator stopped automation.",
		Remedy:  "resume once the matter is settled",
		Runbook: "onboarding-parked",
	})
	codeLost = DeclareCode(Code{
		Name: "stage_lost", Class: StateAmbiguity,
		Cause:   "Workers of the control plane die in this stage, or what it calls takes longer than the stage may.",
		Remedy:  "look at the logs of the workers, then retry",
		Runbook: "onboarding-parked",
		Mends:   Mends{AnyFamily: RetryStage},
	})
	codeDefect = DeclareCode(Code{
		Name: "stage_defect", Class: StateAmbiguity,
		Cause:   "A defect of the control plane.",
		Remedy:  "report it with the log line of the worker, then retry with a version that fixes it",
		Runbook: "onboarding-parked",
	})
	codeMisled = DeclareCode(Code{
		Name: "stage_unknown", Class: StateAmbiguity,
		Cause:   "A defect of the control plane, or the job was begun by a version that had other stages.",
		Remedy:  "this is a defect of the control plane; mark it and tell its developers",
		Runbook: "onboarding-parked",
	})
	codeKilled = DeclareCode(Code{
		Name: "worker_killed", Class: UpstreamTransient, Fault: true,
		Cause:   "The worker was killed while it executed the stage.",
		Remedy:  "nothing: another worker takes the stage up",
		Runbook: "onboarding-parked",
	})
)

// ErrKilled is returned by Mischief to simulate a worker that dies at this
// moment: nothing is recorded, and Temporal gives the stage to another worker.
var ErrKilled = fault.New(fault.Unavailable, codeKilled.Name, "the worker was killed in the middle of a stage")
