package agentgateway_test

import (
	"net/http"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
)

// Over the wire, with certificates of the real secrets engine: a machine on the
// same network that has a recovery token of another one.
func TestAttackAForeignMachineIsRefusedAtTheListener(t *testing.T) {
	t.Parallel()
	p := newPlane(t, openBao(t))
	n, token := p.newNode(t, "gpu-1")
	machine := agentwire.Hardware{
		UUID: "4c4c4544-0042-3510-8052-b4c04f4d3233", SystemSerial: "B5BRM23",
		MACs: []string{"b0:7b:25:aa:00:01"},
	}
	other := agentwire.Hardware{
		UUID: "9a9a9a9a-0042-3510-8052-b4c04f4d3233", SystemSerial: "STRANGER1",
		MACs: []string{"b0:7b:25:cc:00:01"},
	}
	a := &agent{
		tb: t, p: p, node: n.ID, key: newKey(t), instance: "machine-1", session: "session-1",
		client: p.client(nil),
	}
	a.enrollOn(token, &machine).want(http.StatusOK, "").into(&a.issued)
	a.use(a.issued.Certificate)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")

	stolen, _, err := p.nodes.IssueToken(p.ctx, n.ID, node.Recovery, 0)
	if err != nil {
		t.Fatal(err)
	}
	thief := &agent{
		tb: t, p: p, node: n.ID, key: newKey(t), instance: "machine-2", session: "session-2",
		client: p.client(nil),
	}
	refused := thief.enrollOn(stolen, &other).want(http.StatusForbidden, agentwire.CodeHardwareMismatch)
	if text := string(refused.body); !strings.Contains(text, "system UUID") || strings.Contains(text, machine.UUID) ||
		strings.Contains(text, machine.SystemSerial) {
		t.Errorf("the thief is told %s", text)
	}
	thief.enrollOn(stolen, &machine).want(http.StatusUnauthorized, agentwire.CodeTokenInvalid)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")

	long := agentwire.Hardware{SystemSerial: strings.Repeat("x", 20<<10)}
	fresh, _, err := p.nodes.IssueToken(p.ctx, n.ID, node.Recovery, 0)
	if err != nil {
		t.Fatal(err)
	}
	thief.enrollOn(fresh, &long).want(http.StatusUnprocessableEntity, "validation_error")
}
