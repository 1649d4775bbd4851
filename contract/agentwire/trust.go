package agentwire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// trustSigning keeps signatures of what nodes trust apart from those of tasks
// and packages, which use the same keys.
const trustSigning = "gpuaas-node-trust-v1\n"

// What a statement is about.
const (
	AboutVerifiers = "verifiers"       // the keys that tasks are signed with
	AboutIssuer    = "node_issuer"     // the CA of node certificates
	AboutBundle    = "listener_bundle" // the CAs of the control plane's listener
)

// Limits of what a node takes over by itself. A node that is further behind was
// away too long, and comes back with a recovery token.
const (
	// MaxTrustJump is how much newer than the node's own the version of a
	// statement may be.
	MaxTrustJump = 64
	// MaxGenerationJump is how much newer than the node's own the generation of
	// a task may be.
	MaxGenerationJump = 16
	// MaxSignatures is how many keys may sign one statement.
	MaxSignatures = 8
	maxAuthority  = 64 << 10
)

// Statement tells nodes what to trust from now on. A node believes it only if a
// key that it trusts already has signed it: whoever ends TLS cannot make one.
// Enrolment is the exception; there a token and the pinned CA are the beginning
// of all trust.
type Statement struct {
	About   string `json:"about"`
	Domain  string `json:"trust_domain"`
	Version int64  `json:"version"`
	// Verifiers is set if the statement is about them, PEM otherwise.
	Verifiers  *VerifierSet         `json:"verifiers,omitempty"`
	PEM        string               `json:"pem,omitempty"`
	Signatures []StatementSignature `json:"signatures"`
}

// StatementSignature is the signature of one key. A statement has several, so
// that nodes which missed a change of keys find one that they know.
type StatementSignature struct {
	Signer    string `json:"signer"`
	Signature []byte `json:"signature"`
}

// TrustAnswer is everything that a node shall trust, as statements.
type TrustAnswer struct {
	Statements []Statement `json:"statements"`
}

// Codes of refusals to trust.
const (
	CodeTrustMalformed   = "trust_malformed"
	CodeTrustOtherDomain = "trust_other_domain"
	CodeTrustUnsigned    = "trust_unsigned"
	CodeTrustTooFar      = "trust_too_far"
	CodeTrustUnfit       = "trust_does_not_fit" // it would cut the node off
	CodeGenerationJump   = "generation_jump"
)

// AboutGeneration is the subject of a refused jump of the generation.
const AboutGeneration = "generation"

// KnownRefusal says whether a node of this version can refuse something with
// this code and subject.
func KnownRefusal(code, about string) bool {
	switch code {
	case CodeGenerationJump:
		return about == AboutGeneration
	case CodeTrustMalformed, CodeTrustOtherDomain, CodeTrustUnsigned, CodeTrustTooFar, CodeTrustUnfit:
		return about == AboutVerifiers || about == AboutIssuer || about == AboutBundle
	}
	return false
}

// TrustRefusal says why a node does not take something over.
type TrustRefusal struct { //nolint:errname // a word of the contract
	Code   string `json:"code"`
	About  string `json:"about"`
	Detail string `json:"detail"`
}

func (r *TrustRefusal) Error() string { return r.Detail + " (" + r.Code + ", " + r.About + ")" }

// Distrust makes a refusal.
func Distrust(code, about, format string, args ...any) *TrustRefusal {
	return &TrustRefusal{Code: code, About: about, Detail: fmt.Sprintf(format, args...)}
}

