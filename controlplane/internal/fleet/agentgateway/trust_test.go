package agentgateway_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/agentgateway"
)

// shown is the serial of the certificate that a new connection sees.
func (p *plane) shown(t *testing.T) string {
	t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: p.roots}}).
		DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestTheServerCertificateIsReplacedWithoutDroppingAnybody(t *testing.T) {
	t.Parallel()
	var h holding
	e := newEngine(t)
	p := newPlane(t, e, holdPolls(&h))
	a := p.active(t, "gpu-1")
	<-h.held
	first := p.shown(t)
	polled := a.poll("wait_seconds=50")
	<-h.held

	p.pass(19 * 24 * time.Hour) // not yet two thirds of 30 days
	if err := p.trust.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.shown(t) != first {
		t.Error("renewed too early")
	}
	p.pass(2 * 24 * time.Hour)
	if err := p.trust.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.shown(t) == first {
		t.Error("not renewed after two thirds of its life")
	}
	p.pass(-21 * 24 * time.Hour)
	p.enqueue(t, a.node, agentwire.TypeHeartbeatCheck, nil)
	(<-polled).want(http.StatusOK, "")
}

func TestWhileTheSecretsEngineIsAwayNodesThatHaveACertificateWork(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	p := newPlane(t, e)
	a := p.active(t, "gpu-1")
	e.breaks(fault.New(fault.Unavailable, "secrets_unavailable", "away"))
	p.pass(time.Hour) // everything that is cached is looked at again
	if err := p.trust.Refresh(t.Context()); err == nil {
		t.Error("nobody noticed")
	}
	a.client.CloseIdleConnections()
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	a.post(agentwire.PathRenew, agentwire.RenewRequest{CSR: requestFor(t, a.key)}).
		want(http.StatusServiceUnavailable, "secrets_unavailable")

	n, token := p.newNode(t, "gpu-2")
	b := &agent{tb: t, p: p, node: n.ID, key: newKey(t), instance: "m", session: "s", client: p.client(nil)}
	b.enroll(token).want(http.StatusServiceUnavailable, "secrets_unavailable")
	e.breaks(nil)
	b.enroll(token).want(http.StatusOK, "") // the token was not lost
}

func TestAReplacedNodeCAIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	p := newPlane(t, e)
	a := p.active(t, "gpu-1")
	successor := newAuthority(t, "next node CA", nil)
	e.mu.Lock()
	e.nodes, e.nodeCA = successor, successor.pem
	e.mu.Unlock()
	n, token := p.newNode(t, "gpu-2")
	b := &agent{tb: t, p: p, node: n.ID, key: newKey(t), instance: "m", session: "s", client: p.client(nil)}
	b.enroll(token).want(http.StatusOK, "").into(&b.issued)
	b.use(b.issued.Certificate)
	p.pass(time.Minute)
	b.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	// What the CA before it signed is not believed any more.
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusUnauthorized, agentwire.CodeCertificateUnknown)
}

