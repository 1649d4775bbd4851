package signer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/signer"
)

const trustDomain = "test.example.com"

// authority is the certificate of a CA, valid for a year.
func authority(tb testing.TB, name string, ca bool) string {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: ca, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// says returns what nodes are told to trust now.
func (w *world) says(tb testing.TB, ca string) []agentwire.Statement {
	tb.Helper()
	if _, err := w.service.Bundle(w.ctx, ca); err != nil {
		tb.Fatal(err)
	}
	out, err := w.service.Statements(w.ctx, trustDomain, func(context.Context, string) (string, error) { return ca, nil })
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// believes says whether a node with a set takes over the newest verifiers.
func believes(set agentwire.VerifierSet, statements []agentwire.Statement) string {
	newer, refusal := set.Believe(statements[0], trustDomain, set.Version)
	switch {
	case refusal != nil:
		return refusal.Code
	case !newer:
		return "not newer"
	}
	return ""
}

// change replaces the signer by another one, up to the retirement of the
// former.
func (w *world) change(tb testing.TB) {
	tb.Helper()
	w.pass(time.Minute)
	w.rotate(tb, false)
	w.deliver(tb, w.one, w.two)
	w.tend(tb)
	w.pass(grace)
	w.tend(tb)
	w.deliver(tb, w.one, w.two)
}

func TestANodeThatMissedChangesOfTheSignerTakesTheNewestOver(t *testing.T) {
	w := newWorld(t)
	ca := authority(t, "CA", true)
	away := w.fleet.set(w.one)
	if got := believes(away, w.says(t, ca)); got != "not newer" {
		t.Errorf("what it has already: %s", got)
	}
	for range 3 {
		w.change(t)
	}
	statements := w.says(t, ca)
	if got := believes(away, statements); got != "" {
		t.Errorf("after three changes: %s", got)
	}
	if got := len(statements[0].Signatures); got != 4 {
		t.Errorf("%d keys have signed, want that of now and three retired ones", got)
	}
	w.keys.mu.Lock()
	signed := w.keys.signed
	w.keys.mu.Unlock()
	w.says(t, ca)
	if w.keys.signed != signed {
		t.Error("the same statements were signed again")
	}
	// If a retired key is gone from the engine, only nodes that know no other
	// key are affected.
	retired := w.all(t)[3]
	w.keys.mu.Lock()
	delete(w.keys.held, retired.KeyName)
	w.keys.mu.Unlock()
	w.service = w.replica()
	if got := believes(away, w.says(t, ca)); got != agentwire.CodeTrustUnsigned {
		t.Errorf("without its key: %s", got)
	}
}

func TestANodeThatWasAwayTooLongNeedsRecovery(t *testing.T) {
	w := newWorld(t)
	ca := authority(t, "CA", true)
	away := w.fleet.set(w.one)
	w.change(t)
	w.pass(91 * 24 * time.Hour)
	if got := believes(away, w.says(t, ca)); got != agentwire.CodeTrustUnsigned {
		t.Errorf("91 days after its key was retired: %s", got)
	}
}

// While the issuer of node certificates is replaced, replicas disagree about
// it. A node that asks them in turn must not raise the version beyond what
// others accept.
func TestAttackANodeAsksReplicasInTurnWhileTheIssuerChanges(t *testing.T) {
	w := newWorld(t)
	former, next, last := authority(t, "former", true), authority(t, "next", true), authority(t, "last", true)
	w.says(t, former)
	for range agentwire.MaxTrustJump {
		for _, replica := range []string{next, former} {
			if st := w.says(t, replica)[1]; st.Version != 2 || st.PEM != next {
				t.Fatalf("version %d of the issuer, and it is the former one: %v", st.Version, st.PEM == former)
			}
		}
	}
	w.says(t, last)
	for _, replica := range []string{former, next} {
		if st := w.says(t, replica)[1]; st.Version != 3 || st.PEM != last {
			t.Errorf("version %d of the issuer", st.Version)
		}
	}
	// A return to a former issuer is believed once no replica can be late.
	w.pass(2 * time.Hour)
	if st := w.says(t, former)[1]; st.Version != 4 || st.PEM != former {
		t.Errorf("version %d of the issuer, and it is the former one: %v", st.Version, st.PEM == former)
	}
}

// Whoever stole a signer must not decide its successor, and the control plane
// does not ask the stolen key either.
func TestAttackARevokedSignerHasNoSayInItsSuccession(t *testing.T) {
	w := newWorld(t)
	ca := authority(t, "CA", true)
	alone := w.fleet.set(w.one)
	stolen := w.in(t, signer.Active)
	w.rotate(t, false) // a successor is staged: node one learns of it, node two does not
	prepared := w.deliver(t, w.one)
	if _, err := w.service.Revoke(w.ctx, stolen.ID, "stolen", true); err != nil {
		t.Fatal(err)
	}
	statements := w.says(t, ca)
	for _, st := range statements {
		if slices.ContainsFunc(st.Signatures, func(s agentwire.StatementSignature) bool { return s.Signer == stolen.ID }) {
			t.Errorf("the revoked signer signs what nodes are to trust about %s", st.About)
		}
	}
	if got := believes(prepared, statements); got != "" {
		t.Errorf("a node that knows the successor: %s", got)
	}
	if got := believes(alone, statements); got != agentwire.CodeTrustUnsigned {
		t.Errorf("a node that knows only the revoked one: %s, want that it needs recovery", got)
	}
	// With the stolen key the thief signs the genuine statement, and one of its
	// own.
	key := w.keys.held[stolen.KeyName]
	for name, st := range map[string]agentwire.Statement{"the genuine one": statements[0], "its own": {
		About: agentwire.AboutVerifiers, Domain: trustDomain, Version: 9, Verifiers: &agentwire.VerifierSet{
			Version: 9, Verifiers: []agentwire.Verifier{{ID: "mine", PublicKey: make([]byte, 32)}},
		},
	}} {
		message, err := st.SignedBytes()
		if err != nil {
			t.Fatal(err)
		}
		st.Signatures = []agentwire.StatementSignature{{Signer: stolen.ID, Signature: ed25519.Sign(key, message)}}
		if newer, refusal := w.deliver(t, w.one).Believe(st, trustDomain, 1); newer || refusal == nil {
			t.Errorf("%s, signed by the revoked key, is believed", name)
		}
	}
}

func TestTheBundleOfTheListenerIsReplacedInSteps(t *testing.T) {
	w := newWorld(t)
	old, next := authority(t, "old", true), authority(t, "next", true)
	code := func(want string, err error) {
		t.Helper()
		if fault.CodeOf(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	_, err := w.service.AddAuthority(w.ctx, next, "rotation")
	code("trust_bundle_missing", err)
	first, err := w.service.Bundle(w.ctx, old)
	if err != nil || first.Version != 1 || len(first.Authorities) != 1 {
		t.Fatalf("%+v %v", first, err)
	}
	if again, err := w.service.Bundle(w.ctx, next); err != nil || again.Version != 1 || again.PEM != first.PEM {
		t.Errorf("another replica with another CA changed what nodes trust: %+v %v", again, err)
	}
	_, err = w.service.AddAuthority(w.ctx, authority(t, "listener", false), "rotation")
	code("trust_authority_refused", err)
	_, err = w.service.AddAuthority(w.ctx, "text", "rotation")
	code("trust_authority_refused", err)
	sent := w.fleet.distributed()
	both, err := w.service.AddAuthority(w.ctx, next, "rotation")
	if err != nil || both.Version != 2 || len(both.Authorities) != 2 || w.fleet.distributed() != sent+1 {
		t.Fatalf("%+v %v", both, err)
	}
	if same, err := w.service.AddAuthority(w.ctx, next, "rotation"); err != nil || same.Version != 2 {
		t.Errorf("what is there was added again: %+v %v", same, err)
	}
	former := signer.Authority(first.Authorities[0])
	_, err = w.service.RemoveAuthority(w.ctx, former, "rotation", false)
	code("trust_bundle_not_taken_over", err)
	if p, err := w.service.Progress(w.ctx, both); err != nil || p.Nodes != 2 || p.NodesBehind != 2 {
		t.Errorf("%+v %v", p, err)
	}
	w.fleet.mu.Lock()
	w.fleet.bundles[w.one], w.fleet.bundles[w.two] = both.Fingerprint, both.Fingerprint
	w.fleet.mu.Unlock()
	_, err = w.service.RemoveAuthority(w.ctx, signer.Authority(both.Authorities[1])[:60]+"0000", "rotation", false)
	code("trust_authority_not_found", err)
	last, err := w.service.RemoveAuthority(w.ctx, former, "rotation", false)
	if err != nil || last.Version != 3 || len(last.Authorities) != 1 {
		t.Fatalf("%+v %v", last, err)
	}
	_, err = w.service.RemoveAuthority(w.ctx, signer.Authority(last.Authorities[0]), "rotation", true)
	code("trust_bundle_last_authority", err)
	var audits int
	if err := w.db.QueryRow(t.Context(),
		`SELECT count(*) FROM audit_logs WHERE action IN ('trust.add_authority', 'trust.remove_authority')`).Scan(
		&audits); err != nil || audits != 2 {
		t.Errorf("%d audit entries, %v", audits, err)
	}
}

func TestAnotherIssuerOfNodeCertificatesIsANewVersion(t *testing.T) {
	w := newWorld(t)
	one, two := authority(t, "one", true), authority(t, "two", true)
	for _, c := range []struct {
		issuer string
		want   int64
	}{{one, 1}, {one, 1}, {two, 2}, {one, 3}} {
		w.pass(2 * time.Hour)
		if st := w.says(t, c.issuer)[1]; st.About != agentwire.AboutIssuer || st.Version != c.want || st.PEM != c.issuer {
			t.Errorf("version %d of %s, want %d", st.Version, st.About, c.want)
		}
	}
}
