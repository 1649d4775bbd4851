package terminal_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/terminal"
	"gpuaas/testkit"
)

// fails has the node report that a task failed.
func (w *world) fails(tb testing.TB, task *agentwire.Envelope, code string) {
	tb.Helper()
	tid, err := id.Parse[id.NodeTask](task.TaskID)
	if err != nil {
		tb.Fatal(err)
	}
	err = w.queue.Result(tb.Context(), w.node, tid, agentwire.ResultRequest{
		Attempt: task.Attempt, Status: agentwire.ResultFailed,
		Error: &agentwire.TaskError{Code: code, Message: "no", Remedy: "do"},
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func TestATokenWorksOnce(t *testing.T) {
	w := newWorld(t, nil)
	minted := w.mint(t)
	const attempts = 20
	var mu sync.Mutex
	var codes []websocket.StatusCode
	var winner *end
	var racing sync.WaitGroup
	for range attempts {
		racing.Go(func() {
			e := w.user(t, minted)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			// The loser is closed; the winner hears nothing until its node
			// comes.
			_, data, err := e.conn.Read(ctx)
			if err == nil && bytes.Contains(data, []byte("terminal_token_invalid")) {
				_, _, err = e.conn.Read(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				codes = append(codes, websocket.CloseStatus(err))
				return
			}
			winner = e
		})
	}
	testkit.Eventually(t, "all others to be refused",
		func() bool { mu.Lock(); defer mu.Unlock(); return len(codes) == attempts-1 })
	node, p := w.dialNode(t, w.node, minted.SessionID)
	if p.Code != "" {
		t.Fatal(p)
	}
	node.control(agentwire.TerminalFrame{Type: agentwire.FrameReady})
	racing.Wait()
	for _, c := range codes {
		if c != agentwire.CloseUnauthenticated {
			t.Errorf("closed with %d", c)
		}
	}
	if winner == nil {
		t.Fatal("nobody has the session")
	}
	denied := slices.DeleteFunc(w.audit(t, minted.SessionID),
		func(s string) bool { return !strings.Contains(s, "denied") })
	if len(denied) != attempts-1 {
		t.Errorf("%d refusals are recorded: %q", len(denied), denied)
	}
	if n := w.texts(t, `SELECT count(*)::text FROM node_tasks WHERE type = 'terminal.open'`); n[0] != "1" {
		t.Errorf("%s tasks", n[0])
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	other := w.mint(t)
	bearer := func(t string) []string { return []string{agentwire.TerminalProtocol, agentwire.TerminalBearer + t} }
	for name, c := range map[string]struct {
		path      func(token) string
		protocols func(token) []string
		header    func(token) http.Header
		pass      time.Duration
		code      string
		unused    bool // the token stays valid
	}{
		"in the query": {
			path: func(m token) string { return m.WebsocketPath + "?token=" + m.Token },
			code: "terminal_token_in_query", unused: true,
		},
		"query beside a token": {
			path:      func(m token) string { return m.WebsocketPath + "?x=1" },
			protocols: func(m token) []string { return bearer(m.Token) }, code: "terminal_token_in_query", unused: true,
		},
		"none": {code: "terminal_token_invalid", unused: true},
		"guessed": {
			protocols: func(token) []string { return bearer("gpuaas_t" + strings.Repeat("A", 43)) },
			code:      "terminal_token_invalid", unused: true,
		},
		"of another session": {
			protocols: func(token) []string { return bearer(other.Token) },
			code:      "terminal_token_invalid", unused: true,
		},
		"basic authorization": {header: func(
			m token,
		) http.Header {
			return http.Header{"Authorization": {"Basic " + m.Token}}
		}, code: "terminal_token_invalid", unused: true},
		"expired": {
			protocols: func(m token) []string { return bearer(m.Token) }, pass: 3 * time.Minute,
			code: "terminal_token_invalid",
		},
		"session is no uuid": {
			path:      func(token) string { return "/ws/terminal/x" },
			protocols: func(m token) []string { return bearer(m.Token) }, code: "terminal_token_invalid", unused: true,
		},
		"session is not there": {
			path:      func(token) string { return "/ws/terminal/00000000-0000-4000-8000-000000000000" },
			protocols: func(m token) []string { return bearer(m.Token) }, code: "terminal_token_invalid", unused: true,
		},
		"session of another one": {
			path:      func(token) string { return other.WebsocketPath },
			protocols: func(m token) []string { return bearer(m.Token) }, code: "terminal_token_invalid", unused: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.mint(t)
			if life := m.ExpiresAt.Sub(w.clock.now()); life <= 0 || life > terminal.MaxTokenLife {
				t.Errorf("the token lives for %s", life)
			}
			path, protocols, header := m.WebsocketPath, []string{agentwire.TerminalProtocol}, http.Header{}
			if c.path != nil {
				path = c.path(m)
			}
			if c.protocols != nil {
				protocols = c.protocols(m)
			}
			if c.header != nil {
				header = c.header(m)
			}
			w.clock.pass(c.pass)
			e, _, err := w.dialUser(t, path, protocols, header)
			if err != nil {
				t.Fatal(err)
			}
			last, status := e.ends()
			if status != agentwire.CloseUnauthenticated || last.Type != agentwire.FrameError || last.Code != c.code {
				t.Errorf("closed with %d after %+v", status, last)
			}
			if c.unused {
				w.wants(t, m.SessionID, terminal.Issued, "")
			}
			w.keepsNoSecret(t, m.Token)
		})
	}
}

func TestTheAuthorizationHeaderWorksToo(t *testing.T) {
	w := newWorld(t, nil)
	m := w.mint(t)
	if _, _, err := w.dialUser(t, m.WebsocketPath, nil, http.Header{"Authorization": {"Bearer " + m.Token}}); err != nil {
		t.Fatal(err)
	}
	w.wants(t, m.SessionID, terminal.Opening, "")
}

func TestRequestsThatAreNoTerminal(t *testing.T) {
	w := newWorld(t, nil)
	m := w.mint(t)
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"no websocket": {http.Header{}, http.StatusUnprocessableEntity},
		"foreign origin": {http.Header{
			"Upgrade": {"websocket"}, "Connection": {"Upgrade"},
			"Origin": {"https://evil.example.com"},
		}, http.StatusForbidden},
		"unreadable origin": {
			http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Origin": {"null"}},
			http.StatusForbidden,
		},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.public.URL+m.WebsocketPath, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = c.header
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != c.status || answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s %s", name, answer.Status, answer.Header.Get("Content-Type"))
		}
	}
	if _, _, err := w.dialUser(t, m.WebsocketPath,
		[]string{agentwire.TerminalProtocol, agentwire.TerminalBearer + m.Token},
		http.Header{"Origin": {w.public.URL}}); err != nil {
		t.Errorf("a page of the same host: %v", err)
	}
	w.wants(t, m.SessionID, terminal.Opening, "")
}

func TestOnlyTheNodeOfASessionJoinsIt(t *testing.T) {
	w := newWorld(t, nil)
	stranger := w.addNode(t, "active")
	m := w.mint(t)
	if _, p := w.dialNode(t, w.node, m.SessionID); p.Code != "terminal_session_ended" {
		t.Errorf("before there is a user: %+v", p)
	}
	user := w.user(t, m)
	w.wants(t, m.SessionID, terminal.Opening, "")
	for name, session := range map[string]string{"not a uuid": "x", "not there": "00000000-0000-4000-8000-000000000000"} {
		if _, p := w.dialNode(t, w.node, session); p.Code != "terminal_session_not_found" || p.Status != http.StatusNotFound {
			t.Errorf("session %s: %+v", name, p)
		}
	}
	if _, p := w.dialNode(t, stranger, m.SessionID); p.Code != "terminal_session_not_found" ||
		p.Status != http.StatusNotFound {
		t.Errorf("another node: %+v", p)
	}
	if got := w.audit(t, m.SessionID); !strings.Contains(strings.Join(got, "\n"),
		"terminal_session.join denied the session is for another node than "+stranger.String()) {
		t.Errorf("the other node is not recorded: %q", got)
	}
	node, p := w.dialNode(t, w.node, m.SessionID)
	if p.Code != "" {
		t.Fatalf("the right node: %+v", p)
	}
	if _, p := w.dialNode(t, w.node, m.SessionID); p.Code != "terminal_session_ended" || p.Status != http.StatusConflict {
		t.Errorf("a second time: %+v", p)
	}
	node.control(agentwire.TerminalFrame{Type: agentwire.FrameReady})
	user.until("session_ready", func() bool { return len(user.frames) == 1 })
	user.control(agentwire.TerminalFrame{Type: agentwire.FrameClose})
	user.ends()
	if _, p := w.dialNode(t, w.node, m.SessionID); p.Code != "terminal_session_ended" {
		t.Errorf("after its end: %+v", p)
	}
	// A session that another replica waits for.
	m = w.mint(t)
	w.exec(t,
		`UPDATE terminal_sessions SET status = 'opening', token_used_at = now(), seen_at = now(), gateway = 'other' WHERE id = $1`, m.SessionID)
	if _, p := w.dialNode(t, w.node, m.SessionID); p.Code != "terminal_session_elsewhere" ||
		p.Status != http.StatusServiceUnavailable {
		t.Errorf("at the wrong replica: %+v", p)
	}
}

func TestTheNodeNeverComes(t *testing.T) {
	w := newWorld(t, func(s *terminal.Settings) { s.NodeWait = 100 * time.Millisecond })
	m := w.mint(t)
	last, status := w.user(t, m).ends()
	if last.Type != agentwire.FrameError || !last.Retryable || last.Code != "node_did_not_answer" || last.Remedy == "" ||
		status != agentwire.CloseUnavailable {
		t.Errorf("the user hears %+v, %d", last, status)
	}
	w.wants(t, m.SessionID, terminal.Failed, "node_did_not_answer")
	if got := w.audit(t, m.SessionID); got[len(
		got)-1] != "terminal_session.close failure node_did_not_answer by id-of-admin" {
		t.Errorf("recorded: %q", got)
	}
	if got := w.events(t, m.SessionID); len(got) != 0 {
		t.Errorf("events of a session that never was: %q", got)
	}
}

func TestBeginningsThatFail(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		node  func(*end)
		frame agentwire.TerminalFrame
	}{
		"the shell does not start": {
			func(e *end) {
				e.control(agentwire.TerminalFrame{Type: agentwire.FrameError, Code: "terminal_shell_failed", Message: "no"})
			},
			agentwire.TerminalFrame{Type: agentwire.FrameError, Code: "terminal_shell_failed", Message: "no"},
		},
		"the node leaves": {
			func(e *end) { _ = e.conn.CloseNow() },
			agentwire.TerminalFrame{
				Type: agentwire.FrameError, Code: agentwire.ClosedNodeLost,
				Message: "the node left before the session began", Remedy: "try again", Retryable: true,
			},
		},
		"the node talks too soon": {
			func(e *end) { e.sends("$ ") },
			agentwire.TerminalFrame{
				Type: agentwire.FrameError, Code: agentwire.ClosedProtocol,
				Message: "the node does not speak gpuaas.terminal.v1", Remedy: "compare the versions of agent and control plane",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.mint(t)
			user := w.user(t, m)
			w.wants(t, m.SessionID, terminal.Opening, "")
			node, p := w.dialNode(t, w.node, m.SessionID)
			if p.Code != "" {
				t.Fatal(p)
			}
			c.node(node)
			last, status := user.ends()
			last.SessionID = ""
			if last != c.frame || status != agentwire.CloseUnavailable && status != websocket.StatusPolicyViolation {
				t.Errorf("the user hears %+v, %d", last, status)
			}
			w.wants(t, m.SessionID, terminal.Failed, c.frame.Code)
		})
	}
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		idle, total time.Duration
		reason      string
	}{
		"idle":               {300 * time.Millisecond, time.Hour, agentwire.ClosedIdle},
		"busy, but too long": {300 * time.Millisecond, time.Second, agentwire.ClosedTotal},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *terminal.Settings) { s.IdleLimit, s.TotalLimit = c.idle, c.total })
			m, user, node := w.both(t)
			if c.reason == agentwire.ClosedTotal {
				done := make(chan struct{})
				defer close(done)
				go func() {
					for {
						select {
						case <-done:
							return
						case <-time.After(20 * time.Millisecond):
							_ = node.conn.Write(context.Background(), websocket.MessageBinary, []byte("."))
						}
					}
				}()
			}
			last, status := user.ends()
			if last.Type != agentwire.FrameClosed || last.Reason != c.reason || status != agentwire.CloseLimit {
				t.Errorf("the user hears %+v, %d", last, status)
			}
			if last, _ := node.ends(); last.Type != agentwire.FrameClose || last.Reason != c.reason {
				t.Errorf("the node hears %+v", last)
			}
			w.wants(t, m.SessionID, terminal.Closed, c.reason)
		})
	}
}

