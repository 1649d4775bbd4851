package terminal_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/terminal"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

const (
	patience  = 20 * time.Second
	sessionID = "00000000-0000-4000-8000-00000000000a"
	uid       = 20001
)

// peerSetting makes the test program an agent that only holds terminal
// sessions, for tests of the other end.
const peerSetting = "GPUAAS_TERMINAL_PEER"

func TestMain(m *testing.M) {
	hostexec.Confine()
	if setting := os.Getenv(peerSetting); setting != "" {
		if err := bePeer(setting); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// peer tells such an agent what to be.
type peer struct {
	Root   string      `json:"root"`
	CA     string      `json:"ca_pem"`
	Hosts  []string    `json:"hosts"`
	Header http.Header `json:"header"`
}

// bePeer opens a session for each line of parameters and answers each with a
// line: the error code, or nothing.
func bePeer(setting string) error {
	var p peer
	if err := json.Unmarshal([]byte(setting), &p); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(p.CA))
	host := hostexec.Host{Root: p.Root}
	sessions := terminal.New(terminal.Config{
		Host: host, Accounts: terminal.HostAccounts{Host: host}, Gateways: p.Hosts,
		TLS:    func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots} },
		Header: func() http.Header { return p.Header }, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	defer sessions.CloseAll()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var params agentwire.TerminalOpenParams
		if err := json.Unmarshal(lines.Bytes(), &params); err != nil {
			return err
		}
		fmt.Println(codeOf(sessions.Open(context.Background(), params)))
	}
	return lines.Err()
}

func codeOf(err error) string {
	var e *terminal.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return err.Error()
}

// machine makes a folder that stands for / of a machine with one allocation
// user, alice, and some accounts that must not have sessions.
func machine(tb testing.TB) hostexec.Host {
	tb.Helper()
	root := tb.TempDir()
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil { // others must get in
		tb.Fatal(err)
	}
	for name, content := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\n" +
			fmt.Sprintf("alice:x:%d:%d::/home/alice:/bin/bash\nbroken:x:20002:20002::/home/broken:/no/such/shell\n", uid, uid) +
			"moved:x:0:0::/home/moved:/bin/bash\nleaving:x:20004:20004::/home/leaving:/bin/bash\nforeign:x:20005:20005::/home/foreign:/bin/bash\n",
		"etc/group":                         "root:x:0:alice\nvideo:x:44:bob,alice\nrender:x:106:bob\n",
		"var/lib/gpuaas/users/alice.json":   fmt.Sprintf(`{"username":"alice","uid":%d,"ready":true}`, uid),
		"var/lib/gpuaas/users/broken.json":  `{"username":"broken","uid":20002,"ready":true}`,
		"var/lib/gpuaas/users/moved.json":   `{"username":"moved","uid":20003,"ready":true}`,
		"var/lib/gpuaas/users/admin.json":   `{"username":"admin","uid":1000,"ready":true}`,
		"var/lib/gpuaas/users/leaving.json": `{"username":"leaving","uid":20004,"ready":false}`,
		"var/lib/gpuaas/users/gone.json":    `{"username":"gone","uid":20006,"ready":true}`,
		"home/alice/.profile":               "PS1='$ '\n",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			tb.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(root, "home/alice"), uid, uid); err != nil {
			tb.Fatal(err)
		}
	}
	return hostexec.Host{Root: root}
}

// expectedUID is the user of the shell: only root can become somebody else.
func expectedUID() int {
	if os.Geteuid() == 0 {
		return uid
	}
	return os.Geteuid()
}

// gateway replaces the control plane: it accepts node ends and gives them to
// the test.
type gateway struct {
	*httptest.Server
	legs     chan *websocket.Conn
	dials    atomic.Int32
	answer   atomic.Pointer[func(n int32, w http.ResponseWriter) bool] // true: it has answered
	received atomic.Pointer[http.Request]
}

func newGateway(tb testing.TB) *gateway {
	tb.Helper()
	g := &gateway{legs: make(chan *websocket.Conn, 10)}
	g.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := g.dials.Add(1)
		g.received.Store(r)
		if answer := g.answer.Load(); answer != nil && (*answer)(n, w) {
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{agentwire.TerminalProtocol}})
		if err != nil {
			tb.Error(err)
			return
		}
		g.legs <- conn
	}))
	tb.Cleanup(g.Close)
	return g
}