// SignedBytes returns what the signatures cover: everything but themselves, and
// the content by its digest.
func (s Statement) SignedBytes() ([]byte, error) {
	if !utf8.ValidString(s.About) || !utf8.ValidString(s.Domain) {
		return nil, errors.New("a field of the statement is not valid UTF-8")
	}
	content := []byte(s.PEM)
	if s.Verifiers != nil {
		raw, err := json.Marshal(s.Verifiers)
		if err != nil {
			return nil, fmt.Errorf("encode verifier set: %w", err)
		}
		if content, err = Canonical(raw); err != nil {
			return nil, fmt.Errorf("canonical verifier set: %w", err)
		}
	}
	digest := sha256.Sum256(content)
	plain, err := json.Marshal(map[string]string{
		"about": s.About, "trust_domain": s.Domain, "version": strconv.FormatInt(s.Version, 10),
		"content_sha256": hex.EncodeToString(digest[:]),
	})
	if err != nil {
		return nil, fmt.Errorf("encode statement: %w", err)
	}
	canonical, err := Canonical(plain)
	if err != nil {
		return nil, fmt.Errorf("canonical statement: %w", err)
	}
	return append([]byte(trustSigning), canonical...), nil
}

// Validate says what is wrong with a statement, signed or not.
func (s Statement) Validate() error {
	switch {
	case s.Version < 1:
		return fmt.Errorf("version %d is none", s.Version)
	case len(s.Signatures) > MaxSignatures:
		return fmt.Errorf("it has %d signatures, more than %d", len(s.Signatures), MaxSignatures)
	case s.About == AboutVerifiers && s.PEM == "" && s.Verifiers != nil && s.Verifiers.Version == s.Version:
		return s.Verifiers.Validate()
	case (s.About == AboutIssuer || s.About == AboutBundle) && s.Verifiers == nil && len(s.PEM) <= maxAuthority:
		_, err := Authorities(s.PEM)
		return err
	}
	return fmt.Errorf("its content is not what one about %q has", s.About)
}

// Authorities reads the certificates of a bundle.
func Authorities(bundle string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for rest := []byte(bundle); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate: %w", err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return out, nil
}

// BundleFingerprint is how agents and control plane name a bundle: the SHA-256
// of its text, in hex.
func BundleFingerprint(bundle string) string {
	sum := sha256.Sum256([]byte(bundle))
	return hex.EncodeToString(sum[:])
}

// Believe decides whether a node that uses this set takes over a statement.
// present is the node's version of the same thing, or 0 if it does not know. A
// statement that is not newer is neither believed nor refused.
func (s VerifierSet) Believe(st Statement, domain string, present int64) (newer bool, refusal *TrustRefusal) {
	if err := st.Validate(); err != nil {
		return false, Distrust(CodeTrustMalformed, st.About, "the statement cannot be used: %v", err)
	}
	if st.Version <= present {
		return false, nil // late or replayed: it changes nothing
	}
	if st.Domain != domain {
		return false, Distrust(CodeTrustOtherDomain, st.About,
			"the statement is for trust domain %q, this node belongs to %q", st.Domain, domain)
	}
	signed, err := st.SignedBytes()
	if err != nil {
		return false, Distrust(CodeTrustMalformed, st.About, "the statement has no canonical form: %v", err)
	}
	if !s.signedBy(st, signed) {
		return false, Distrust(CodeTrustUnsigned, st.About,
			"version %d is signed by no key that this node trusts (it uses verifier set %d): it is forged, or the node was "+
				"away too long, or every key that it knew was revoked",
			st.Version, s.Version)
	}
	if present > 0 && st.Version-present > MaxTrustJump {
		return false, Distrust(CodeTrustTooFar, st.About,
			"version %d is more than %d ahead of version %d of this node: it was away too long",
			st.Version, MaxTrustJump, present)
	}
	return true, nil
}

// signedBy looks for one good signature of a key in this set. A key that either
// set calls revoked does not count, least of all for its own succession.
func (s VerifierSet) signedBy(st Statement, signed []byte) bool {
	for _, sig := range st.Signatures {
		if slices.Contains(s.Revoked, sig.Signer) || st.Verifiers != nil &&
			slices.Contains(st.Verifiers.Revoked, sig.Signer) {
			continue
		}
		for _, v := range s.Verifiers {
			if v.ID == sig.Signer && len(v.PublicKey) == ed25519.PublicKeySize &&
				ed25519.Verify(v.PublicKey, signed, sig.Signature) {
				return true
			}
		}
	}
	return false
}
