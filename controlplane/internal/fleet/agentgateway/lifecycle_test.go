package agentgateway_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
)

// The whole life of an agent, against the real secrets engine.
func TestANodeEnrolsWorksRenewsAndIsRevoked(t *testing.T) {
	t.Parallel()
	p := newPlane(t, openBao(t))
	n, token := p.newNode(t, "gpu-1")
	a := &agent{
		tb: t, p: p, node: n.ID, key: newKey(t), instance: "machine-1", session: "session-1",
		client: p.client(nil),
	}

	a.enroll(token).want(http.StatusOK, "").into(&a.issued)
	checkIssued(t, p, a, n.ID.String())
	if got := p.status(t, n.ID); got != node.Enrolling {
		t.Fatalf("enrolled without a poll: the node is %s", got)
	}
	a.use(a.issued.Certificate)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	if got := p.status(t, n.ID); got != node.Active {
		t.Fatalf("after the first poll the node is %s", got)
	}
	a.post(agentwire.PathReport, agentwire.Report{
		Build:           agentwire.Build{Version: "9.9", Commit: "c"},
		VerifierVersion: a.issued.Verifiers.Version,
	}).
		want(http.StatusNoContent, "")
	if got, err := p.nodes.Node(p.ctx, n.ID); err != nil || got.ReportedAgentVersion != "9.9" {
		t.Fatalf("%+v %v", got, err)
	}

	carryOut(t, p, a)
	renewed := renew(t, a)

	// The old certificate works until it expires, so that a lost answer to a
	// renewal does no harm.
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	a.use(renewed.Certificate)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")

	if err := p.nodes.RevokeIdentity(p.ctx, n.ID, "stolen"); err != nil {
		t.Fatal(err)
	}
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusUnauthorized, agentwire.CodeCertificateRevoked)
}