func TestAFormerNodeCACanStayBelieved(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	former := filepath.Join(t.TempDir(), "former.pem")
	if err := os.WriteFile(former, []byte(newAuthority(t, "long gone", nil).pem), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlane(t, e, func(c *agentgateway.Config) { c.Trust.UseFormer(former) })
	a := p.active(t, "gpu-1")
	if err := os.WriteFile(former, []byte(e.nodeCA), 0o600); err != nil {
		t.Fatal(err)
	}
	successor := newAuthority(t, "next node CA", nil)
	e.mu.Lock()
	e.nodes, e.nodeCA = successor, successor.pem
	e.mu.Unlock()
	p.pass(time.Hour)
	if err := p.trust.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	a.key = newKey(t)
	var renewed agentwire.Issued
	a.post(agentwire.PathRenew, agentwire.RenewRequest{CSR: requestFor(t, a.key)}).want(http.StatusOK, "").into(&renewed)
	if renewed.NodeCA != successor.pem {
		t.Error("the node is not told of its new issuer")
	}
	a.use(renewed.Certificate)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
}

func TestTheServerCertificateCanComeFromFiles(t *testing.T) {
	e := newEngine(t)
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	write := func() {
		t.Helper()
		c, err := e.IssueServerCertificate(t.Context(), []string{"127.0.0.1"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"tls.crt": c.PEM, "tls.key": c.Key.Reveal(), "ca.crt": e.other.pem} {
			if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	var ahead time.Duration
	trust := agentgateway.NewTrust(agentgateway.TrustConfig{
		PKI: e, CertFile: file("tls.crt"), KeyFile: file("tls.key"), CAFile: file("ca.crt"),
		Clock: func() time.Time { return time.Now().Add(ahead) },
	})
	if err := trust.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := trust.Leaf()
	write()
	ahead = 2 * time.Minute
	if err := trust.Refresh(t.Context()); err != nil || trust.Leaf() == first {
		t.Errorf("new files are not used: %v", err)
	}
	if block, _ := pem.Decode([]byte(trust.ServerPEM())); block == nil {
		t.Error("no CA")
	}
	if err := os.WriteFile(file("tls.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := trust.Leaf()
	ahead = 4 * time.Minute
	if err := trust.Refresh(t.Context()); err == nil || trust.Leaf() != now {
		t.Errorf("a broken file took the place of a good one: %v", err)
	}
}

// A listener is ready when it has a certificate that nodes accept and knows who
// issues theirs, and not before.
func TestTheListenerIsReadyOnlyWhenItCanAnswer(t *testing.T) {
	e := newEngine(t)
	var ahead time.Duration
	trust := agentgateway.NewTrust(agentgateway.TrustConfig{
		PKI: e, Names: []string{"127.0.0.1"}, Clock: func() time.Time { return time.Now().Add(ahead) },
	})
	if trust.Ready() {
		t.Error("ready before anything was fetched")
	}
	sealed := fault.New(fault.Unavailable, "secrets_unavailable", "sealed")
	e.breaks(sealed)
	if err := trust.Refresh(t.Context()); err == nil || trust.Ready() {
		t.Errorf("ready with nothing at all: %v", err)
	}
	e.breaks(nil)
	ahead = time.Minute
	if err := trust.Refresh(t.Context()); err != nil || !trust.Ready() {
		t.Errorf("not ready with everything: %v", err)
	}
	e.breaks(sealed)
	ahead = time.Hour
	if err := trust.Refresh(t.Context()); err == nil || !trust.Ready() {
		t.Errorf("what is there is not used: %v", err)
	}
	ahead = 365 * 24 * time.Hour
	if trust.Ready() {
		t.Error("ready with a certificate that has expired")
	}
}

// A listener that starts with a certificate that no node can verify says so, and
// names the authorities that would help.
func TestAListenerThatNoNodeCanVerifyIsReported(t *testing.T) {
	e := newEngine(t)
	known := newAuthority(t, "what nodes know", nil).pem
	var ahead time.Duration
	trust := agentgateway.NewTrust(agentgateway.TrustConfig{
		PKI: e, Names: []string{"127.0.0.1"}, Clock: func() time.Time { return time.Now().Add(ahead) },
		Bundle: func(context.Context, string) (string, error) { return known, nil },
	})
	if err := trust.Check(t.Context()); err != nil {
		t.Errorf("a listener that has no certificate yet is reported: %v", err)
	}
	err := trust.CheckNow(t.Context())
	f, ok := fault.As(err)
	if !ok || f.Code != "listener_not_in_bundle" || !strings.Contains(f.Remedy, `"what nodes know"`) ||
		!strings.Contains(f.Remedy, "or start with the files it had") {
		t.Errorf("got %v", err)
	}
	known += e.other.pem // an operator adds the authority
	if err := trust.Check(t.Context()); err != nil {
		t.Errorf("a certificate of an authority in the bundle: %v", err)
	}
	ahead = 365 * 24 * time.Hour
	if err := trust.Check(t.Context()); fault.CodeOf(err) != "listener_certificate_expired" {
		t.Errorf("a certificate that ended: %v", err)
	}
}
