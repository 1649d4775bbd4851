package job

import "cmp"

// causeOfClass says what is usually behind a class of failures.
var causeOfClass = map[FailureClass]string{
	InputConfigError:  "The request or the configuration cannot work as it is.",
	UpstreamTransient: "Something that the stage needs was not available for a while.",
	StateAmbiguity: "What is seen does not fit what was done here: somebody changed it by hand, or an answer was " +
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
