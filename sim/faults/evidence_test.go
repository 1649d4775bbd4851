package faults

import (
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/apiclient"
)

func TestATaskThatIsGivenTwiceAtOnceIsSeen(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	task := func(kind string, from, to int) apiclient.AgenttaskView {
		v := apiclient.AgenttaskView{Type: kind, CreatedAt: at(from)}
		if end := at(to); to > 0 {
			v.FinishedAt = &end
		}
		return v
	}
	for name, c := range map[string]struct {
		tasks []apiclient.AgenttaskView
		want  string
	}{
		"none":                {nil, ""},
		"one after the other": {[]apiclient.AgenttaskView{task("drain", 5, 6), task("drain", 1, 5)}, ""},
		"of different types":  {[]apiclient.AgenttaskView{task("drain", 1, 5), task("scrub", 2, 4)}, ""},
		"within another":      {[]apiclient.AgenttaskView{task("drain", 1, 5), task("drain", 2, 4)}, "drain"},
		"while one is open":   {[]apiclient.AgenttaskView{task("drain", 7, 8), task("drain", 1, 0)}, "drain"},
	} {
		if got := givenTwice(c.tasks); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAgentsSayWhatTheyAreTold(t *testing.T) {
	b := newBoots()
	b.answer("one", "node.drain", func(agentwire.Verified) (any, *agentwire.TaskError) { return "lie", nil })
	drain, other := agentwire.Verified{}, agentwire.Verified{}
	drain.Type, other.Type = "node.drain", "node.gpu_scrub"
	said := func(host string, v agentwire.Verified) any {
		out, _ := b.say(host, v)
		return out
	}
	if said("one", drain) != "lie" || said("one", other) != nil || said("two", drain) != nil {
		t.Error("another agent, or of another task, was lied about")
	}
	b.answer("one", "", nil)
	if said("one", drain) != nil {
		t.Error("it still lies after it was mended")
	}
}
