// Package planetest is a control plane for tests of the agent: real TLS with
// client certificates, real signatures, and every fault on request. Tests can
// see what it hands out and what it is told.
package planetest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gpuaas/agent/internal/config"
	"gpuaas/contract/agentwire"
)

// Node is the id of the one node that the plane knows.
const Node = "01890000-0000-7000-8000-000000000001"

// Signer is the id of the key that tasks are signed with.
const Signer = "signer-1"

// Plane is the control plane.
type Plane struct {
	tb       testing.TB
	address  string
	server   authority // issues the certificate of the plane
	nodes    authority // issues node certificates
	identity tls.Certificate
	signer   ed25519.PrivateKey
	thief    bool // an attacker who has the key of the listener

	mu         sync.Mutex
	http       *http.Server
	crash      context.CancelFunc // ends what that server is at
	changed    chan struct{}      // closed and replaced whenever something happens
	tokens     map[string]string
	queue      []agentwire.Envelope
	results    map[string][]agentwire.ResultRequest
	progress   map[string][]agentwire.ProgressRequest
	reports    []agentwire.Report
	hostKeys   [][]string
	polls      int
	sessions   map[string]bool
	serials    map[string]bool
	refuse     func(*http.Request) *agentwire.Problem
	drop       func(*http.Request) bool
	offset     time.Duration
	life       time.Duration
	renewAfter time.Duration
	renewals   int
	cancel     map[string]bool
	verifiers  agentwire.VerifierSet
	bundle     agentwire.TrustBundle
	trust      Trust
	refused    map[string]bool // what agents say that they refused to trust
	bundles    map[string]bool // fingerprints of the bundles that agents use
	vitals     agentwire.Vitals
	credential agentwire.Credential
	packages   map[string][]byte
}

// New starts a plane on a free port of this machine.
func New(tb testing.TB) *Plane {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Plane{
		tb: tb, server: newAuthority(tb, "control plane CA"), nodes: newAuthority(tb, "node CA"), signer: private,
		changed: make(chan struct{}), tokens: map[string]string{}, results: map[string][]agentwire.ResultRequest{},
		progress: map[string][]agentwire.ProgressRequest{}, sessions: map[string]bool{}, serials: map[string]bool{},
		cancel: map[string]bool{},
		life:   24 * time.Hour, renewAfter: 16 * time.Hour, packages: map[string][]byte{}, refused: map[string]bool{},
		bundles: map[string]bool{},
		verifiers: agentwire.VerifierSet{
			Version:   1,
			Verifiers: []agentwire.Verifier{{ID: Signer, PublicKey: public, State: "active"}},
		},
	}
	p.identity = p.server.serverCertificate(tb, "localhost")
	p.bundle = BundleOf("1", p.server.pem())
	p.address = "127.0.0.1:0"
	p.Start()
	tb.Cleanup(p.Stop)
	return p
}

// Start listens on the same port as before.
func (p *Plane) Start() {
	p.tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", p.address)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.address = listener.Addr().String()
	ctx, crash := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: p.handler(), ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	p.mu.Lock()
	p.http, p.crash = server, crash
	p.mu.Unlock()
	secured := tls.NewListener(listener, &tls.Config{
		Certificates: []tls.Certificate{p.identity}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13,
	})
	go func() {
		if err := server.Serve(secured); !errors.Is(err, http.ErrServerClosed) {
			p.tb.Errorf("serve: %v", err)
		}
	}()
}

// Stop cuts every connection, as a crash would. A poll that is held ends at once:
// one that noticed later that nobody listens would take the next task with it.
func (p *Plane) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crash()
	_ = p.http.Close()
}

// URL returns the address for nodes.
func (p *Plane) URL() string {
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		p.tb.Fatal(err)
	}
	return "https://localhost:" + port
}

// HostRoot makes a machine that was bootstrapped and has not enrolled yet.
func (p *Plane) HostRoot() string {
	p.tb.Helper()
	root := p.tb.TempDir()
	p.write(filepath.Join(root, config.EnvFile), fmt.Sprintf("GPUAAS_API_URL=%s\nGPUAAS_NODE_ID=%s\n", p.URL(), Node))
	p.write(filepath.Join(root, config.CAFile), p.server.pem())
	p.write(filepath.Join(root, "etc/machine-id"), "0123456789abcdef0123456789abcdef\n")
	return root
}

func (p *Plane) write(path, content string) {
	p.tb.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		p.tb.Fatal(err)
	}
}