func (g *gateway) url(tb testing.TB) *url.URL {
	tb.Helper()
	u, err := url.Parse(g.URL)
	if err != nil {
		tb.Fatal(err)
	}
	u.Scheme = "wss"
	return u
}

func (g *gateway) sessions(tb testing.TB, host hostexec.Host, change func(*terminal.Config)) *terminal.Sessions {
	tb.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(g.Certificate())
	cfg := terminal.Config{
		Host: host, Accounts: terminal.HostAccounts{Host: host}, Gateways: []string{g.url(tb).Hostname()},
		TLS:    func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots} },
		Header: func() http.Header { return http.Header{agentwire.HeaderAgentSession: {"s1"}} },
		Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	s := terminal.New(cfg)
	tb.Cleanup(func() { s.CloseAll() })
	return s
}

func (g *gateway) params(tb testing.TB, user string) agentwire.TerminalOpenParams {
	tb.Helper()
	return agentwire.TerminalOpenParams{
		SessionID: sessionID, Username: user, GatewayURL: g.url(tb).String(), Columns: 100, Rows: 30, IdleSeconds: 600,
		TotalSeconds: 3600,
	}
}

// leg is the control plane's end of an open session.
type leg struct {
	tb     testing.TB
	conn   *websocket.Conn
	shown  bytes.Buffer
	frames []agentwire.TerminalFrame
	status websocket.StatusCode
}

// opened opens a session for alice and waits until it is ready.
func opened(tb testing.TB, g *gateway, s *terminal.Sessions, change func(*agentwire.TerminalOpenParams)) *leg {
	tb.Helper()
	p := g.params(tb, "alice")
	if change != nil {
		change(&p)
	}
	if err := s.Open(tb.Context(), p); err != nil {
		tb.Fatal(err)
	}
	l := &leg{tb: tb, conn: testkit.Receive(tb, "the agent to dial", g.legs)}
	l.conn.SetReadLimit(agentwire.MaxTerminalMessage)
	tb.Cleanup(func() { _ = l.conn.CloseNow() })
	l.until("session_ready", func() bool { return len(l.frames) == 1 && l.frames[0].Type == agentwire.FrameReady })
	return l
}

func (l *leg) read() error {
	l.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kind, data, err := l.conn.Read(ctx)
	if err != nil {
		if ctx.Err() != nil {
			l.tb.Fatalf("nothing came; so far %q and %+v", l.shown.String(), l.frames)
		}
		l.status = websocket.CloseStatus(err)
		return err
	}
	if kind == websocket.MessageBinary {
		l.shown.Write(data)
		return nil
	}
	frame, err := agentwire.DecodeTerminalFrame(data)
	if err != nil {
		l.tb.Fatal(err)
	}
	l.frames = append(l.frames, frame)
	return nil
}

func (l *leg) until(what string, holds func() bool) {
	l.tb.Helper()
	for !holds() {
		if err := l.read(); err != nil {
			l.tb.Fatalf("%v before %s; shown %q, frames %+v", err, what, l.shown.String(), l.frames)
		}
	}
}

// shows reads until the terminal has shown a text.
func (l *leg) shows(want string) {
	l.tb.Helper()
	l.until(fmt.Sprintf("%q was shown", want), func() bool { return strings.Contains(l.shown.String(), want) })
}

func (l *leg) types(text string) { l.send(websocket.MessageBinary, []byte(text)) }

func (l *leg) control(f agentwire.TerminalFrame) { l.send(websocket.MessageText, f.Encode()) }

func (l *leg) send(kind websocket.MessageType, data []byte) {
	l.tb.Helper()
	if err := l.conn.Write(l.tb.Context(), kind, data); err != nil {
		l.tb.Fatal(err)
	}
}

// ends reads to the end and returns the last frame.
func (l *leg) ends() agentwire.TerminalFrame {
	l.tb.Helper()
	for l.read() == nil {
	}
	return l.frames[len(l.frames)-1]
}
