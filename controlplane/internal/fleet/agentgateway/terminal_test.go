package agentgateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agentgateway"
)

// echo is the other end of a terminal: it says who came, then repeats.
type echo struct{ t *testing.T }

func (e echo) ServeNode(w http.ResponseWriter, r *http.Request, n id.Node) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		e.t.Errorf("accept: %v", err)
		return
	}
	defer conn.CloseNow()
	greeting := n.String() + " " + r.PathValue("session_id")
	if err := conn.Write(e.t.Context(), websocket.MessageText, []byte(greeting)); err != nil {
		e.t.Errorf("write: %v", err)
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

func TestTheNodeEndOfATerminalIsHandedOver(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t), func(c *agentgateway.Config) { c.Terminal = echo{t} })
	a := p.active(t, "gpu-1")
	session := id.NewString()
	path := strings.Replace(agentwire.PathTerminal, "{session_id}", session, 1)
	header := http.Header{agentwire.HeaderAgentInstance: {a.instance}, agentwire.HeaderAgentSession: {a.session}}
	conn, _, err := websocket.Dial(t.Context(), "wss"+strings.TrimPrefix(p.url, "https")+path,
		&websocket.DialOptions{HTTPClient: a.client, HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	_, text, err := conn.Read(t.Context())
	if err != nil || string(text) != a.node.String()+" "+session {
		t.Errorf("%s %v", text, err)
	}
	// Who comes without a certificate gets a refusal instead of a terminal.
	b := *a
	b.client = p.client(nil)
	b.get(path, "").want(http.StatusUnauthorized, agentwire.CodeCertificateMissing)
}

func TestWithoutTerminalsTheNodeIsToldSo(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	a.get(strings.Replace(agentwire.PathTerminal, "{session_id}", id.NewString(), 1), "").
		want(http.StatusServiceUnavailable, "terminals_missing")
}
