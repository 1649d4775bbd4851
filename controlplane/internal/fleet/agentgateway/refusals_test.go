package agentgateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agentgateway"
	"gpuaas/controlplane/internal/fleet/node"
)

// Every way a certificate can be wrong, told apart.
func TestCertificatesThatAreRefused(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	p := newPlane(t, e)
	a := p.active(t, "gpu-1")
	other := p.active(t, "gpu-2")
	identity := "spiffe://" + domain + "/node/" + a.node.String()
	stranger := newAuthority(t, "stranger", nil)
	cousin := newAuthority(t, "cousin", nil)
	key := newKey(t)
	by := func(issuer *authority, change func(*x509.Certificate)) *tls.Certificate {
		c := clientTemplate(identity)
		if change != nil {
			change(&c)
		}
		return pair(key, issuer.sign(t, key.Public(), c))
	}
	past := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-26*time.Hour), time.Now().Add(-2*time.Hour)
	}
	for name, c := range map[string]struct {
		shown  *tls.Certificate
		status int
		code   string
		log    string
	}{
		"none":    {nil, 401, agentwire.CodeCertificateMissing, "mtls_present=false"},
		"expired": {by(e.nodes, past), 401, agentwire.CodeCertificateExpired, "subject=" + identity},
		"not yet valid": {by(e.nodes, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		}), 401, agentwire.CodeCertificateExpired, ""},
		"of a stranger": {
			by(stranger, nil), 401, agentwire.CodeCertificateUnknown,
			`issuer="CN=stranger"`,
		},
		"of a stranger, expired": {by(stranger, past), 401, agentwire.CodeCertificateUnknown, ""},
		"of another CA below the same kind of root": {pair(key, cousin.sign(t, key.Public(), clientTemplate(identity)),
			cousin.cert.Raw), 401, agentwire.CodeCertificateUnknown, ""},
		"for servers": {
			by(e.nodes,
				func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), 403,
			agentwire.CodeIdentityMismatch, "",
		},
		"without identity": {
			by(e.nodes, func(c *x509.Certificate) { c.URIs = nil }), 403,
			agentwire.CodeIdentityMismatch, "",
		},
		"two identities": {by(e.nodes,
			func(c *x509.Certificate) { c.URIs = append(c.URIs, other.uri()...) }), 403, agentwire.CodeIdentityMismatch, ""},
		"of another domain": {
			by(e.nodes,
				func(c *x509.Certificate) { c.URIs = uri("spiffe://other.example.com/node/" + a.node.String()) }), 403,
			agentwire.CodeIdentityMismatch, "",
		},
		"of no node": {
			by(e.nodes,
				func(c *x509.Certificate) { c.URIs = uri("spiffe://" + domain + "/node/root") }), 403,
			agentwire.CodeIdentityMismatch, "",
		},
		"with a query": {by(e.nodes,
			func(c *x509.Certificate) { c.URIs = uri(identity + "?x=1") }), 403, agentwire.CodeIdentityMismatch, ""},
		"of a user": {
			by(e.nodes,
				func(c *x509.Certificate) { c.URIs = uri("https://" + domain + "/node/" + a.node.String()) }), 403,
			agentwire.CodeIdentityMismatch, "",
		},
		"that was never issued": {by(e.nodes,
			func(c *x509.Certificate) { c.SerialNumber = big.NewInt(4711) }), 401, agentwire.CodeCertificateRevoked, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := *a
			b.tb, b.client = t, p.client(c.shown)
			b.get(agentwire.PathWait, "wait_seconds=1").want(c.status, c.code)
			if !strings.Contains(p.log.String(), c.log) {
				t.Errorf("%q is not in the log", c.log)
			}
		})
	}
}

func (a *agent) uri() []*url.URL { return uri("spiffe://" + domain + "/node/" + a.node.String()) }