func TestEndings(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		act    func(user, node *end)
		reason string
		status websocket.StatusCode // that the user sees; 0: the user is gone
	}{
		"user closes": {
			func(u, _ *end) { u.control(agentwire.TerminalFrame{Type: agentwire.FrameClose}) },
			agentwire.ClosedByUser, websocket.StatusNormalClosure,
		},
		"user hangs up": {func(u, _ *end) { _ = u.conn.Close(websocket.StatusNormalClosure, "") }, agentwire.ClosedByUser, 0},
		"user is lost":  {func(u, _ *end) { _ = u.conn.CloseNow() }, agentwire.ClosedUserLost, 0},
		"node is lost":  {func(_, n *end) { _ = n.conn.CloseNow() }, agentwire.ClosedNodeLost, agentwire.CloseUnavailable},
		"account is removed": {func(_, n *end) {
			n.control(agentwire.TerminalFrame{Type: agentwire.FrameClosed, Reason: agentwire.ClosedRemoved})
		}, agentwire.ClosedRemoved, websocket.StatusNormalClosure},
		"user talks nonsense": {
			func(u, _ *end) { u.send(websocket.MessageText, []byte(`{"type":"exec","command":"id"}`)) },
			agentwire.ClosedProtocol, websocket.StatusPolicyViolation,
		},
		"user plays the node": {
			func(u, _ *end) { u.control(agentwire.TerminalFrame{Type: agentwire.FrameReady}) },
			agentwire.ClosedProtocol, websocket.StatusPolicyViolation,
		},
		"node talks nonsense": {
			func(_, n *end) { n.send(websocket.MessageText, []byte(`{}`)) }, agentwire.ClosedProtocol,
			websocket.StatusPolicyViolation,
		},
		"node invents a reason": {func(_, n *end) {
			n.control(
				agentwire.TerminalFrame{Type: agentwire.FrameClosed, Reason: "<script>"})
		}, agentwire.ClosedProtocol, websocket.StatusPolicyViolation},
		"user sends too much": {func(u, _ *end) {
			_ = u.conn.Write(context.Background(), websocket.MessageBinary, make([]byte, agentwire.MaxTerminalMessage+1))
		}, agentwire.ClosedProtocol, websocket.StatusMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			m, user, node := w.both(t)
			user.sends("typed")
			node.shows("typed")
			node.sends("shown")
			user.shows("shown")
			c.act(user, node)
			if c.status != 0 {
				if _, status := user.ends(); status != c.status {
					t.Errorf("the user is closed with %d, want %d", status, c.status)
				}
			}
			node.ends()
			ended := w.wants(t, m.SessionID, terminal.Closed, c.reason)
			if ended.BytesIn != 5 || ended.BytesOut != 5 {
				t.Errorf("%d bytes in, %d out", ended.BytesIn, ended.BytesOut)
			}
		})
	}
}

