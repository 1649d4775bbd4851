package node_test

import (
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
)

func TestTheWayThatIsLeftForAnAgent(t *testing.T) {
	now := time.Now()
	valid, ended := now.Add(time.Hour), now.Add(-time.Hour)
	for _, c := range []struct {
		version, protocol string
		until             *time.Time
		path              node.UpdatePath
		says              string
	}{
		{"1.0.0", "1", &valid, node.PathInPlace, ""},
		{"1.0.0", "", &valid, node.PathInPlace, ""},
		{"1.0.0", "many", &valid, node.PathInPlace, ""},
		{"", "", nil, node.PathBootstrap, "gpuaas node bootstrap c07"},
		{"1.0.0", "1", &ended, node.PathRepair, "gpuaas node bootstrap c07 --recovery"},
		{"1.0.0", "1", nil, node.PathRepair, "gpuaas decommission start c07 --mode reimage"},
		{"1.0.0", "0", &valid, node.PathByHand, "too old to be updated from here: it speaks protocol 0"},
		{"9.0.0", "2", &valid, node.PathUpgrade, "it speaks protocol 2"},
	} {
		path, because := node.PathOf("c07", c.version, c.protocol, c.until, now)
		if path != c.path || !strings.Contains(because, c.says) {
			t.Errorf("%s, protocol %q: %s %q", c.version, c.protocol, path, because)
		}
	}
}

func TestAnAgentThatIsTooOldSaysWhichWayIsLeft(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	old := agentwire.Capabilities{Facts: map[string]string{agentwire.FactProtocol: "0"}}
	err := w.service.Report(t.Context(), a.node, agentwire.Report{Build: release, Capabilities: old})
	if err != nil {
		t.Fatal(err)
	}
	if path, because := w.read(t, a.node).UpdatePath(time.Now()); path != node.PathByHand || because == "" {
		t.Errorf("%s %q", path, because)
	}
	w.exec(t, `UPDATE nodes SET status = 'retired', schedulable = false WHERE id = $1`, a.node)
	if path, because := w.read(t, a.node).UpdatePath(time.Now()); path != node.NoPath || because != "" {
		t.Errorf("out of service: %s %q", path, because)
	}
}