func TestANodeIsOnlyItself(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a, b := p.active(t, "gpu-1"), p.active(t, "gpu-2")
	task := p.enqueue(t, b.node, agentwire.TypeHeartbeatCheck, nil)
	inPath := func(path string) string {
		return strings.NewReplacer("{node_id}", b.node.String(), "{task_id}", task.ID.String(), "{version}", version).
			Replace(path)
	}
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, agentwire.PathWait, nil},
		{http.MethodGet, agentwire.PathNodePackage, nil},
		{http.MethodPost, agentwire.PathRenew, agentwire.RenewRequest{}},
		{http.MethodPost, agentwire.PathReport, agentwire.Report{}},
		{http.MethodPost, agentwire.PathResult, agentwire.ResultRequest{}},
		{http.MethodPost, agentwire.PathProgress, agentwire.ProgressRequest{}},
		{http.MethodPost, agentwire.PathRegistry, agentwire.RegistryRequest{}},
		{http.MethodPost, agentwire.PathMint, agentwire.MintRequest{}},
	} {
		a.send(c.method, inPath(c.path), "", c.body).want(http.StatusForbidden, agentwire.CodeIdentityMismatch)
	}
	// The task of another node does not exist, even under the right identity.
	own := func(path string) string { return strings.Replace(path, "{task_id}", task.ID.String(), 1) }
	a.post(own(agentwire.PathResult), agentwire.ResultRequest{Attempt: 1, Status: agentwire.ResultSucceeded}).
		want(http.StatusNotFound, agentwire.CodeTaskNotYours)
	a.post(own(agentwire.PathProgress), agentwire.ProgressRequest{Attempt: 1}).
		want(http.StatusNotFound, agentwire.CodeTaskNotYours)
	a.post(own(agentwire.PathMint), agentwire.MintRequest{
		Attempt: 1, StepID: "s",
		CredentialType: agentwire.CredentialOCIPull,
	}).
		want(http.StatusNotFound, agentwire.CodeTaskNotYours)
}

func TestASecondAgentWithTheSameIdentityIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	thief := *a
	thief.instance = "another-machine"
	thief.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusConflict, agentwire.CodeIdentityInUse)

	twin := *a // a copy of the process: the same machine, another session
	twin.session = "session-2"
	twin.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "") // looks like a restart
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")    // but the first one is alive
	twin.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusConflict, agentwire.CodeIdentityInUse)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	if n, err := p.nodes.Node(p.ctx, a.node); err != nil || n.HoldReason == "" || n.Schedulable {
		t.Errorf("%+v %v", n, err)
	}
}

