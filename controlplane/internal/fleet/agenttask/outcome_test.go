package agenttask

import "testing"

// A scrub that found no GPU is not shown as one that succeeded, whichever agent
// reports it.
func TestATaskThatDidNothingSaysSo(t *testing.T) {
	for _, c := range []struct {
		status       Status
		output, want string
	}{
		{Succeeded, `{"outcome":"not_applicable","reason":"this machine has no GPU"}`, "not_applicable"},
		{Succeeded, `{"outcome":"scrubbed","gpus":[]}`, "done"},
		{Succeeded, ``, "done"},
		{Failed, `{"outcome":"not_applicable"}`, ""},
		{Queued, ``, ""},
	} {
		if got := outcomeOf(c.status, []byte(c.output)); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.status, c.output, got, c.want)
		}
	}
}
