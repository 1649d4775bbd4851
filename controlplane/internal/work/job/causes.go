package job

import "cmp"

// causeOfCode says what is usually behind a code that the runner itself gives.
var causeOfCode = map[string]string{
	CodeMarked: "An operator stopped automation.",
	codeLost:   "Workers of the control plane die in this stage, or what it calls takes longer than the stage may.",
	codeDefect: "A defect of the control plane.",
	codeKilled: "The worker was killed while it executed the stage.",
}

// causeOfClass says what is usually behind a class of failures.
var causeOfClass = map[FailureClass]string{
	InputConfigError:  "What was asked for, or what is configured, cannot work as it is.",
	UpstreamTransient: "Something that the stage needs was not available for a while.",
	StateAmbiguity:    "What is seen does not fit what was done here: somebody changed it by hand, or an answer was lost.",
}

// likelyCause is what is usually behind the failure of a job; empty when it did
// not fail.
func (f *Family[R]) likelyCause(j Job) string {
	if j.FailureClass == "" {
		return ""
	}
	return cmp.Or(f.Causes[j.ErrorCode], causeOfCode[j.ErrorCode], f.ClassCauses[j.FailureClass], causeOfClass[j.FailureClass])
}