func TestAFencedNodeIsToldSo(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	move := func(events ...node.Event) {
		t.Helper()
		for _, e := range events {
			if err := p.db.InTx(p.ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := node.Move(ctx, tx, a.node, e, "test")
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	move(node.Drain, node.Drained)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusForbidden, agentwire.CodeNodeFenced)
	move(node.Remove)
	// Of a node that is being removed only the end of its uninstallation counts.
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	a.post(agentwire.PathRenew, agentwire.RenewRequest{CSR: requestFor(t, a.key)}).
		want(http.StatusForbidden, agentwire.CodeNodeFenced)
	a.get(strings.Replace(agentwire.PathNodePackage, "{version}", version, 1), "").
		want(http.StatusForbidden, agentwire.CodeNodeFenced)
	move(node.Uninstalled)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusForbidden, agentwire.CodeNodeFenced)
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	n, token := p.newNode(t, "gpu-1")
	a := &agent{tb: t, p: p, node: n.ID, key: newKey(t), instance: "m", session: "s", client: p.client(nil)}
	paths := []string{agentwire.PathBootstrapScript, agentwire.PathPackage}
	for _, path := range paths {
		a.get(path, "").want(http.StatusUnauthorized, agentwire.CodeTokenInvalid)
		a.get(path, "token="+token.Reveal()).want(http.StatusUnauthorized, agentwire.CodeTokenInvalid) // never in an address
		for _, header := range []string{
			"Bearer gpuaas_nforeign", "Bearer ", "Basic " + token.Reveal(),
			"Bearer " + strings.Repeat("x", 5000),
		} {
			a.send(http.MethodGet, path, "", nil, "Authorization", header).
				want(http.StatusUnauthorized, agentwire.CodeTokenInvalid)
		}
	}
	// It works nowhere else.
	a.send(http.MethodGet, agentwire.PathWait, "", nil, "Authorization", "Bearer "+token.Reveal()).
		want(http.StatusUnauthorized, agentwire.CodeCertificateMissing)

	// The same key may repeat what got no answer, another may not.
	a.enroll(token).want(http.StatusOK, "")
	a.enroll(token).want(http.StatusOK, "")
	for _, path := range paths {
		a.send(http.MethodGet, path, "", nil, "Authorization", "Bearer "+token.Reveal()).
			want(http.StatusUnauthorized, agentwire.CodeTokenInvalid)
	}
	a.key = newKey(t)
	a.enroll(token).want(http.StatusUnauthorized, agentwire.CodeTokenInvalid)

	n, token = p.newNode(t, "gpu-2")
	p.pass(16 * time.Minute)
	b := &agent{tb: t, p: p, node: n.ID, key: newKey(t), instance: "m", session: "s", client: p.client(nil)}
	b.enroll(token).want(http.StatusUnauthorized, agentwire.CodeTokenExpired)
	b.send(http.MethodGet, paths[0], "", nil, "Authorization", "Bearer "+token.Reveal()).
		want(http.StatusUnauthorized, agentwire.CodeTokenExpired)
}

func TestBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	good := requestFor(t, a.key)
	rsa := strings.Replace(good, "CERTIFICATE REQUEST", "PUBLIC KEY", 2)
	for name, c := range map[string]struct {
		path   string
		body   any
		header []string
		status int
		code   string
	}{
		"oversize": {
			agentwire.PathReport, `{"build":{"version":"` + strings.Repeat("x", 2<<20) + `"}}`, nil, 413,
			"body_too_large",
		},
		"unknown field": {agentwire.PathReport, `{"verifier_version":1,"surprise":true}`, nil, 400, "invalid_request"},
		"two values":    {agentwire.PathReport, `{} {}`, nil, 400, "invalid_request"},
		"not JSON":      {agentwire.PathReport, `{"build":`, nil, 400, "invalid_request"},
		"wrong type":    {agentwire.PathReport, `{"verifier_version":"one"}`, nil, 400, "invalid_request"},
		"empty":         {agentwire.PathReport, ``, nil, 400, "invalid_request"},
		"NUL":           {agentwire.PathReport, `{"build":{"version":"a\u0000b"}}`, nil, 422, "validation_error"},
		"not UTF-8":     {agentwire.PathReport, "{\"build\":{\"version\":\"\xff\"}}", nil, 400, "invalid_request"},
		"another type": {
			agentwire.PathReport, `{}`,
			[]string{"Content-Type", "text/plain"},
			415,
			"unsupported_media_type",
		},
		"no CSR":            {agentwire.PathRenew, agentwire.RenewRequest{}, nil, 422, "csr_refused"},
		"half a CSR":        {agentwire.PathRenew, agentwire.RenewRequest{CSR: good[:len(good)/2]}, nil, 422, "csr_refused"},
		"no request at all": {agentwire.PathRenew, agentwire.RenewRequest{CSR: rsa}, nil, 422, "csr_refused"},
		"task id": {
			strings.Replace(agentwire.PathResult, "{task_id}", "x", 1),
			agentwire.ResultRequest{},
			nil, 400,
			"invalid_request",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := *a
			b.tb = t
			b.send(http.MethodPost, c.path, "", c.body, c.header...).want(c.status, c.code)
		})
	}
	for _, wait := range []string{"0", "56", "-1", "x", "1.5"} {
		a.get(agentwire.PathWait, "wait_seconds="+wait).want(http.StatusBadRequest, "invalid_request")
	}
	a.session = ""
	a.get(agentwire.PathWait, "").want(http.StatusBadRequest, "invalid_request")
	a.get("/internal/v1/nowhere", "").want(http.StatusNotFound, "not_found")
	a.send(http.MethodDelete, agentwire.PathWait, "", nil).want(http.StatusNotFound, "not_found")
}

