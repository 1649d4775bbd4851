package agentpackage

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// MaxSize limits an archive; agents refuse larger ones, too.
const MaxSize = 256 << 20

const longestNotes = 4000

// Architectures are those that agents are built for, in Go's words.
var Architectures = []string{"amd64", "arm64"}

// Statement is what the holder of a release key says about an archive. Its fields are
// in the order of their names, so that its JSON form is always the same.
type Statement struct {
	Architecture        string `json:"architecture"`
	Commit              string `json:"commit"`
	Digest              string `json:"digest"` // SHA-256 of the archive, in hexadecimal digits
	MinimumControlPlane string `json:"minimum_control_plane"`
	Notes               string `json:"notes"`
	ProtocolMax         int32  `json:"protocol_max"`
	ProtocolMin         int32  `json:"protocol_min"`
	Size                int64  `json:"size"`
	Version             string `json:"version"`
}

// Signed is a statement with the signature of a release key. Its JSON form is the file
// that lies beside an archive.
type Signed struct {
	Statement Statement `json:"statement"`
	KeyID     string    `json:"key_id"`
	Signature []byte    `json:"signature"`
}

var (
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	commitForm = regexp.MustCompile(`^[0-9a-f]{7,40}$`)
)

// Check refuses a statement that says nothing sound. It names the field.
func (s Statement) Check() (field, problem string) {
	_, versioned := ParseVersion(s.Version)
	_, minimum := ParseVersion(s.MinimumControlPlane)
	switch {
	case !versioned:
		return "version", "must be a version such as 1.4.0 or 1.5.0-rc.1: releases have an order"
	case !commitForm.MatchString(s.Commit):
		return "commit", "must be 7 to 40 hexadecimal digits: what was built from unknown source is no release"
	case s.Architecture != "amd64" && s.Architecture != "arm64":
		return "architecture", "must be amd64 or arm64"
	case !digestForm.MatchString(s.Digest):
		return "digest", "must be a SHA-256 of 64 hexadecimal digits, in lower case"
	case s.Size < 1 || s.Size > MaxSize:
		return "size", fmt.Sprintf("must be 1 to %d bytes", MaxSize)
	case s.MinimumControlPlane != "" && !minimum:
		return "minimum_control_plane", "must be a version such as 1.4.0, or empty"
	case s.ProtocolMin < 1 || s.ProtocolMax < s.ProtocolMin:
		return "protocol_min", "must be 1 or more, and not above protocol_max"
	case len(s.Notes) > longestNotes || !utf8.ValidString(s.Notes):
		return "notes", fmt.Sprintf("must be UTF-8 text of at most %d bytes", longestNotes)
	}
	return "", ""
}

// domain keeps a signature of a release from being one of anything else.
const domain = "gpuaas agent release v1\n"

// SignedBytes are the bytes that a release key signs.
func (s Statement) SignedBytes() []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("encode statement: %v", err)) // words and numbers only
	}
	return append([]byte(domain), text...)
}

// KeyID names a release key by its public half.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Sign signs a statement.
func Sign(s Statement, key ed25519.PrivateKey) (Signed, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok || len(key) != ed25519.PrivateKeySize {
		return Signed{}, fmt.Errorf("sign release %s: this is no Ed25519 key", s.Version)
	}
	return Signed{Statement: s, KeyID: KeyID(public), Signature: ed25519.Sign(key, s.SignedBytes())}, nil
}

// By reports whether one of the keys signed the statement.
func (s Signed) By(keys []ed25519.PublicKey) bool {
	for _, k := range keys {
		if KeyID(k) == s.KeyID && ed25519.Verify(k, s.Statement.SignedBytes(), s.Signature) {
			return true
		}
	}
	return false
}
