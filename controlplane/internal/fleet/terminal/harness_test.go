package terminal_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/terminal"
	"gpuaas/testkit"
)

const (
	patience   = 20 * time.Second
	nodeHeader = "X-Test-Node" // stands for the certificate of a node
)

// world is a control plane with nothing but terminals in it.
type world struct {
	db      *postgres.DB
	clock   *clock
	service *terminal.Service
	queue   *agenttask.Queue
	public  *httptest.Server
	nodes   *httptest.Server
	node    id.Node
	people  *people
	recheck time.Duration
	limits  httpapi.Limits
	log     *logged
	visits  visits
}

func newWorld(tb testing.TB, change func(*terminal.Settings)) *world {
	tb.Helper()
	w := &world{db: postgrestest.New(tb), clock: &clock{at: time.Now().Truncate(time.Millisecond)}, log: &logged{}}
	w.limits = httpapi.Limits{RequestsPerSecond: 10_000, Burst: 10_000}
	w.people, w.recheck = &people{tokens: map[id.Token]string{}, gone: map[string]bool{}, roles: map[string]auth.Role{}},
		10*time.Millisecond
	w.queue = agenttask.New(agenttask.QueueConfig{DB: w.db, Signer: newSigner(tb)})
	w.nodes = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n, err := id.Parse[id.Node](r.Header.Get(nodeHeader))
		if err != nil {
			tb.Error(err)
		}
		_, session, _ := strings.Cut(r.URL.Path, "/internal/ws/terminal/")
		r.SetPathValue("session_id", session)
		w.service.ServeNode(rw, r, n)
	}))
	tb.Cleanup(w.nodes.Close)
	w.service = w.replica(change)
	w.public = w.serve(tb, w.service)
	w.node = w.addNode(tb, "active")
	return w
}

// replica is a control plane process on the same database.
func (w *world) replica(change func(*terminal.Settings)) *terminal.Service {
	settings := terminal.Settings{GatewayURL: w.nodes.URL, Stall: patience, MintsPerMinute: 1000}
	if change != nil {
		change(&settings)
	}
	return terminal.New(terminal.Config{
		DB: w.db, Tasks: agenttask.Commands{DB: w.db}, Holders: w.people, Visits: &w.visits, Settings: settings,
		Clock:  w.clock.now,
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	})
}

func (w *world) serve(tb testing.TB, s *terminal.Service) *httptest.Server {
	tb.Helper()
	api := httpapi.New(httpapi.Config{
		Title: "t", Version: "1", DB: w.db, Auth: w.people, Limits: w.limits,
		Recheck: w.recheck,
		Logger:  slog.New(slog.NewTextHandler(w.log, nil)),
	})
	s.Register(api)
	server := httptest.NewServer(api.Handler())
	tb.Cleanup(server.Close)
	return server
}

// people are known by the name they bring as a token.
type people struct {
	mu     sync.Mutex
	tokens map[id.Token]string
	gone   map[string]bool // who is no longer let in
	roles  map[string]auth.Role
}

func (p *people) Authenticate(_ context.Context, token redact.Secret) (*auth.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := token.Reveal()
	who := &auth.Principal{Kind: auth.KindUser, ID: "id-of-" + name, Name: name, Token: id.New[id.Token]()}
	switch {
	case p.gone[name]:
		return nil, errGone
	case p.roles[name] != "":
		who.Platform = p.roles[name]
	case strings.HasPrefix(name, "admin"):
		who.Platform = auth.PlatformAdmin
	case name == "auditor":
		who.Platform = auth.Auditor
	default:
		return nil, errGone
	}
	p.tokens[who.Token] = name
	return who, nil
}

func (p *people) Reauthenticate(ctx context.Context, token id.Token) (*auth.Principal, error) {
	p.mu.Lock()
	name := p.tokens[token]
	p.mu.Unlock()
	return p.Authenticate(ctx, redact.New(name))
}

// lose has somebody no longer let in.
func (p *people) lose(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone[name] = true
}