func checkIssued(t *testing.T, p *plane, a *agent, node string) {
	t.Helper()
	block, _ := pem.Decode([]byte(a.issued.Certificate))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != "spiffe://"+domain+"/node/"+node || a.issued.NodeID != node {
		t.Errorf("identity %v", leaf.URIs)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(a.issued.NodeCA))
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots:     pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		t.Errorf("the certificate does not verify with the node CA: %v", err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots:     p.roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err == nil {
		t.Error("the certificate verifies with the CA of the control plane: the two are merged")
	}
	sum := sha256.Sum256([]byte(a.issued.TrustBundle.PEM))
	if a.issued.TrustBundle.Fingerprint != hex.EncodeToString(sum[:]) || a.issued.TrustBundle.PEM != p.trust.ServerPEM() ||
		p.renderer.CAFingerprint() != a.issued.TrustBundle.Fingerprint || a.issued.TrustBundle.Domain != domain {
		t.Errorf("trust bundle %+v", a.issued.TrustBundle)
	}
	if life := time.Until(a.issued.NotAfter); life < 23*time.Hour || life > 25*time.Hour ||
		a.issued.RenewAfter.Before(time.Now().Add(15*time.Hour)) || a.issued.RenewAfter.After(time.Now().Add(17*time.Hour)) {
		t.Errorf("valid until %s, renewed after %s", a.issued.NotAfter, a.issued.RenewAfter)
	}
	if err := a.issued.Verifiers.Validate(); err != nil || a.issued.Generation != 1 {
		t.Errorf("verifiers %v, generation %d", err, a.issued.Generation)
	}
}

// carryOut takes a task through poll, verification, progress and result.
func carryOut(t *testing.T, p *plane, a *agent) {
	t.Helper()
	task := p.enqueue(t, a.node, agentwire.TypeHeartbeatCheck, nil)
	var e agentwire.Envelope
	a.get(agentwire.PathWait, "").want(http.StatusOK, "").into(&e)
	if _, refusal := a.issued.Verifiers.Verify(e, a.node.String(), a.issued.Generation, time.Now()); refusal != nil ||
		e.TaskID != task.ID.String() {
		t.Fatalf("%+v: %v", e, refusal)
	}
	path := func(template string) string { return strings.Replace(template, "{task_id}", e.TaskID, 1) }
	var lease agentwire.ProgressResponse
	a.post(path(agentwire.PathProgress), agentwire.ProgressRequest{
		Attempt: e.Attempt, Steps: []agentwire.Step{{Seq: 1, Name: "look", Status: "started", At: time.Now()}},
	}).want(http.StatusOK, "").into(&lease)
	if lease.Cancel || !lease.LeaseExpiresAt.After(time.Now()) {
		t.Errorf("%+v", lease)
	}
	output, err := json.Marshal(agentwire.HeartbeatOutput{Now: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	result := agentwire.ResultRequest{
		Attempt: e.Attempt, Status: agentwire.ResultSucceeded, Output: output, StartedAt: time.Now(), FinishedAt: time.Now(),
		Build: agentwire.Build{Version: version},
	}
	for range 2 { // the same result again is no error: its answer may have been lost
		a.post(path(agentwire.PathResult), result).want(http.StatusNoContent, "")
	}
	result.Status, result.Error = agentwire.ResultFailed, &agentwire.TaskError{Code: "x", Message: "changed its mind"}
	a.post(path(agentwire.PathResult), result).want(http.StatusConflict, agentwire.CodeTaskFinal)
}

func renew(t *testing.T, a *agent) agentwire.Issued {
	t.Helper()
	a.key = newKey(t)
	var renewed agentwire.Issued
	a.post(agentwire.PathRenew, agentwire.RenewRequest{CSR: requestFor(t, a.key)}).want(http.StatusOK, "").into(&renewed)
	if renewed.Certificate == a.issued.Certificate || renewed.Generation != a.issued.Generation ||
		renewed.Verifiers.Version == 0 {
		t.Errorf("%+v", renewed)
	}
	return renewed
}

func TestAnExpiredCertificateIsRecoveredByToken(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	p.pass(25 * time.Hour)
	// On the connection that was good an hour ago, and on a new one.
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusUnauthorized, agentwire.CodeCertificateExpired)
	a.client.CloseIdleConnections()
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusUnauthorized, agentwire.CodeCertificateExpired)
	a.post(agentwire.PathRenew, agentwire.RenewRequest{CSR: requestFor(t, a.key)}).
		want(http.StatusUnauthorized, agentwire.CodeCertificateExpired)

	p.pass(-25 * time.Hour)
	token, _, err := p.nodes.IssueToken(p.ctx, a.node, node.Recovery, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.key = newKey(t)
	var again agentwire.EnrollResponse
	a.enroll(token).want(http.StatusOK, "").into(&again)
	if again.Generation != a.issued.Generation+1 || again.NodeID != a.node.String() {
		t.Errorf("%+v", again)
	}
	old := *a
	a.use(again.Certificate)
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
	old.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusUnauthorized, agentwire.CodeCertificateRevoked)
}

func TestTheDateOfAnAnswerTellsTheSkew(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	date, err := http.ParseTime(a.get(agentwire.PathWait, "wait_seconds=1").
		want(http.StatusNoContent, "").header.Get("Date"))
	if err != nil || time.Since(date).Abs() > time.Minute {
		t.Errorf("%v %v", date, err)
	}
}

func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	n, token := p.newNode(t, "gpu-1")
	a := &agent{tb: t, p: p, node: n.ID, key: newKey(t), instance: "m", session: "s", client: p.client(nil)}
	bearer := []string{"Authorization", "Bearer " + token.Reveal()}
	a.send(http.MethodGet, agentwire.PathBootstrapScript, "", nil, bearer...).want(http.StatusOK, "")
	a.enroll(token).want(http.StatusOK, "")
	a.key = newKey(t)
	a.enroll(token).want(http.StatusUnauthorized, agentwire.CodeTokenInvalid)
	a.send(http.MethodPost, agentwire.PathEnroll, "", `{"csr_pem": "`+token.Reveal()+`", "x": 1}`, bearer...).
		want(http.StatusBadRequest, "invalid_request")
	log := p.log.String()
	if strings.Contains(log, token.Reveal()) || strings.Contains(log, "PRIVATE KEY") {
		t.Error("a secret is in the log")
	}
	if !strings.Contains(log, "mtls_present=false") || !strings.Contains(log, agentwire.CodeTokenInvalid) {
		t.Error("refusals do not say what the TLS layer saw")
	}
	var rows int
	if err := p.db.QueryRow(t.Context(),
		"SELECT count(*) FROM audit_logs WHERE metadata::text LIKE '%'||$1||'%' OR reason LIKE '%'||$1||'%'", token.Reveal()).
		Scan(&rows); err != nil || rows > 0 {
		t.Errorf("%d audit entries hold the token, %v", rows, err)
	}
}
