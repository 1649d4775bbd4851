package cli

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"gpuaas/cli/internal/failure"
	"gpuaas/contract/agentwire"
)

const (
	sessionID    = "0190b2f4-7c1e-7d3a-8f5b-00000000000e"
	terminalPart = `"id":"` + sessionID + `","node_id":"` + nodeID +
		`","username":"alice","requested_by":"Ada","correlation_id":"0190-corr","created_at":"2026-03-04T05:06:07Z"`
	terminalOpen = `{` + terminalPart +
		`,"status":"open","bytes_in":12,"bytes_out":345,"opened_at":"2026-03-04T05:06:08Z"}`
	terminalClosed = `{` + terminalPart +
		`,"status":"closed","close_reason":"idle_limit","bytes_in":12,"bytes_out":345,"opened_at":"2026-03-04T05:06:08Z","closed_at":"2026-03-04T05:08:07Z"}`
	terminalToken  = "gpuaas_t-canary-5d1c"
	terminalMinted = `{"session_id":"` + sessionID + `","token":"` + terminalToken + `","websocket_path":"/ws/terminal/` +
		sessionID + `","expires_at":"2026-03-04T05:11:07Z"}`
	terminalOffline = "the agent of node c07u31 does not answer"
)

// terminalAnswers are the answers about terminals. There is none to be had:
// what happens in one has tests of its own.
func terminalAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	maps.Copy(into, map[string]http.HandlerFunc{
		"create-terminal-token": refuse(http.StatusConflict, "node_offline", terminalOffline,
			"wait until the node is active"),
		"list-terminal-sessions": pageOf(terminalOpen, terminalClosed), "close-terminal-session": answer(202, terminalOpen),
	})
	return into
}

// withTerminal is a bench whose control plane has a terminal, played by far.
func withTerminal(t *testing.T, far http.HandlerFunc) (*bench, *fakeAPI) {
	t.Helper()
	f := newFakeAPI(t)
	f.on("create-terminal-token", answer(http.StatusCreated, terminalMinted))
	mux := http.NewServeMux()
	mux.HandleFunc("/ws/terminal/"+sessionID, far)
	mux.Handle("/", f)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return newBench(t, "GPUAAS_URL="+server.URL, "GPUAAS_TOKEN="+canary), f
}

// far plays the control plane's end of a session.
func far(t *testing.T, play func(ctx context.Context, c *websocket.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+terminalToken || r.URL.RawQuery != "" {
			t.Errorf("asked with %v and query %q", r.Header, r.URL.RawQuery)
		}
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{agentwire.TerminalProtocol}})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		play(r.Context(), c)
	}
}

func sendFrame(ctx context.Context, t *testing.T, c *websocket.Conn, f agentwire.TerminalFrame) {
	t.Helper()
	if err := c.Write(ctx, websocket.MessageText, f.Encode()); err != nil {
		t.Error(err)
	}
}

