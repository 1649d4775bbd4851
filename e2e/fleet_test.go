package e2e

import (
	"net"
	"strings"
	"testing"

	"gpuaas/stack"
	"gpuaas/stack/stacktest"
)

// TestFleet lets simulated agents enrol and answer: every task reaches its node,
// woken across two replicas of the API that know nothing of each other.
func TestFleet(t *testing.T) {
	t.Parallel()
	engines := stacktest.Start(t, stack.Options{}).Endpoints()
	node := freeAddress(t)
	listening := []string{"GPUAAS_NODES_LISTEN=" + node, "GPUAAS_NODES_URL=https://" + node}
	first := startPlane(t, engines, planeOptions{env: listening})
	_, port, err := net.SplitHostPort(node)
	if err != nil {
		t.Fatal(err)
	}
	// The second replica takes requests and no nodes: its tasks must wake polls
	// that the first one holds.
	second := startPlane(t, engines, planeOptions{
		token: first.token,
		env:   []string{"GPUAAS_NODES_URL=https://127.0.0.1:" + port},
	})
	token := privateFile(t, t.TempDir(), "token", first.token)
	out := succeed(t, nil, "sim", "fleet", "--url", second.url, "--node-url", "https://"+node, "--token-file", token,
		"--agents", "30", "--measure", "3s", "--rate", "30")
	for _, want := range []string{"30 agents enrolled", "arrived 90, missed 0", "agents alive 30 of 30"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "refused") {
		t.Error(out)
	}
}