func TestNewcomersAreCountedByAddress(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t), func(c *agentgateway.Config) {
		c.Settings.BootstrapRate, c.Settings.BootstrapBurst = 0.001, 3
	})
	a := &agent{tb: t, p: p, node: id.New[id.Node](), key: newKey(t), instance: "m", session: "s", client: p.client(nil)}
	a.get(agentwire.PathCA, "").want(http.StatusOK, "")
	a.get(agentwire.PathBootstrapScript, "").want(http.StatusUnauthorized, agentwire.CodeTokenInvalid)
	a.get(agentwire.PathPackage, "").want(http.StatusUnauthorized, agentwire.CodeTokenInvalid)
	refused := a.post(agentwire.PathEnroll, agentwire.EnrollRequest{}).
		want(http.StatusTooManyRequests, "rate_limit_exceeded")
	if refused.header.Get("Retry-After") == "" {
		t.Error("it does not say when to come back")
	}
	// Nodes with a certificate are not held up by it.
	a.get(agentwire.PathWait, "").want(http.StatusUnauthorized, agentwire.CodeCertificateMissing)
}

func TestOnlyModernTLSIsSpoken(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: p.roots, MaxVersion: tls.VersionTLS12}}).
		DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "https://"))
	if err == nil {
		conn.Close()
		t.Error("TLS 1.2 is spoken")
	}
}

// A node that posts without end is slowed down, alone and for a while; its polls
// have an allowance of their own.
func TestANodeThatPostsTooMuchIsHeldBack(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a, b := p.active(t, "gpu-1"), p.active(t, "gpu-2")
	report := agentwire.Report{Build: agentwire.Build{Version: version, Commit: "abc"}}
	post := func(path string) reply {
		return a.post(strings.ReplaceAll(path, "{task_id}", id.NewString()), report)
	}
	var limited reply
	for range 1000 {
		if limited = post(agentwire.PathReport); limited.status == http.StatusTooManyRequests {
			break
		}
		limited.want(http.StatusNoContent, "")
	}
	limited.want(http.StatusTooManyRequests, "rate_limit_exceeded")
	if limited.header.Get("Retry-After") == "" {
		t.Error("nobody says when to come back")
	}
	for _, path := range []string{
		agentwire.PathRenew, agentwire.PathResult, agentwire.PathProgress, agentwire.PathMint,
		agentwire.PathRegistry,
	} {
		held := false
		for range 50 { // it regains a few while this runs
			if held = post(path).status == http.StatusTooManyRequests; held {
				break
			}
		}
		if !held {
			t.Errorf("%s is not counted", path)
		}
	}
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	b.post(agentwire.PathReport, report).want(http.StatusNoContent, "")
	p.pass(10 * time.Second)
	post(agentwire.PathReport).want(http.StatusNoContent, "")
}

func TestReportsThatAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	a.post(agentwire.PathReport, agentwire.Report{Capabilities: agentwire.Capabilities{OS: "a\x00b"}}).
		want(http.StatusUnprocessableEntity, "validation_error")
	a.post(agentwire.PathReport, agentwire.Report{Build: agentwire.Build{Version: "1 2"}}).
		want(http.StatusUnprocessableEntity, "validation_error")
	a.post(agentwire.PathReport, agentwire.Report{Capabilities: agentwire.Capabilities{OS: strings.Repeat("x", 65<<10)}}).
		want(http.StatusUnprocessableEntity, "validation_error")
}
