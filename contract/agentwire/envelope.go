package agentwire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// signingDomain keeps the signature of a task from being taken for the
// signature of anything else.
const signingDomain = "gpuaas-task-v1\n"

// MaxSkew is how far the clocks of node and control plane may differ.
const MaxSkew = 5 * time.Minute

// Envelope is a task as it is handed to a node.
type Envelope struct {
	TaskID        string          `json:"task_id"`
	NodeID        string          `json:"node_id"`
	Type          string          `json:"type"`
	Params        json.RawMessage `json:"params"`
	Generation    int64           `json:"generation"`
	Attempt       int             `json:"attempt"`
	IssuedAt      time.Time       `json:"issued_at"`
	ExpiresAt     time.Time       `json:"expires_at"`
	CorrelationID string          `json:"correlation_id"`
	TraceParent   string          `json:"trace_parent,omitempty"`
	SignerVersion string          `json:"signer_version"`
	Signature     []byte          `json:"signature"`
}

// SignedBytes returns what the signature of a task covers: every field that the
// agent acts on, and the digest of the parameters.
func (e Envelope) SignedBytes() ([]byte, error) {
	// An encoder would replace what is not text, and two different tasks could
	// get the same bytes.
	for _, text := range []string{e.TaskID, e.NodeID, e.Type, e.CorrelationID, e.TraceParent, e.SignerVersion} {
		if !utf8.ValidString(text) {
			return nil, errors.New("a field of the task is not valid UTF-8")
		}
	}
	params, err := Canonical(e.Params)
	if err != nil {
		return nil, fmt.Errorf("canonical parameters of task %s: %w", e.TaskID, err)
	}
	digest := sha256.Sum256(params)
	plain, err := json.Marshal(map[string]any{
		"task_id": e.TaskID, "node_id": e.NodeID, "type": e.Type, "params_sha256": hex.EncodeToString(digest[:]),
		"generation": strconv.FormatInt(e.Generation, 10), "attempt": e.Attempt,
		"issued_at": stamp(e.IssuedAt), "expires_at": stamp(e.ExpiresAt),
		"correlation_id": e.CorrelationID, "trace_parent": e.TraceParent, "signer_version": e.SignerVersion,
	})
	if err != nil {
		return nil, fmt.Errorf("encode task %s: %w", e.TaskID, err)
	}
	canonical, err := Canonical(plain)
	if err != nil {
		return nil, fmt.Errorf("canonical task %s: %w", e.TaskID, err)
	}
	return append([]byte(signingDomain), canonical...), nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Verifier is the public half of a key that signs tasks.
type Verifier struct {
	ID        string `json:"id"`
	PublicKey []byte `json:"public_key"`
	State     string `json:"state"` // staged, active or grace
}

// VerifierSet holds the keys whose signatures a node accepts.
type VerifierSet struct {
	Version   int64      `json:"version"`
	Verifiers []Verifier `json:"verifiers"`
	// Revoked names keys that nobody may believe any more, so that a refusal
	// can say so.
	Revoked []string `json:"revoked,omitempty"`
}

// Validate says what is wrong with a set that a node is told to use.
func (s VerifierSet) Validate() error {
	if s.Version < 1 || len(s.Verifiers) == 0 || len(s.Verifiers) > 8 {
		return fmt.Errorf("a verifier set has a version from 1 and between 1 and 8 keys; this one has version %d and %d keys",
			s.Version, len(s.Verifiers))
	}
	if len(s.Revoked) > maxRevoked {
		return fmt.Errorf("a verifier set names at most %d revoked keys", maxRevoked)
	}
	seen := map[string]bool{}
	for _, v := range s.Verifiers {
		if v.ID == "" || len(v.PublicKey) != ed25519.PublicKeySize {
			return fmt.Errorf("verifier %q is not an Ed25519 key with an id", v.ID)
		}
		if seen[v.ID] || slices.Contains(s.Revoked, v.ID) {
			return fmt.Errorf("verifier %q occurs twice, or is revoked", v.ID)
		}
		seen[v.ID] = true
	}
	return nil
}

// maxRevoked limits what a node is told about old keys.
const maxRevoked = 64

// Refusal says why an agent will not carry out a task. The agent reports it,
// and the control plane audits it.
type Refusal struct { //nolint:errname // a word of the contract
	Reason Reason
	Detail string
}

func (r *Refusal) Error() string { return "task refused (" + string(r.Reason) + "): " + r.Detail }

// Reason classifies refusals.
type Reason string

// The reasons of a refusal.
const (
	RefusedUnknownType     Reason = "unknown_type"
	RefusedBadSignature    Reason = "bad_signature"
	RefusedUnknownSigner   Reason = "unknown_signer"
	RefusedRevokedSigner   Reason = "revoked_signer"
	RefusedExpired         Reason = "expired"
	RefusedClockSkew       Reason = "clock_skew"
	RefusedWrongNode       Reason = "wrong_node"
	RefusedInvalidParams   Reason = "invalid_params"
	RefusedStaleGeneration Reason = "stale_generation"
	RefusedGenerationJump  Reason = CodeGenerationJump
)

// CodeJournalUnavailable is the code of a task that was not started because the agent
// could not write it down.
const CodeJournalUnavailable = "journal_unavailable"

// NotBegun reports whether a task that failed with a code was not started at all: the
// agent refused it, or could not write it down.
func NotBegun(code string) bool {
	switch Reason(code) {
	case RefusedUnknownType, RefusedBadSignature, RefusedUnknownSigner, RefusedRevokedSigner, RefusedExpired,
		RefusedClockSkew, RefusedWrongNode, RefusedInvalidParams, RefusedStaleGeneration, RefusedGenerationJump,
		CodeJournalUnavailable:
		return true
	}
	return false
}

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Verified is a task that may be carried out.
type Verified struct {
	Envelope
	Spec   Spec
	Params Params
}

// Verify checks everything about a task that can be checked before it is
// carried out. It checks the signature first: nothing else in an envelope means
// anything before it is known who wrote it. generation is the newest that the
// node has seen; now is the time of the control plane as far as the node knows
// it.
func (s VerifierSet) Verify(e Envelope, node string, generation int64, now time.Time) (Verified, *Refusal) {
	if r := s.checkSignature(e); r != nil {
		return Verified{}, r
	}
	switch {
	case e.NodeID != node:
		return Verified{}, refuse(RefusedWrongNode, "the task is for node %s, this is node %s", e.NodeID, node)
	case e.IssuedAt.After(now.Add(MaxSkew)):
		return Verified{}, refuse(RefusedClockSkew,
			"the task was issued at %s, in the future of this node (%s): set the clock of the node", stamp(e.IssuedAt),
			stamp(now))
	case !now.Before(e.ExpiresAt):
		return Verified{}, refuse(RefusedExpired, "the task expired at %s; it is %s", stamp(e.ExpiresAt), stamp(now))
	case e.Generation < generation:
		return Verified{}, refuse(RefusedStaleGeneration, "the task belongs to generation %d of the node, which is at %d",
			e.Generation, generation)
	case generation > 0 && e.Generation-generation > MaxGenerationJump:
		return Verified{}, refuse(RefusedGenerationJump,
			"the task belongs to generation %d, more than %d ahead of this node, which is at %d: it was away too long, "+
				"recover it with a recovery token",
			e.Generation, MaxGenerationJump, generation)
	}
	spec, known := Lookup(e.Type)
	if !known {
		return Verified{}, refuse(RefusedUnknownType, "this agent has no task type %q", e.Type)
	}
	params, err := spec.Decode(e.Params)
	if err != nil {
		return Verified{}, refuse(RefusedInvalidParams, "parameters of %s: %v", e.Type, err)
	}
	return Verified{Envelope: e, Spec: spec, Params: params}, nil
}

func (s VerifierSet) checkSignature(e Envelope) *Refusal {
	if slices.Contains(s.Revoked, e.SignerVersion) {
		return refuse(RefusedRevokedSigner, "signer %s was revoked", e.SignerVersion)
	}
	i := slices.IndexFunc(s.Verifiers, func(v Verifier) bool { return v.ID == e.SignerVersion })
	if i < 0 {
		return refuse(RefusedUnknownSigner, "verifier set %d has no signer %q", s.Version, e.SignerVersion)
	}
	signed, err := e.SignedBytes()
	if err != nil {
		return refuse(RefusedBadSignature, "the task has no canonical form: %v", err)
	}
	key := s.Verifiers[i].PublicKey
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, signed, e.Signature) {
		return refuse(RefusedBadSignature, "the signature is not one of signer %s over this task", e.SignerVersion)
	}
	return nil
}

// packageDomain keeps signatures of packages apart from those of tasks.
const packageDomain = "gpuaas-agent-package-v1\n"

// PackageSignedBytes returns what the signature of an agent package covers.
func PackageSignedBytes(version, digest string) []byte {
	return []byte(packageDomain + version + "\n" + digest + "\n")
}

// VerifyPackage checks the signature of an agent package.
func (s VerifierSet) VerifyPackage(version, digest, signer string, signature []byte) error {
	if slices.Contains(s.Revoked, signer) {
		return fmt.Errorf("signer %s of agent package %s was revoked", signer, version)
	}
	for _, v := range s.Verifiers {
		if v.ID == signer && len(v.PublicKey) == ed25519.PublicKeySize &&
			ed25519.Verify(v.PublicKey, PackageSignedBytes(version, digest), signature) {
			return nil
		}
	}
	return fmt.Errorf("the signature of agent package %s is not one of signer %q in verifier set %d", version, signer,
		s.Version)
}
