package agentgateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/signer"
)

// Everything that a node is given to trust is signed by a key that it has, with
// the real secrets engine.
func TestWhatNodesAreToTrustIsSigned(t *testing.T) {
	t.Parallel()
	p := newPlane(t, openBao(t))
	a := p.active(t, "gpu-1")
	var asked agentwire.TrustAnswer
	a.get(agentwire.PathTrust, "").want(http.StatusOK, "").into(&asked)
	var renewed agentwire.Issued
	a.post(agentwire.PathRenew, agentwire.RenewRequest{CSR: requestFor(t, newKey(t))}).want(http.StatusOK, "").
		into(&renewed)
	for name, statements := range map[string][]agentwire.Statement{
		"enrolment": a.issued.Trust, "renewal": renewed.Trust,
		"question": asked.Statements,
	} {
		if len(statements) != 3 {
			t.Fatalf("%s: %d statements", name, len(statements))
		}
		for _, st := range statements {
			if newer, refusal := a.issued.Verifiers.Believe(st, domain, 0); !newer || refusal != nil {
				t.Errorf("%s: about %s: %v", name, st.About, refusal)
			}
		}
		if statements[1].PEM != a.issued.NodeCA || statements[2].PEM != a.issued.TrustBundle.PEM {
			t.Errorf("%s: statements and what older agents are given differ", name)
		}
	}
}

func TestAPollTellsOfTheBundleAndOfRefusals(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	poll := func(headers ...string) reply {
		return a.send(http.MethodGet, agentwire.PathWait, "wait_seconds=1", nil, headers...)
	}
	progress := func() signer.Progress {
		t.Helper()
		b, err := p.signer.CurrentBundle(p.ctx)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.signer.Progress(p.ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := progress(); got.Nodes != 1 || got.NodesBehind != 1 || got.Sample[0] != a.node {
		t.Errorf("an agent that does not say: %+v", got)
	}
	poll(agentwire.HeaderTrustBundle, a.issued.TrustBundle.Fingerprint).want(http.StatusNoContent, "")
	if got := progress(); got.NodesBehind != 0 {
		t.Errorf("an agent that has it: %+v", got)
	}
	for range 2 { // told with every poll, noted once
		poll(agentwire.HeaderTrustBundle, a.issued.TrustBundle.Fingerprint, agentwire.HeaderTrustRefused,
			"trust_unsigned verifiers").
			want(http.StatusNoContent, "")
	}
	n, err := p.nodes.Node(p.ctx, a.node)
	if err != nil || n.TrustRefused != "trust_unsigned verifiers" {
		t.Errorf("%q %v", n.TrustRefused, err)
	}
	var audits int
	if err := p.db.QueryRow(p.ctx,
		`SELECT count(*) FROM audit_logs WHERE action = 'node.trust_refused' AND result = 'denied'`).
		Scan(&audits); err != nil || audits != 1 {
		t.Errorf("%d audit entries, %v", audits, err)
	}
	poll(agentwire.HeaderTrustBundle, "x").want(http.StatusBadRequest, "invalid_request")
	poll(agentwire.HeaderTrustBundle, strings.Repeat("0", 64), agentwire.HeaderTrustRefused, "<b>").
		want(http.StatusBadRequest, "invalid_request")
}

// A refusal is worth an entry in the audit log, the history and the outbox. A
// node that says another one with every poll does not fill them.
func TestAttackANodeRefusesSomethingElseWithEveryPoll(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	poll := func(refused string) {
		t.Helper()
		a.send(http.MethodGet, agentwire.PathWait, "wait_seconds=1", nil,
			agentwire.HeaderTrustBundle, a.issued.TrustBundle.Fingerprint, agentwire.HeaderTrustRefused, refused).
			want(http.StatusNoContent, "")
	}
	noted := func(want int, last string) {
		t.Helper()
		var audits int
		err := p.db.QueryRow(p.ctx, `SELECT count(*) FROM audit_logs WHERE action = 'node.trust_refused'`).Scan(&audits)
		if err != nil || audits != want {
			t.Errorf("%d audit entries, want %d: %v", audits, want, err)
		}
		if n, err := p.nodes.Node(p.ctx, a.node); err != nil || n.TrustRefused != last {
			t.Errorf("%q is noted, want %q: %v", n.TrustRefused, last, err)
		}
	}
	for _, refused := range []string{"trust_unsigned verifiers", "trust_unsigned node_issuer", "trust_too_far verifiers"} {
		poll(refused)
	}
	noted(1, "trust_unsigned verifiers")
	p.pass(2 * time.Minute)
	poll("made_up nonsense")
	p.pass(2 * time.Minute)
	poll("more nonsense") // words that nobody knows are all the same
	noted(2, "trust_other unknown")
}

// A replica that still remembers the former issuer of node certificates asks the
// secrets engine before it says so, and says nothing new when that is away.
func TestAttackALateReplicaNamesTheFormerIssuer(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	p := newPlane(t, e)
	a := p.active(t, "gpu-1")
	successor := newAuthority(t, "next node CA", nil)
	e.mu.Lock()
	e.nodes, e.nodeCA = successor, successor.pem
	e.mu.Unlock()
	other := func(context.Context, string) (string, error) { return successor.pem, nil } // replica, which is not late
	if _, err := p.signer.Statements(p.ctx, domain, other); err != nil {
		t.Fatal(err)
	}
	p.pass(2 * time.Hour)
	for _, away := range []error{fault.New(fault.Unavailable, "secrets_unavailable", "away"), nil} {
		e.breaks(away)
		var asked agentwire.TrustAnswer
		a.get(agentwire.PathTrust, "").want(http.StatusOK, "").into(&asked)
		if st := asked.Statements[1]; st.Version != 2 || st.PEM != successor.pem {
			t.Errorf("engine away: %v: version %d of the issuer", away, st.Version)
		}
		p.pass(time.Minute)
	}
	// It has learnt what the others know: a certificate of the former issuer is not believed any more.
	a.get(agentwire.PathTrust, "").want(http.StatusUnauthorized, agentwire.CodeCertificateUnknown)
}

// The listener does not show a certificate that nodes cannot verify while it
// has another, and the authority that it shows cannot be dropped.
func TestTheListenerAndItsBundleStayTogether(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	p := newPlane(t, e)
	before := p.trust.Leaf()
	next := newAuthority(t, "next control plane CA", nil)
	e.mu.Lock()
	e.other = next
	e.mu.Unlock()
	p.pass(21 * 24 * 3600e9) // the certificate is due
	if err := p.trust.Refresh(t.Context()); fault.CodeOf(err) != "listener_not_in_bundle" || p.trust.Leaf() != before {
		t.Fatalf("a certificate of an authority that no node knows is shown: %v", err)
	}
	both, err := p.signer.AddAuthority(p.ctx, next.pem, "rotation")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.trust.Refresh(t.Context()); err != nil || p.trust.Leaf() == before {
		t.Fatalf("the new certificate is not used: %v", err)
	}
	if _, err := p.signer.RemoveAuthority(p.ctx, signer.Authority(both.Authorities[1]), "wrong one",
		true); fault.CodeOf(err) != "trust_authority_in_use" {
		t.Errorf("the authority of the listener is dropped: %v", err)
	}
	if b, err := p.signer.RemoveAuthority(p.ctx, signer.Authority(both.Authorities[0]), "rotation", false); err != nil ||
		len(b.Authorities) != 1 {
		t.Errorf("the former authority is not dropped: %+v %v", b, err)
	}
}
