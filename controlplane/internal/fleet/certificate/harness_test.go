package certificate_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	wire "gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/certificate"
)

// engine is a secrets engine in a map, for saying what goes wrong and when.
type engine struct {
	mu       sync.Mutex
	held     map[string]ed25519.PrivateKey
	fail     error
	signing  func() // called before each signature
	signings int
}

func (e *engine) CreateSigningKey(_ context.Context, name string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, e.fail
	}
	if e.held[name] == nil {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		e.held[name] = private
	}
	return e.held[name].Public().(ed25519.PublicKey), nil
}

func (e *engine) Sign(_ context.Context, name string, message []byte) ([]byte, error) {
	if e.signing != nil {
		e.signing()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.signings++
	if e.fail != nil || e.held[name] == nil {
		return nil, errors.Join(e.fail, errors.New("no such key: "+name))
	}
	return ed25519.Sign(e.held[name], message), nil
}

// world is a control plane with nothing but certificates in it, and a node.
type world struct {
	db      *postgres.DB
	engine  *engine
	service *certificate.Service
	ctx     context.Context
	node    id.Node
	clock   time.Time
	api     *httpapi.API
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{
		db: postgrestest.New(tb), engine: &engine{held: map[string]ed25519.PrivateKey{}},
		clock: time.Date(2026, 3, 4, 5, 20, 0, 123456789, time.UTC),
	}
	w.ctx = auth.With(tb.Context(), auth.System("decommission"))
	w.service = w.replica(w.engine)
	w.node = w.newNode(tb, "c07u31")
	w.api = httpapitest.New(w.db)
	w.service.Register(w.api)
	return w
}

// replica is another process on the same database.
func (w *world) replica(e certificate.Engine) *certificate.Service {
	return certificate.New(certificate.Config{
		DB: w.db, Engine: e, Issuer: "dc1",
		Clock: func() time.Time { return w.clock },
	})
}

// newNode puts a node into the inventory; what is in it does not matter here.
func (w *world) newNode(tb testing.TB, hostname string) id.Node {
	tb.Helper()
	node := id.New[id.Node]()
	_, err := w.db.Exec(tb.Context(), `INSERT INTO nodes (id, status, hostname, host, port, sku_id, gpus_total, region_code, onboarding_mode, ssh_username, awaited_by)
		VALUES ($1, 'active', $2, $2, 22, (SELECT id FROM skus ORDER BY id LIMIT 1), 0, 'eu-1', 'manual', '', '')`, node.String(), hostname)
	if err != nil {
		tb.Fatal(err)
	}
	return node
}

// draft is what a soft reset has to say.
func (w *world) draft() certificate.Draft {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	evidence := []wire.Evidence{{Seq: 3, Stage: "scrub_gpu", Kind: "gpu_scrub", Digest: "sha256:" +
		strings.Repeat("ab", 32)}}
	return certificate.Draft{
		Kind: wire.HandoverReceipt, Decommission: id.New[id.Decommission](), Node: w.node,
		Body: wire.Document{
			Node: wire.Node{Hostname: "c07u31", SKU: "h200", Region: "eu-1"},
			Operation: wire.Operation{
				Mode: "soft_reset", Reason: `next <tenant> & "more" ü`, RequestedBy: "Ada", RequestedAt: at, StartedAt: at,
				EndedAt: at.Add(time.Minute),
			},
			Subjects: []wire.Subject{{
				Kind: "gpu", Identifier: "GPU-1", ObservedBy: wire.Agent, Outcome: wire.Sanitized, Method: "overwrite_verify_zero",
				Level:        wire.Clear,
				CoveredBytes: 995, TotalBytes: 1000, Verification: wire.Verification{
					How: "read back", BytesRead: 995, Samples: 1,
					Result: wire.Passed,
				},
				Tool: "gpuaas-gpu", ToolVersion: "1", StartedAt: at, EndedAt: at.Add(time.Second), Evidence: evidence,
			}},
			Validation: &wire.Validation{
				At: at, ObservedBy: wire.Agent, Clean: true,
				Looked: []wire.Look{{Kind: "users", Result: "clean"}}, Evidence: evidence,
			},
		},
	}
}

func (w *world) issue(tb testing.TB, d certificate.Draft) certificate.Issued {
	tb.Helper()
	issued, err := w.service.Issue(w.ctx, d)
	if err != nil {
		tb.Fatal(err)
	}
	return issued
}

// file is a signed file that verifies.
func (w *world) file(tb testing.TB, certificateID id.Certificate) *wire.Signed {
	tb.Helper()
	raw, err := w.service.Signed(w.ctx, certificateID)
	if err != nil {
		tb.Fatal(err)
	}
	keys, err := w.service.Keys(w.ctx)
	if err != nil {
		tb.Fatal(err)
	}
	signed, err := wire.Verify(raw, keys)
	if err != nil {
		tb.Fatal(err)
	}
	return signed
}

// trace is everything that issuing leaves behind.
type trace struct{ rows, audits, events int }

func (w *world) trace(tb testing.TB) trace {
	tb.Helper()
	var t trace
	err := w.db.QueryRow(tb.Context(), `SELECT (SELECT count(*) FROM decommission_certificates),
		(SELECT count(*) FROM audit_logs WHERE action = 'certificate.issue'),
		(SELECT count(*) FROM outbox_events WHERE event_type = 'node.certificate.issued')`).Scan(&t.rows, &t.audits, &t.events)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func (w *world) get(tb testing.TB, token, path string) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{
		As: token, Method: http.MethodGet, Path: "/api/v1" + path,
	})
}
