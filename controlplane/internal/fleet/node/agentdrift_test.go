package node_test

import (
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
)

func TestAReportThatChangesTheDriftOfAnAgentIsTold(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.exec(t, `UPDATE nodes SET desired_agent_version = $2 WHERE id = $1`, a.node, release.Version)
	drifts := func(version string, want int64) {
		t.Helper()
		r := agentwire.Report{Build: agentwire.Build{Version: version, Commit: release.Commit}, Capabilities: anything}
		if err := w.service.Report(t.Context(), a.node, r); err != nil {
			t.Fatal(err)
		}
		if got := w.told(t, a.node, string(eventwire.AgentDriftChanged)); got != want {
			t.Errorf("%d events about drift after %s, want %d", got, version, want)
		}
	}
	drifts(release.Version, 0)
	drifts("6.6.6", 1)
	drifts("7.7.7", 1) // drifts as before
	drifts(release.Version, 2)
}