func (w *world) addNode(tb testing.TB, status string) id.Node {
	tb.Helper()
	n := id.New[id.Node]()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, $2, $3, '10.0.0.1', 'h200-sxm-slice', 8, 'eu-1', 'manual')`, n, status, "n-"+n.String())
	return n
}

func (w *world) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	if _, err := w.db.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatal(err)
	}
}

// texts reads one column of text.
func (w *world) texts(tb testing.TB, sql string, args ...any) []string {
	tb.Helper()
	rows, err := w.db.Query(tb.Context(), sql, args...)
	if err != nil {
		tb.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// audit lists what was recorded of a session: action, result, reason, actor.
func (w *world) audit(tb testing.TB, session string) []string {
	tb.Helper()
	return w.texts(tb,
		`SELECT action || ' ' || result || ' ' || reason || ' by ' || actor_id FROM audit_logs WHERE target_id = $1 ORDER BY seq`, session)
}

func (w *world) events(tb testing.TB, session string) []string {
	tb.Helper()
	return w.texts(tb,
		`SELECT event_type || ' ' || coalesce(envelope->'payload'->>'reason', '') FROM outbox_events WHERE aggregate_id = $1 ORDER BY seq`, session)
}

func (w *world) wants(tb testing.TB, session string, status terminal.Status, reason string) terminal.Session {
	tb.Helper()
	sid, err := id.Parse[id.TerminalSession](session)
	if err != nil {
		tb.Fatal(err)
	}
	var now terminal.Session
	testkit.Eventually(tb, fmt.Sprintf("session to be %s (%s)", status, reason), func() bool {
		now, err = terminal.Get(tb.Context(), w.db, sid)
		if err != nil {
			tb.Fatal(err)
		}
		return now.Status == status
	})
	if now.CloseReason != reason {
		tb.Errorf("the session is %s because of %q, want %q", now.Status, now.CloseReason, reason)
	}
	return now
}

type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
}

// ask calls the API and reads the answer into out, or gives the problem.
func (w *world) ask(tb testing.TB, who, method, path string, in, out any) problem {
	tb.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := http.NewRequestWithContext(tb.Context(), method, w.public.URL+path, bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+who)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		tb.Fatal(err)
	}
	if answer.StatusCode < 300 {
		if err := json.Unmarshal(raw, out); err != nil {
			tb.Fatal(err)
		}
		return problem{}
	}
	var p problem
	if err := json.Unmarshal(raw, &p); err != nil {
		tb.Fatalf("%s: %s", answer.Status, raw)
	}
	return p
}

type token struct {
	SessionID     string    `json:"session_id"`
	Token         string    `json:"token"`
	WebsocketPath string    `json:"websocket_path"`
	ExpiresAt     time.Time `json:"expires_at"`
}

func (w *world) mint(tb testing.TB) token {
	tb.Helper()
	var t token
	p := w.ask(tb, "admin", http.MethodPost, "/api/v1/admin/nodes/"+w.node.String()+"/terminal-token",
		map[string]any{"username": "alice", "columns": 100, "rows": 30}, &t)
	if p.Code != "" {
		tb.Fatal(p)
	}
	return t
}

// end is one end of a session, as the test holds it.
type end struct {
	tb     testing.TB
	conn   *websocket.Conn
	shown  bytes.Buffer
	frames []agentwire.TerminalFrame
	status websocket.StatusCode
}

func (w *world) dialUser(tb testing.TB, path string, protocols []string, header http.Header) (
	*end, *http.Response, error,
) {
	tb.Helper()
	conn, answer, err := websocket.Dial(tb.Context(), "ws"+strings.TrimPrefix(w.public.URL, "http")+path,
		&websocket.DialOptions{Subprotocols: protocols, HTTPHeader: header})
	if err != nil {
		return nil, answer, err
	}
	tb.Cleanup(func() { _ = conn.CloseNow() })
	return &end{tb: tb, conn: conn}, answer, nil
}

// user connects with a token as a browser does.
func (w *world) user(tb testing.TB, t token) *end {
	tb.Helper()
	e, _, err := w.dialUser(tb, t.WebsocketPath, []string{agentwire.TerminalProtocol, agentwire.TerminalBearer + t.Token},
		nil)
	if err != nil {
		tb.Fatal(err)
	}
	if e.conn.Subprotocol() != agentwire.TerminalProtocol {
		tb.Errorf("the subprotocol is %q", e.conn.Subprotocol())
	}
	return e
}

// dialNode connects as a node does.
func (w *world) dialNode(tb testing.TB, node id.Node, session string) (*end, problem) {
	tb.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	conn, answer, err := websocket.Dial(tb.Context(), "wss"+strings.TrimPrefix(w.nodes.URL, "https")+
		"/internal/ws/terminal/"+session,
		&websocket.DialOptions{
			HTTPClient: client, Subprotocols: []string{agentwire.TerminalProtocol},
			HTTPHeader: http.Header{nodeHeader: {node.String()}},
		})
	if err != nil {
		var p problem
		if answer == nil || json.NewDecoder(answer.Body).Decode(&p) != nil {
			tb.Fatal(err)
		}
		return nil, p
	}
	tb.Cleanup(func() { _ = conn.CloseNow() })
	return &end{tb: tb, conn: conn}, problem{}
}

// both opens a session with a node that the test plays.
func (w *world) both(tb testing.TB) (token, *end, *end) {
	tb.Helper()
	return w.bothOn(tb, func(string) {})
}

// bothOn is both, with something done to the session before anybody connects.
func (w *world) bothOn(tb testing.TB, before func(session string)) (token, *end, *end) {
	tb.Helper()
	t := w.mint(tb)
	before(t.SessionID)
	user := w.user(tb, t)
	w.wants(tb, t.SessionID, terminal.Opening, "")
	node, p := w.dialNode(tb, w.node, t.SessionID)
	if p.Code != "" {
		tb.Fatal(p)
	}
	node.control(agentwire.TerminalFrame{Type: agentwire.FrameReady, SessionID: t.SessionID})
	user.until("session_ready", func() bool {
		return len(user.frames) == 1 &&
			user.frames[0].Type == agentwire.FrameReady
	})
	return t, user, node
}

func (e *end) read() error {
	e.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kind, data, err := e.conn.Read(ctx)
	if err != nil {
		if ctx.Err() != nil {
			e.tb.Fatalf("nothing came; so far %q and %+v", e.shown.String(), e.frames)
		}
		e.status = websocket.CloseStatus(err)
		return err
	}
	if kind == websocket.MessageBinary {
		e.shown.Write(data)
		return nil
	}
	frame, err := agentwire.DecodeTerminalFrame(data)
	if err != nil {
		e.tb.Fatal(err)
	}
	e.frames = append(e.frames, frame)
	return nil
}

func (e *end) until(what string, holds func() bool) {
	e.tb.Helper()
	for !holds() {
		if err := e.read(); err != nil {
			e.tb.Fatalf("%v before %s; shown %q, frames %+v", err, what, e.shown.String(), e.frames)
		}
	}
}

func (e *end) shows(want string) {
	e.tb.Helper()
	e.until(fmt.Sprintf("%q was shown", want), func() bool { return strings.Contains(e.shown.String(), want) })
}

func (e *end) sends(text string) { e.send(websocket.MessageBinary, []byte(text)) }

func (e *end) control(f agentwire.TerminalFrame) { e.send(websocket.MessageText, f.Encode()) }

func (e *end) send(kind websocket.MessageType, data []byte) {
	e.tb.Helper()
	if err := e.conn.Write(e.tb.Context(), kind, data); err != nil {
		e.tb.Fatal(err)
	}
}

// ends reads to the end and gives the last frame and the close code.
func (e *end) ends() (agentwire.TerminalFrame, websocket.StatusCode) {
	e.tb.Helper()
	for e.read() == nil {
	}
	if len(e.frames) == 0 {
		return agentwire.TerminalFrame{}, e.status
	}
	return e.frames[len(e.frames)-1], e.status
}

type signer struct{ key ed25519.PrivateKey }

func newSigner(tb testing.TB) *signer {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return &signer{private}
}

func (s *signer) SignEnvelope(_ context.Context, e *agentwire.Envelope) error {
	e.SignerVersion = "s1"
	signed, err := e.SignedBytes()
	e.Signature = ed25519.Sign(s.key, signed)
	return err
}

// task fetches the next task of the node, as its agent would.
func (w *world) task(tb testing.TB) *agentwire.Envelope {
	tb.Helper()
	var e *agentwire.Envelope
	testkit.Eventually(tb, "a task", func() bool {
		var err error
		if e, err = w.queue.Wait(tb.Context(), w.node, 1, 0); err != nil {
			tb.Fatal(err)
		}
		return e != nil
	})
	return e
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