// If the user is slow, everything arrives and the node is held back meanwhile.
// A user who takes nothing at all does not hold things up for ever.
func TestAUserWhoIsSlow(t *testing.T) {
	w := newWorld(t, nil)
	_, user, node := w.both(t)
	user.conn.SetReadLimit(agentwire.MaxTerminalMessage)
	const chunks, size = 1000, 32 << 10
	sent := sha256.New()
	go func() {
		for i := range chunks {
			chunk := bytes.Repeat([]byte{byte(i)}, size)
			sent.Write(chunk)
			if node.conn.Write(context.Background(), websocket.MessageBinary, chunk) != nil {
				return
			}
		}
		_ = node.conn.Write(context.Background(), websocket.MessageText,
			agentwire.TerminalFrame{Type: agentwire.FrameClosed, Reason: agentwire.ClosedShellEnded}.Encode())
	}()
	user.ends()
	got := sha256.Sum256(user.shown.Bytes())
	if user.shown.Len() != chunks*size || !bytes.Equal(got[:], sent.Sum(nil)) {
		t.Errorf("%d of %d bytes came", user.shown.Len(), chunks*size)
	}

	w = newWorld(t, func(s *terminal.Settings) { s.Stall = 300 * time.Millisecond })
	m, _, node := w.both(t)
	written := 0
	for node.conn.Write(t.Context(), websocket.MessageBinary, make([]byte, size)) == nil {
		written += size
	}
	if ended := w.wants(t, m.SessionID, terminal.Closed, agentwire.ClosedStalled); ended.BytesOut > int64(written)+size {
		t.Errorf("%d bytes were taken of %d", ended.BytesOut, written)
	}
}
