package agentgateway_test

import (
	"net/http"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// until429 repeats a call until it is refused, and says how often it was not.
func until429(most int, call func() reply) (passed int, refused reply) {
	for passed = range most {
		if refused = call(); refused.status == http.StatusTooManyRequests {
			return passed, refused
		}
	}
	return most, refused
}

// Polls that are refused for what they ask cost as much of the database as any.
func TestAttackANodeCannotPollWithoutEnd(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a, b := p.active(t, "gpu-1"), p.active(t, "gpu-2")
	passed, refused := until429(2000, func() reply { return a.get(agentwire.PathWait, "wait_seconds=x") })
	refused.want(http.StatusTooManyRequests, "rate_limit_exceeded")
	if passed < 100 {
		t.Errorf("a busy agent would be held back after %d polls", passed)
	}
	b.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	a.post(agentwire.PathReport, agentwire.Report{Build: agentwire.Build{Version: version, Commit: "abc"}}).
		want(http.StatusNoContent, "")
}

func TestAttackANodeCannotDownloadWithoutEnd(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a, b := p.active(t, "gpu-1"), p.active(t, "gpu-2")
	path := strings.Replace(agentwire.PathNodePackage, "{version}", version, 1)
	passed, refused := until429(100, func() reply { return a.get(path, "") })
	refused.want(http.StatusTooManyRequests, "rate_limit_exceeded")
	if passed < 10 {
		t.Errorf("a download over a bad line would be held back after %d parts", passed)
	}
	b.get(path, "").want(http.StatusOK, "")
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
}
