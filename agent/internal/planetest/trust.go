package planetest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"

	"gpuaas/contract/agentwire"
)

// Trust is what a plane says about whom to trust.
type Trust struct {
	// Unsigned acts as a control plane of the previous version, which signs
	// nothing.
	Unsigned bool
	// IssuerVersion and BundleVersion are 1 when not set.
	IssuerVersion, BundleVersion int64
	// Forge changes what comes with a certificate before it is sent.
	Forge func(*agentwire.Issued)
	// Signers sign statements in addition to the signer of the plane, by id.
	Signers map[string]ed25519.PrivateKey
}

// BundleOf returns a trust bundle in the form that control planes send beside
// the statement.
func BundleOf(version, authorities string) agentwire.TrustBundle {
	sum := sha256.Sum256([]byte(authorities))
	return agentwire.TrustBundle{Version: version, PEM: authorities, Fingerprint: hex.EncodeToString(sum[:])}
}

// Domain is the trust domain of the plane.
const Domain = "test"

// Statements returns what the plane says now, signed.
func (p *Plane) Statements() []agentwire.Statement {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statements()
}

// statements must be called with the lock held.
func (p *Plane) statements() []agentwire.Statement {
	if p.trust.Unsigned {
		return nil
	}
	verifiers := p.verifiers
	out := []agentwire.Statement{
		{About: agentwire.AboutVerifiers, Version: verifiers.Version, Verifiers: &verifiers},
		{About: agentwire.AboutIssuer, Version: max(p.trust.IssuerVersion, 1), PEM: p.nodes.pem()},
		{About: agentwire.AboutBundle, Version: max(p.trust.BundleVersion, 1), PEM: p.bundle.PEM},
	}
	for i := range out {
		out[i].Domain = Domain
		out[i] = p.State(out[i])
	}
	return out
}

// State signs a statement as it is, as the control plane would.
func (p *Plane) State(s agentwire.Statement) agentwire.Statement {
	p.tb.Helper()
	signed, err := s.SignedBytes()
	if err != nil {
		p.tb.Fatal(err)
	}
	s.Signatures = []agentwire.StatementSignature{{Signer: Signer, Signature: ed25519.Sign(p.signer, signed)}}
	for id, key := range p.trust.Signers {
		s.Signatures = append(s.Signatures, agentwire.StatementSignature{Signer: id, Signature: ed25519.Sign(key, signed)})
	}
	return s
}

func (p *Plane) trusted(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trust.Unsigned {
		no(w, http.StatusNotFound, "not_found", "there is no such operation")
		return
	}
	answer(w, agentwire.TrustAnswer{Statements: p.statements()})
}

// Thief returns somebody who has stolen the key and the certificate of the
// listener, and nothing else: neither the CAs nor the signing keys. Once the
// plane is stopped and the thief started, it answers at the same address. It
// signs with its own key under the name of the real one.
func (p *Plane) Thief() *Plane {
	p.tb.Helper()
	t := New(p.tb)
	t.Stop()
	t.thief, t.identity, t.address = true, p.identity, p.address
	return t
}

// NextListener makes the authority that issues the next certificate of the
// listener. swap makes the next Start use a certificate of it.
func (p *Plane) NextListener() (authority string, swap func()) {
	p.tb.Helper()
	next := newAuthority(p.tb, "next control plane CA")
	identity := next.serverCertificate(p.tb, "localhost")
	return next.pem(), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.server, p.identity = next, identity
	}
}

// SecondSigner makes a key that is not in the set of the plane.
func SecondSigner(tb testing.TB, id string) (agentwire.Verifier, ed25519.PrivateKey) {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return agentwire.Verifier{ID: id, PublicKey: public, State: "staged"}, private
}