// Token makes a token for enrolment.
func (p *Plane) Token() string {
	token := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens[token] = ""
	return token
}

// now returns the time of the plane's clock.
func (p *Plane) now() time.Time { return time.Now().Add(p.offset) }

func (p *Plane) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Update changes the behaviour of the plane.
func (p *Plane) Update(change func(*Settings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Settings{
		Refuse: p.refuse, Drop: p.drop, ClockOffset: p.offset, Life: p.life, RenewAfter: p.renewAfter,
		Verifiers: p.verifiers, Bundle: p.bundle, Trust: p.trust, Credential: p.credential, Packages: p.packages,
		Cancel: p.cancel,
	}
	change(&s)
	p.refuse, p.drop, p.offset, p.life, p.renewAfter = s.Refuse, s.Drop, s.ClockOffset, s.Life, s.RenewAfter
	p.verifiers, p.bundle, p.trust, p.credential = s.Verifiers, s.Bundle, s.Trust, s.Credential
	p.notify()
}

// Settings are what a test can change while the plane runs.
type Settings struct {
	Refuse      func(*http.Request) *agentwire.Problem // answers with a refusal
	Drop        func(*http.Request) bool               // carries the call out and loses the answer
	ClockOffset time.Duration
	Life        time.Duration // of certificates
	RenewAfter  time.Duration
	Verifiers   agentwire.VerifierSet
	Bundle      agentwire.TrustBundle
	Trust       Trust
	Credential  agentwire.Credential
	Packages    map[string][]byte
	Cancel      map[string]bool // tasks that agents are told to stop
}

// Envelope makes a signed task. change may modify it after it is signed or, if
// it returns true, before.
func (p *Plane) Envelope(taskType string, params any, change func(*agentwire.Envelope)) agentwire.Envelope {
	p.tb.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.mu.Lock()
	now := p.now()
	p.mu.Unlock()
	e := agentwire.Envelope{
		TaskID: newID(), NodeID: Node, Type: taskType, Params: raw, Generation: 1, Attempt: 1,
		IssuedAt: now, ExpiresAt: now.Add(15 * time.Minute), CorrelationID: "correlation", SignerVersion: Signer,
	}
	if change != nil {
		change(&e)
	}
	return p.Sign(e)
}

// Sign signs a task as it is.
func (p *Plane) Sign(e agentwire.Envelope) agentwire.Envelope {
	p.tb.Helper()
	signed, err := e.SignedBytes()
	if err != nil {
		p.tb.Fatal(err)
	}
	e.Signature = ed25519.Sign(p.signer, signed)
	return e
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Deliver hands out tasks in this order.
func (p *Plane) Deliver(tasks ...agentwire.Envelope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, tasks...)
	p.notify()
}

// Await waits until a condition holds. It checks whenever something happens.
func (p *Plane) Await(what string, holds func(*Seen) bool) {
	p.tb.Helper()
	limit := time.After(time.Minute)
	for {
		p.mu.Lock()
		changed := p.changed
		ok := holds(&Seen{
			Results: p.results, Progress: p.progress, Reports: p.reports, Polls: p.polls, Queued: len(p.queue),
			Renewals: p.renewals, Sessions: len(p.sessions), Serials: len(p.serials), TrustRefused: p.refused,
			TrustBundles: p.bundles, HostKeys: p.hostKeys, Vitals: p.vitals,
		})
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit:
			p.tb.Fatalf("%s: it did not happen", what)
		}
	}
}

// Seen is what agents have told and asked.
type Seen struct {
	Results                                    map[string][]agentwire.ResultRequest
	Progress                                   map[string][]agentwire.ProgressRequest
	Reports                                    []agentwire.Report
	HostKeys                                   [][]string
	Polls, Queued, Renewals, Sessions, Serials int
	// TrustRefused and TrustBundles are what agents said in headers of polls.
	TrustRefused, TrustBundles map[string]bool
	Vitals                     agentwire.Vitals // of the last call
}

// Result waits for the first result of a task.
func (p *Plane) Result(task string) agentwire.ResultRequest {
	p.tb.Helper()
	var got agentwire.ResultRequest
	p.Await("result of task "+task, func(s *Seen) bool {
		if len(s.Results[task]) == 0 {
			return false
		}
		got = s.Results[task][0]
		return true
	})
	return got
}

// ServerCA returns the certificate that verifies the plane.
func (p *Plane) ServerCA() string { return p.server.pem() }

// NodeCA returns the certificate that verifies nodes.
func (p *Plane) NodeCA() *x509.Certificate { return p.nodes.certificate }
