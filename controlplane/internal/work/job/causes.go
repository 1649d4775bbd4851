package job

import "cmp"

// causeOfClass says what is usually behind a class of failures.
var causeOfClass = map[FailureClass]string{
	InputConfigError:  "The request or the configuration cannot work as it is.",
	UpstreamTransient: "Something that the stage needs was not available for a while.",
	StateAmbiguity: "The present state is not what this job left behind: somebody changed it by hand, or a response was " +
		"lost.",
}

// likelyCause returns what is usually behind the failure of a job. It is empty if
// the job did not fail.
func (f *Family[R]) likelyCause(j Job) string {
	if j.FailureClass == "" {
		return ""
	}
	return cmp.Or(CodeNamed(j.ErrorCode).Cause, f.ClassCauses[j.FailureClass], causeOfClass[j.FailureClass])
}
