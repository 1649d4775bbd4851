package agentwire_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

const trustDomain = "prod.example.com"

func vouched(tb testing.TB, st agentwire.Statement, by ...string) agentwire.Statement {
	tb.Helper()
	message, err := st.SignedBytes()
	if err != nil {
		tb.Fatal(err)
	}
	st.Signatures = nil
	for _, name := range by {
		st.Signatures = append(st.Signatures, agentwire.StatementSignature{
			Signer:    name,
			Signature: ed25519.Sign(keyOf(name), message),
		})
	}
	return st
}

// successor is a statement that a node with set() believes once it is signed.
func successor() agentwire.Statement {
	next := agentwire.VerifierSet{Version: 4, Verifiers: []agentwire.Verifier{verifier("new"), verifier("newer")}}
	return agentwire.Statement{About: agentwire.AboutVerifiers, Domain: trustDomain, Version: 4, Verifiers: &next}
}

func caPEM(tb testing.TB) string {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestAStatementOfATrustedKeyIsBelieved(t *testing.T) {
	for _, by := range [][]string{{"old"}, {"new"}, {"stranger", "old"}, {"stolen", "new"}} {
		if newer, refusal := set().Believe(vouched(t, successor(), by...), trustDomain, 3); !newer || refusal != nil {
			t.Errorf("signed by %v: %v %v", by, newer, refusal)
		}
	}
	for _, about := range []string{agentwire.AboutIssuer, agentwire.AboutBundle} {
		st := vouched(t, agentwire.Statement{About: about, Domain: trustDomain, Version: 900, PEM: caPEM(t)}, "old")
		if newer, refusal := set().Believe(st, trustDomain, 0); !newer || refusal != nil {
			t.Errorf("%s, of which the node has no version: %v %v", about, newer, refusal)
		}
	}
	for _, present := range []int64{4, 5} {
		if newer, refusal := set().Believe(vouched(t, successor(), "old"), trustDomain, present); newer || refusal != nil {
			t.Errorf("played back to a node at %d: %v %v", present, newer, refusal)
		}
	}
}

func TestAttackForgedStatementsAreNotBelieved(t *testing.T) {
	task := signed(t, envelope())
	for name, c := range map[string]struct {
		st   agentwire.Statement
		want string
	}{
		"signed by nobody":        {successor(), agentwire.CodeTrustUnsigned},
		"signed by a stranger":    {vouched(t, successor(), "stranger", "newer"), agentwire.CodeTrustUnsigned},
		"signed by a revoked key": {vouched(t, successor(), "stolen"), agentwire.CodeTrustUnsigned},
		"under a foreign name":    {renamed(vouched(t, successor(), "stranger"), "old"), agentwire.CodeTrustUnsigned},
		"with a task's signature": {
			withSignature(successor(), task.SignerVersion, task.Signature),
			agentwire.CodeTrustUnsigned,
		},
		"for another environment": {vouched(t, changed(successor(), func(s *agentwire.Statement) { s.Domain = "lab" }),
			"old"), agentwire.CodeTrustOtherDomain},
		"of another subject": {changed(vouched(t, successor(), "old"),
			func(s *agentwire.Statement) { s.About = agentwire.AboutBundle }), agentwire.CodeTrustMalformed},
		"with another version": {changed(vouched(t, successor(), "old"),
			func(s *agentwire.Statement) { s.Version, s.Verifiers.Version = 5, 5 }), agentwire.CodeTrustUnsigned},
		"with another key": {changed(vouched(t, successor(), "old"),
			func(s *agentwire.Statement) { s.Verifiers.Verifiers[1] = verifier("mine") }), agentwire.CodeTrustUnsigned},
		"of two versions": {
			vouched(t, changed(successor(), func(s *agentwire.Statement) { s.Version = 5 }), "old"),
			agentwire.CodeTrustMalformed,
		},
		"without a key in it": {
			vouched(t,
				changed(successor(), func(s *agentwire.Statement) { s.Verifiers.Verifiers = nil }), "old"),
			agentwire.CodeTrustMalformed,
		},
		"with a jump": {
			vouched(t,
				changed(successor(), func(s *agentwire.Statement) { s.Version, s.Verifiers.Version = 68, 68 }), "old"),
			agentwire.CodeTrustTooFar,
		},
		"that revokes its signer": {
			vouched(t,
				changed(successor(), func(s *agentwire.Statement) { s.Verifiers.Revoked = []string{"old"} }), "old"),
			agentwire.CodeTrustUnsigned,
		},
		"with too many signatures": {
			vouched(t, successor(), "a", "b", "c", "d", "e", "f", "g", "h", "old"),
			agentwire.CodeTrustMalformed,
		},
		"about an issuer of no CAs": {
			vouched(t,
				agentwire.Statement{About: agentwire.AboutIssuer, Domain: trustDomain, Version: 4, PEM: "none"}, "old"),
			agentwire.CodeTrustMalformed,
		},
	} {
		if newer, refusal := set().Believe(c.st, trustDomain, 3); newer || refusal == nil || refusal.Code != c.want ||
			refusal.Detail == "" {
			t.Errorf("a statement %s: %v %v, want %s", name, newer, refusal, c.want)
		}
	}
}

func changed(st agentwire.Statement, change func(*agentwire.Statement)) agentwire.Statement {
	change(&st)
	return st
}

func renamed(st agentwire.Statement, name string) agentwire.Statement {
	st.Signatures[0].Signer = name
	return st
}

func withSignature(st agentwire.Statement, signer string, signature []byte) agentwire.Statement {
	st.Signatures = []agentwire.StatementSignature{{Signer: signer, Signature: signature}}
	return st
}

// A generation that is too far ahead would lock the node out of all later
// tasks.
func TestAttackAGenerationFarAheadIsRefused(t *testing.T) {
	for ahead, want := range map[int64]agentwire.Reason{
		0: "", agentwire.MaxGenerationJump: "", agentwire.MaxGenerationJump + 1: agentwire.RefusedGenerationJump,
		1 << 60: agentwire.RefusedGenerationJump,
	} {
		e := envelope()
		e.Generation = 4 + ahead
		_, refusal := set().Verify(signed(t, e), node, 4, noon)
		if want == "" && refusal != nil || want != "" && (refusal == nil || refusal.Reason != want) {
			t.Errorf("%d ahead: %v", ahead, refusal)
		}
	}
}
