package terminal_test

import (
	"bufio"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/terminal"
)

const uid = 20001

// agentOf starts the agent's part of terminals as a process of its own, on a
// folder that stands for a machine with the allocation user alice. open makes
// the agent carry out a task and returns the result.
func agentOf(tb testing.TB, w *world) (open func(*agentwire.Envelope) (code string)) {
	tb.Helper()
	program := filepath.Join(tb.TempDir(), "agent")
	build := exec.CommandContext(tb.Context(), "go", "test", "-c", "-o", program, "gpuaas/agent/internal/terminal")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build the agent: %v\n%s", err, out)
	}
	setting, err := json.Marshal(map[string]any{
		"root": machine(tb), "hosts": []string{"127.0.0.1"}, "header": http.Header{nodeHeader: {w.node.String()}},
		"ca_pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.nodes.Certificate().Raw})),
	})
	if err != nil {
		tb.Fatal(err)
	}
	agent := exec.CommandContext(tb.Context(), program)
	agent.Env = append(os.Environ(), "GPUAAS_TERMINAL_PEER="+string(setting))
	agent.Stderr = os.Stderr
	in, errIn := agent.StdinPipe()
	out, errOut := agent.StdoutPipe()
	if err := errors.Join(errIn, errOut, agent.Start()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = agent.Wait()
	})
	lines := bufio.NewScanner(out)
	return func(e *agentwire.Envelope) string {
		tb.Helper()
		if _, err := fmt.Fprintf(in, "%s\n", e.Params); err != nil {
			tb.Fatal(err)
		}
		if !lines.Scan() {
			tb.Fatalf("the agent is gone: %v", lines.Err())
		}
		return lines.Text()
	}
}

func machine(tb testing.TB) (root string) {
	tb.Helper()
	root = tb.TempDir()
	for name, content := range map[string]string{
		"etc/passwd": fmt.Sprintf(
			"root:x:0:0::/root:/bin/bash\nalice:x:%d:%d::/home/alice:/bin/bash\nbob:x:20002:20002::/home/bob:/bin/bash\n", uid,
			uid),
		"etc/group":                       "root:x:0:\n",
		"var/lib/gpuaas/users/alice.json": fmt.Sprintf(`{"username":"alice","uid":%d,"ready":true}`, uid),
		"home/alice/.profile":             "PS1='$ '\n",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		tb.Fatal(err)
	}
	return root
}

// From the API to a shell and back: every part except the node's identity is
// real, and the agent is a separate process.
func TestFromTheAPIToAShell(t *testing.T) {
	w := newWorld(t, nil)
	open := agentOf(t, w)
	minted := w.mint(t)
	user := w.user(t, minted)
	task := w.task(t)
	if task.Type != agentwire.TypeTerminalOpen {
		t.Fatalf("the node is given %+v", task)
	}
	if code := open(task); code != "" {
		t.Fatalf("the agent does not open the session: %s", code)
	}
	user.until("session_ready", func() bool {
		return len(user.frames) == 1 &&
			user.frames[0].Type == agentwire.FrameReady
	})

	want := uid
	if os.Geteuid() != 0 {
		want = os.Geteuid() // only root can become somebody else
	}
	user.sends("id -u\n")
	user.shows(strconv.Itoa(want) + "\r\n")
	user.sends("stty size\n")
	user.shows("30 100\r\n")
	user.control(agentwire.TerminalFrame{Type: agentwire.FrameResize, Columns: 132, Rows: 43})
	user.sends("stty size\n")
	user.shows("43 132\r\n")
	w.wants(t, minted.SessionID, terminal.Open, "")
	user.sends("exit 3\n")
	last, status := user.ends()
	if last.Type != agentwire.FrameClosed || last.Reason != agentwire.ClosedShellEnded || last.Exit == nil ||
		*last.Exit != 3 || status != websocket.StatusNormalClosure {
		t.Errorf("the user hears %+v, %d", last, status)
	}

	ended := w.wants(t, minted.SessionID, terminal.Closed, agentwire.ClosedShellEnded)
	if typed := int64(len("id -u\nstty size\nstty size\nexit 3\n")); ended.BytesIn != typed ||
		ended.BytesOut != int64(user.shown.Len()) {
		t.Errorf("%d bytes in and %d out are recorded, want %d and %d", ended.BytesIn, ended.BytesOut, typed,
			user.shown.Len())
	}
	if got, want := w.audit(t, minted.SessionID), []string{
		"terminal_session.issue_token success  by id-of-admin", "terminal_session.connect success  by id-of-admin",
		"terminal_session.open success  by id-of-admin", "terminal_session.close success shell_ended by id-of-admin",
	}; !slices.Equal(got, want) {
		t.Errorf("recorded:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := w.events(t, minted.SessionID); !slices.Equal(got,
		[]string{"terminal_session.opened ", "terminal_session.closed shell_ended"}) {
		t.Errorf("events: %q", got)
	}
	w.keepsNoSecret(t, minted.Token)
}

// keepsNoSecret looks for a token everywhere that text is kept.
func (w *world) keepsNoSecret(tb testing.TB, token string) {
	tb.Helper()
	if strings.Contains(w.log.String(), token) {
		tb.Error("the token is in the log")
	}
	for _, table := range []string{"terminal_sessions", "audit_logs", "outbox_events", "node_tasks", "idempotency_keys"} {
		if n := w.texts(tb, `SELECT count(*)::text FROM `+table+` t WHERE strpos(t::text, $1) > 0`, token); n[0] != "0" {
			tb.Errorf("the token is in %s", table)
		}
	}
}

// For a user that was never provisioned, the answer is the agent's reason and
// not a timeout.
func TestTheAgentRefusesTheUser(t *testing.T) {
	w := newWorld(t, nil)
	open := agentOf(t, w)
	var minted token
	if p := w.ask(t, "admin", http.MethodPost, "/api/v1/admin/nodes/"+w.node.String()+"/terminal-token",
		map[string]any{"username": "bob"}, &minted); p.Code != "" {
		t.Fatal(p)
	}
	user := w.user(t, minted)
	task := w.task(t)
	code := open(task)
	if code != "user_not_provisioned" {
		t.Fatalf("the agent says %q", code)
	}
	w.fails(t, task, code)
	last, status := user.ends()
	if last.Type != agentwire.FrameError || last.Code != code || last.Retryable || status != agentwire.CloseUnavailable {
		t.Errorf("the user hears %+v, %d", last, status)
	}
	w.wants(t, minted.SessionID, terminal.Failed, code)
}
