package agentgateway_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
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
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/controlplane/internal/fleet/agentgateway"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/signer"
	"gpuaas/stack/stacktest"
)

const (
	domain  = "test.example.com"
	version = "1.2.3"
)

// journal is a log that tests can read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// plane is a control plane as nodes see it: real database, real queue, signers
// and inventory, and a secrets engine that is real or makes mistakes.
type plane struct {
	db       *postgres.DB
	nodes    *node.Service
	queue    *agenttask.Queue
	tasks    agenttask.Commands
	signer   *signer.Service
	trust    *agentgateway.Trust
	renderer *agentgateway.Renderer
	packages *agentgateway.Packages
	releases released
	gateway  *agentgateway.Gateway
	url      string
	folder   string
	roots    *x509.CertPool
	log      *journal
	ctx      context.Context // of an administrator
	stop     func() error

	mu    sync.Mutex
	ahead time.Duration
}

type secretsEngine interface {
	agentgateway.PKI
	signer.Keys
	node.PKI
}

type option func(*agentgateway.Config)

// openBao is the real secrets engine.
func openBao(tb testing.TB) *secrets.Engine {
	tb.Helper()
	bao := stacktest.Bao(tb)
	e, err := secrets.Open(secrets.Config{
		Address: bao.Address, RoleIDFile: bao.RoleIDFile, SecretIDFile: bao.SecretIDFile,
		KVMount: "gpuaas-kv",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func (p *plane) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.ahead)
}

func (p *plane) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead += d
}