func TestTerminalCarriesBothWays(t *testing.T) {
	exit := 3
	b, f := withTerminal(t, far(t, func(ctx context.Context, c *websocket.Conn) {
		sendFrame(ctx, t, c, agentwire.TerminalFrame{Type: agentwire.FrameReady})
		var typed strings.Builder
		for !strings.HasSuffix(typed.String(), "\x04") {
			_, data, err := c.Read(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			typed.Write(data)
		}
		if typed.String() != "id -u\n\x04" {
			t.Errorf("typed %q", typed.String())
		}
		_ = c.Write(ctx, websocket.MessageBinary, []byte("20001\r\n\x1b[0m"))
		sendFrame(ctx, t, c, agentwire.TerminalFrame{
			Type: agentwire.FrameClosed, Reason: agentwire.ClosedShellEnded,
			Exit: &exit,
		})
		_, _, _ = c.Read(ctx) // until the other end leaves
	}))
	b.in = "id -u\n"
	got := b.run("terminal", "c07u31", "--user", "alice")
	if got.exit != failure.OK || got.stdout != "20001\r\n\x1b[0m" || got.err != "" {
		t.Error(got)
	}
	calls := f.received()
	if body := calls[len(calls)-1].body; body != `{"columns":80,"rows":24,"username":"alice"}` {
		t.Errorf("asked for %s", body)
	}
}

func TestTerminalEndings(t *testing.T) {
	frame := func(f agentwire.TerminalFrame) func(context.Context, *testing.T, *websocket.Conn) {
		return func(ctx context.Context, t *testing.T, c *websocket.Conn) { sendFrame(ctx, t, c, f) }
	}
	for name, c := range map[string]struct {
		play func(context.Context, *testing.T, *websocket.Conn)
		exit int
		says string
	}{
		"idle": {
			frame(agentwire.TerminalFrame{Type: agentwire.FrameClosed, Reason: agentwire.ClosedIdle}),
			failure.Unsuccessful, "nothing was typed or shown",
		},
		"too long": {
			frame(agentwire.TerminalFrame{Type: agentwire.FrameClosed, Reason: agentwire.ClosedTotal}),
			failure.Unsuccessful, "as long as it may",
		},
		"node is lost": {
			frame(agentwire.TerminalFrame{Type: agentwire.FrameClosed, Reason: agentwire.ClosedNodeLost}),
			failure.Unavailable, "node_lost",
		},
		"user removed": {
			frame(agentwire.TerminalFrame{Type: agentwire.FrameClosed, Reason: agentwire.ClosedRemoved}),
			failure.Unsuccessful, "user_removed",
		},
		"refused": {frame(agentwire.TerminalFrame{
			Type: agentwire.FrameError, Code: "user_not_provisioned",
			Message: "no such user", Remedy: "provision it",
		}), failure.Unsuccessful, "no such user"},
		"node silent": {frame(agentwire.TerminalFrame{
			Type: agentwire.FrameError, Code: "x", Message: "silence",
			Retryable: true,
		}), failure.Unavailable, "silence"},
		"bad token": {
			func(_ context.Context, _ *testing.T, c *websocket.Conn) {
				_ = c.Close(agentwire.CloseUnauthenticated, "")
			},
			failure.Unauthenticated, "does not accept the token",
		},
		"cut off": {
			func(_ context.Context, _ *testing.T, c *websocket.Conn) { _ = c.CloseNow() }, failure.Unavailable,
			"was lost",
		},
		"nonsense": {func(ctx context.Context, _ *testing.T, c *websocket.Conn) {
			_ = c.Write(ctx, websocket.MessageText, []byte("{"))
		}, failure.Unexpected, "control frame"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := withTerminal(t, far(t, func(ctx context.Context, conn *websocket.Conn) { c.play(ctx, t, conn) }))
			got := b.run("terminal", nodeID, "--user", "alice")
			if got.exit != c.exit || !strings.Contains(got.err, c.says) || strings.Contains(got.err, terminalToken) {
				t.Errorf("exit %d: %s", got.exit, got.err)
			}
		})
	}
}

func TestTerminalThatCannotBeReached(t *testing.T) {
	b, _ := withTerminal(t, refuse(http.StatusServiceUnavailable, "server_shutting_down", "this replica is shutting down",
		"ask for a new session"))
	if got := b.run("terminal", nodeID, "--user", "alice"); got.exit != failure.Unavailable ||
		!strings.Contains(got.err, "shutting down") {
		t.Error(got)
	}
	b, _ = withTerminal(t, func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, "<html>a proxy</html>")
	})
	if got := b.run("terminal", nodeID, "--user", "alice"); got.exit != failure.Unavailable ||
		!strings.Contains(got.err, "pass websockets on") {
		t.Error(got)
	}
}

func TestTheEscapeOfATerminal(t *testing.T) {
	for keys, want := range map[string]bool{
		"~.": true, "ls\r~.": true, "ls\n~.": true, "\r~~.": false, "a~.": false, "\r~a.": false, "~": false, "": false,
		"\r~\r~.": true,
	} {
		e := escape{fresh: true}
		if got := e.seen([]byte(keys)); got != want {
			t.Errorf("%q: %v", keys, got)
		}
		e = escape{fresh: true}
		got := false
		for _, k := range []byte(keys) { // one at a time
			got = got || e.seen([]byte{k})
		}
		if got != want {
			t.Errorf("%q key by key: %v", keys, got)
		}
	}
}
