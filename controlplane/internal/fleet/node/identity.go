package node

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
)

// Purpose says what a token may be used for.
type Purpose string

// The purposes: to join the fleet, or to get a new certificate when the old one
// is lost or has expired.
const (
	Bootstrap Purpose = "bootstrap"
	Recovery  Purpose = "recovery"
)

// How long tokens live.
const (
	BootstrapTTL = 15 * time.Minute // the default
	MinTokenTTL  = time.Minute
	MaxTokenTTL  = 7 * 24 * time.Hour // a machine may take long to deploy
)

// Token is a new token. Its text is known only here.
type Token struct {
	Plain     redact.Secret
	Purpose   Purpose
	ExpiresAt time.Time
}

// Grant says what the holder of a valid token may do.
type Grant struct {
	Node      id.Node
	Purpose   Purpose
	ExpiresAt time.Time
}

// Cert is what the database keeps of a certificate.
type Cert struct {
	Serial         string // lower-case hex without colons
	KeyFingerprint string
	NotAfter       time.Time
}

// Presented is how a caller of the node-facing listener identifies itself. TLS
// proves node and serial; the rest is what the caller says.
type Presented struct {
	Node     id.Node
	Serial   string
	Instance string // fingerprint of the machine
	Session  string // one per start of the agent
	// Certificate is what TLS proved besides; only a restored control plane needs it.
	Certificate struct {
		IssuedAt, NotAfter time.Time
		KeyFingerprint     string
	}
}

// Identity is a caller that was admitted.
type Identity struct {
	Node            id.Node
	Status          Status // removing: it may only finish its node.uninstall
	Generation      int64
	OnboardingMode  Mode
	VerifierVersion int64
	TrustBundle     string // fingerprint of the bundle with which it verifies the control plane
	TrustRefused    string // what it last refused to trust
	Polled          bool   // it has polled with this identity before
}

// tokenPrefix tells people, and scanners for leaked secrets, what they found.
const tokenPrefix = "gpuaas_n"

// mint makes the text of a token: 256 random bits.
func mint() redact.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails: the runtime aborts instead
	return redact.New(tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:]))
}

// digest returns what is stored of a token. Tokens are random, so the hash
// needs no salt.
func digest(token redact.Secret) []byte {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return sum[:]
}

// wellFormed tells a token from other text without asking the database.
func wellFormed(token redact.Secret) bool { return strings.HasPrefix(token.Reveal(), tokenPrefix) }

const newTokenRemedy = "issue a new one: gpuaas node bootstrap NODE, or with --recovery for a node that had enrolled" //nolint:gosec // advice, not a secret

func tokenInvalid() error {
	return fault.New(fault.Unauthenticated, agentwire.CodeTokenInvalid,
		"the token is unknown, was revoked, or has been used by another machine").
		WithRemedy(newTokenRemedy)
}

func tokenExpired() error {
	return fault.New(fault.Unauthenticated, agentwire.CodeTokenExpired, "the token has expired").WithRemedy(newTokenRemedy)
}

func badTTL(ttl time.Duration) error {
	return fault.New(fault.Invalid, "node_token_ttl", "a token lives from %s to %s, not %s", MinTokenTTL, MaxTokenTTL, ttl)
}

func tokenUseless(s Status, p Purpose) error {
	return fault.New(fault.Conflict, "node_state_conflict", "the node is %s: a %s token would be refused there", s, p).
		WithRemedy("a node that has enrolled before takes a recovery token, one that is retired or being removed takes none")
}

func nodeFenced(s Status) error {
	return fault.New(fault.Forbidden, agentwire.CodeNodeFenced,
		"the node is %s, which keeps its agent out; its credentials are fine", s).
		WithRemedy("an operator must bring the node back first: gpuaas node show NODE has its history")
}

func certificateRevoked() error {
	return fault.New(fault.Unauthenticated, agentwire.CodeCertificateRevoked,
		"the certificate was revoked, or is not one that was issued to this node").
		WithRemedy("enrol again with a recovery token: gpuaas node bootstrap NODE --recovery")
}

func identityInUse(how string) error {
	return fault.New(fault.Conflict, agentwire.CodeIdentityInUse, "%s", how).
		WithRemedy("stop the agent that does not belong here; if this is the right machine, enrol it with a recovery token")
}