func agentFolder(tb testing.TB, versions ...string) string {
	tb.Helper()
	folder := tb.TempDir()
	for _, v := range versions {
		if err := os.MkdirAll(filepath.Join(folder, v), 0o755); err != nil {
			tb.Fatal(err)
		}
		for _, name := range []string{"gpuaas-agent", "gpuaas-gpu"} {
			if err := os.WriteFile(filepath.Join(folder, v, name), []byte("#!/bin/sh\n# "+name+" "+v+"\necho \"$0 $*\"\n"),
				0o755); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return folder
}

func newPlane(tb testing.TB, pki secretsEngine, options ...option) *plane {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &plane{
		db: postgrestest.New(tb), url: "https://" + listener.Addr().String(), folder: agentFolder(tb, version),
		log: &journal{},
	}
	logger := slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p.ctx = auth.With(tb.Context(), &auth.Principal{
		Kind: auth.KindUser, ID: "u1", Name: "op",
		Platform: auth.PlatformAdmin,
	})
	p.trust = agentgateway.NewTrust(agentgateway.TrustConfig{
		PKI: pki, Names: []string{"127.0.0.1", "gateway.example.com"},
		Logger: logger, Clock: p.now, Bundle: p.bundle,
	})
	p.renderer = agentgateway.NewRenderer(p.url, p.trust)
	p.nodes = node.New(node.Config{DB: p.db, PKI: pki, Bootstrap: p.renderer, Clock: p.now, Logger: logger})
	p.signer = signer.New(signer.Config{
		DB: p.db, Keys: pki, Fleet: p.nodes, Distribute: func(context.Context, pgx.Tx, agentwire.VerifierSet,
			string,
		) error {
			return nil
		}, Clock: p.now,
		Listening: p.trust.Fits, Logger: logger,
	})
	if err := p.signer.Ensure(p.ctx); err != nil {
		tb.Fatal(err)
	}
	p.packages = p.packagesOf(p.folder, "")
	p.queue = agenttask.New(agenttask.QueueConfig{DB: p.db, Signer: p.signer, Logger: logger})
	p.tasks = agenttask.Commands{DB: p.db}
	cfg := agentgateway.Config{
		DB: p.db, Nodes: p.nodes, Contacts: p.nodes.Contacts(), Tasks: p.queue, Signer: p.signer, Trust: p.trust,
		Renderer: p.renderer,
		Packages: p.packages, Logger: logger, Clock: p.now,
		Settings: agentgateway.Settings{TrustDomain: domain, Environment: "test", CertificateTTL: 24 * time.Hour},
	}
	for _, o := range options {
		o(&cfg)
	}
	p.gateway = agentgateway.New(cfg)
	p.serve(tb, listener)
	return p
}

func (p *plane) packagesOf(folder, version string) *agentgateway.Packages {
	return agentgateway.NewPackages(agentgateway.PackagesConfig{
		Folder: folder, Version: version, Trust: p.trust, Signer: p.signer, Releases: &p.releases,
	})
}

// released are releases that need no database.
type released struct{ archives map[string][]byte }

// Digest implements agentgateway.Releases.
func (r *released) Digest(_ context.Context, version string) (string, error) {
	if version == "6.6.6" {
		return "", fault.New(fault.Conflict, "agent_version_blocked", "blocked")
	}
	if archive, ok := r.archives[version]; ok {
		sum := sha256.Sum256(archive)
		return hex.EncodeToString(sum[:]), nil
	}
	return "", nil
}

// Archive implements agentgateway.Releases.
func (r *released) Archive(_ context.Context, digest string) ([]byte, error) {
	for _, archive := range r.archives {
		if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) == digest {
			return archive, nil
		}
	}
	return nil, fault.New(fault.NotFound, "blob_missing", "missing")
}

// Programs implements agentgateway.Releases.
func (r *released) Programs(_ context.Context, version string) (map[string]string, error) {
	if _, ok := r.archives[version]; ok {
		return map[string]string{"gpuaas-agent": "aa"}, nil
	}
	return nil, nil
}

func (p *plane) bundle(ctx context.Context, listenerCA string) (string, error) {
	b, err := p.signer.Bundle(ctx, listenerCA)
	return b.PEM, err
}

func (p *plane) serve(tb testing.TB, listener net.Listener) {
	tb.Helper()
	if err := p.trust.Refresh(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	p.roots = x509.NewCertPool()
	p.roots.AppendCertsFromPEM([]byte(p.trust.ServerPEM()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	var queue sync.WaitGroup
	queue.Go(func() { p.queue.Run(ctx) })
	go func() { done <- p.gateway.Serve(ctx, listener) }()
	p.stop = sync.OnceValue(func() error {
		cancel()
		queue.Wait()
		return <-done
	})
	tb.Cleanup(func() {
		if err := p.stop(); err != nil {
			tb.Errorf("serve: %v", err)
		}
		if tb.Failed() {
			tb.Log(p.log.String())
		}
	})
}

// newNode is a node that nobody has enrolled yet, with its token.
func (p *plane) newNode(tb testing.TB, hostname string) (node.Node, redact.Secret) {
	tb.Helper()
	n, token, err := p.nodes.Create(p.ctx, node.NewNode{Hostname: hostname, SKU: "h200-sxm-slice", RegionCode: "r1"})
	if err != nil {
		tb.Fatal(err)
	}
	return n, token.Plain
}

func (p *plane) status(tb testing.TB, n id.Node) node.Status {
	tb.Helper()
	got, err := p.nodes.Node(p.ctx, n)
	if err != nil {
		tb.Fatal(err)
	}
	return got.Status
}

func (p *plane) enqueue(tb testing.TB, n id.Node, typ string, params any) agenttask.Task {
	tb.Helper()
	var t agenttask.Task
	err := p.db.InTx(p.ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		t, err = p.tasks.Enqueue(ctx, tx, agenttask.Request{Node: n, Type: typ, Params: params})
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// agent is the client side, in plain net/http.
type agent struct {
	tb                testing.TB
	p                 *plane
	node              id.Node
	key               *ecdsa.PrivateKey
	issued            agentwire.EnrollResponse
	instance, session string
	client            *http.Client
}

func (p *plane) client(cert *tls.Certificate) *http.Client {
	cfg := &tls.Config{RootCAs: p.roots, MinVersion: tls.VersionTLS13}
	if cert != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}
}

// enrolled is a node with a certificate that has not polled yet.
func (p *plane) enrolled(tb testing.TB, hostname string) *agent {
	tb.Helper()
	n, token := p.newNode(tb, hostname)
	a := &agent{
		tb: tb, p: p, node: n.ID, key: newKey(tb), instance: "machine-" + hostname, session: "session-1",
		client: p.client(nil),
	}
	a.enroll(token).want(http.StatusOK, "").into(&a.issued)
	a.use(a.issued.Certificate)
	return a
}

// active is a node that has polled.
func (p *plane) active(tb testing.TB, hostname string) *agent {
	tb.Helper()
	a := p.enrolled(tb, hostname)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	return a
}

func (a *agent) enroll(token redact.Secret) reply { return a.enrollOn(token, nil) }

// enrollOn enrols with what the agent says of its machine.
func (a *agent) enrollOn(token redact.Secret, said *agentwire.Hardware) reply {
	return a.send(http.MethodPost, agentwire.PathEnroll, "", agentwire.EnrollRequest{
		CSR: requestFor(a.tb, a.key), Hostname: "host", Instance: a.instance,
		Build: agentwire.Build{Version: version, Commit: "abc"}, Hardware: said,
	}, "Authorization", "Bearer "+token.Reveal())
}

// use makes a certificate that of the agent.
func (a *agent) use(certificate string) {
	block, _ := pem.Decode([]byte(certificate))
	if block == nil {
		a.tb.Fatalf("no certificate in %q", certificate)
	}
	a.client.CloseIdleConnections()
	a.client = a.p.client(pair(a.key, block.Bytes))
}

func (a *agent) get(path, query string) reply { return a.send(http.MethodGet, path, query, nil) }

func (a *agent) post(path string, body any) reply { return a.send(http.MethodPost, path, "", body) }

// reply is an answer.
type reply struct {
	tb     testing.TB
	what   string
	status int
	header http.Header
	body   []byte
	err    error
}

func (a *agent) send(method, path, query string, body any, headers ...string) reply {
	a.tb.Helper()
	return a.sendIn(a.tb.Context(), method, path, query, body, headers...)
}

func (a *agent) sendIn(ctx context.Context, method, path, query string, body any, headers ...string) reply {
	a.tb.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			a.tb.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	address := a.p.url + strings.ReplaceAll(path, "{node_id}", a.node.String())
	if query != "" {
		address += "?" + query
	}
	r, err := http.NewRequestWithContext(ctx, method, address, in)
	if err != nil {
		a.tb.Fatal(err)
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set(agentwire.HeaderAgentInstance, a.instance)
	r.Header.Set(agentwire.HeaderAgentSession, a.session)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	out := reply{tb: a.tb, what: method + " " + path}
	w, err := a.client.Do(r)
	if err != nil {
		out.err = err
		return out
	}
	defer w.Body.Close()
	out.status, out.header = w.StatusCode, w.Header
	out.body, out.err = io.ReadAll(w.Body)
	return out
}

// want checks status and, for refusals, the code of the problem document.
func (r reply) want(status int, code string) reply {
	r.tb.Helper()
	if r.err != nil {
		r.tb.Fatalf("%s: %v", r.what, r.err)
	}
	var p agentwire.Problem
	if status >= http.StatusBadRequest {
		if err := json.Unmarshal(r.body, &p); err != nil || r.header.Get("Content-Type") != "application/problem+json" ||
			p.CorrelationID == "" {
			r.tb.Fatalf("%s: not a problem document: %d %s", r.what, r.status, r.body)
		}
	}
	if r.status != status || p.Code != code {
		r.tb.Fatalf("%s: got %d %s, want %d %s", r.what, r.status, r.body, status, code)
	}
	return r
}

func (r reply) into(v any) {
	r.tb.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		r.tb.Fatalf("%s: %v: %s", r.what, err, r.body)
	}
}
