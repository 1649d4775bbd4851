package node_test

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
)

// world is a control plane with nothing but nodes in it.
type world struct {
	db, owner  *postgres.DB
	pki        *pki
	service    *node.Service
	api        *httpapi.API
	mu         sync.Mutex
	skew       time.Duration // of the clock of the service
	deaf       bool          // the listener cannot answer
	onRevoked  func(ctx context.Context, tx pgx.Tx, node id.Node) error
	onDoubt    func(ctx context.Context, tx pgx.Tx, node id.Node, reason string) error
	onHostKeys func(ctx context.Context, tx pgx.Tx, node id.Node, keys node.HostKeys) error
	onReport   func(ctx context.Context, node id.Node, generation int64, c agentwire.Capabilities) error
}

func newWorld(tb testing.TB, settings ...node.Settings) *world {
	tb.Helper()
	w := &world{pki: &pki{}}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	cfg := node.Config{
		DB: w.db, PKI: w.pki, Bootstrap: renderer{}, Clock: w.now,
		Listening: func() bool { return !w.deaf },
	}
	cfg.OnRevoked = func(ctx context.Context, tx pgx.Tx, node id.Node) error {
		if w.onRevoked == nil {
			return nil
		}
		return w.onRevoked(ctx, tx, node)
	}
	cfg.OnDoubt = func(ctx context.Context, tx pgx.Tx, node id.Node, reason string) error {
		if w.onDoubt == nil {
			return nil
		}
		return w.onDoubt(ctx, tx, node, reason)
	}
	cfg.OnHostKeys = func(ctx context.Context, tx pgx.Tx, of id.Node, keys node.HostKeys) error {
		if w.onHostKeys == nil {
			return nil
		}
		return w.onHostKeys(ctx, tx, of, keys)
	}
	cfg.OnReport = func(ctx context.Context, of id.Node, generation int64, c agentwire.Capabilities) error {
		if w.onReport == nil {
			return nil
		}
		return w.onReport(ctx, of, generation, c)
	}
	if len(settings) > 0 {
		cfg.Settings = settings[0]
	}
	w.service = node.New(cfg)
	w.reopen()
	return w
}

// reopen serves the API of the service that is there now.
func (w *world) reopen() {
	w.api = httpapitest.New(w.db)
	w.service.Register(w.api)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.skew)
}

func (w *world) later(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew += d
}

// renderer stands for the node-facing listener.
type renderer struct{}

func (renderer) Command(token redact.Secret) (redact.Secret, error) {
	return redact.New("bootstrap with " + token.Reveal()), nil
}

func (renderer) CloudInit(_ context.Context, token redact.Secret) (redact.Secret, error) {
	return redact.New("#cloud-config\n" + token.Reveal()), nil
}

func (renderer) CAFingerprint() string { return "ab12" }

// pki is the CA, with failures of the test's choice.
type pki struct {
	mu      sync.Mutex
	revoked []string
	failure error
	of      map[string]error // of single serials
}

func (p *pki) RevokeCertificate(_ context.Context, serial string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmp.Or(p.failure, p.of[serial]); err != nil {
		return err
	}
	p.revoked = append(p.revoked, serial)
	return nil
}

const nodes = "/api/v1/admin/nodes"

type object = map[string]any

// call sends one request as the platform administrator.
func (w *world) call(tb testing.TB, method, path, ifMatch string, body any) httpapitest.Answer {
	tb.Helper()
	return w.callAs(tb, httpapitest.Root, method, path, ifMatch, body)
}

func (w *world) callAs(tb testing.TB, token, method, path, ifMatch string, body any) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{
		As: token, Method: method, Path: nodes + path, IfMatch: ifMatch, Body: body,
	})
}

func system(tb testing.TB) context.Context {
	tb.Helper()
	return auth.With(telemetry.WithCorrelation(tb.Context(), "test"), auth.System("test"))
}

const someSKU = "h200-sxm-baremetal-8g"

// make adds a node that waits for its bootstrap.
func (w *world) make(tb testing.TB, hostname string) (node.Node, redact.Secret) {
	tb.Helper()
	n, token, err := w.service.Create(system(tb), node.NewNode{Hostname: hostname, SKU: someSKU, RegionCode: "eu-1"})
	if err != nil {
		tb.Fatal(err)
	}
	return n, token.Plain
}

var (
	release  = agentwire.Build{Version: "1.0.0", Commit: "abc123"}
	anything = agentwire.Capabilities{Facts: map[string]string{"gpu.vendor": "none"}, CPUs: 4}
)

// agent is what a machine needs to talk to the control plane.
type agent struct {
	w    *world
	node id.Node
	node.Presented
	key string
}

// enrol makes a node and brings its agent as far as its certificate.
func (w *world) enrol(tb testing.TB, hostname string) *agent {
	tb.Helper()
	n, token := w.make(tb, hostname)
	a := &agent{
		w: w, node: n.ID, key: "key-" + hostname,
		Presented: node.Presented{Node: n.ID, Instance: "machine-" + hostname, Session: "first"},
	}
	if err := a.begin(tb, token); err != nil {
		tb.Fatal(err)
	}
	a.certify(tb, false)
	return a
}

func (a *agent) begin(tb testing.TB, token redact.Secret) error {
	tb.Helper()
	_, err := a.w.service.BeginEnrolment(tb.Context(), token, a.key, a.Instance, "host", release, anything, nil)
	return err
}

func (a *agent) certify(tb testing.TB, renewed bool) {
	tb.Helper()
	askedWith := ""
	if renewed {
		askedWith = a.Serial
	}
	a.Serial = strings.ReplaceAll(id.NewString(), "-", "")
	cert := node.Cert{Serial: a.Serial, KeyFingerprint: a.key, NotAfter: time.Now().Add(24 * time.Hour)}
	if err := a.w.service.RecordCertificate(tb.Context(), a.node, cert, askedWith); err != nil {
		tb.Fatal(err)
	}
}

// poll is one call of the agent, under a session.
func (a *agent) poll(tb testing.TB, session string) error {
	tb.Helper()
	p := a.Presented
	p.Session = session
	who, err := a.w.service.Authorize(tb.Context(), p)
	if err != nil {
		return err
	}
	a.w.service.Contacts().Note(who.Node, agentwire.Vitals{})
	return a.w.service.Polled(tb.Context(), who)
}

// active is a node in service.
func (w *world) active(tb testing.TB, hostname string) *agent {
	tb.Helper()
	a := w.enrol(tb, hostname)
	if err := a.poll(tb, a.Session); err != nil {
		tb.Fatal(err)
	}
	return a
}

func (w *world) read(tb testing.TB, n id.Node) node.Node {
	tb.Helper()
	found, err := w.service.Node(tb.Context(), n)
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

func (w *world) count(tb testing.TB, query string, args ...any) (n int64) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) told(tb testing.TB, n id.Node, event string) int64 {
	tb.Helper()
	return w.count(tb, `SELECT count(*) FROM outbox_events WHERE event_type = $1 AND aggregate_id = $2`, event, n.String())
}

func (w *world) audited(tb testing.TB, n id.Node, action string) int64 {
	tb.Helper()
	return w.count(tb, `SELECT count(*) FROM audit_logs WHERE action = $1 AND target_id = $2`, action, n.String())
}

func wantCode(tb testing.TB, err error, kind fault.Kind, code string) {
	tb.Helper()
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code {
		tb.Errorf("failure is %v, want %s %s", err, kind, code)
	}
}
