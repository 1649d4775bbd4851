package agentwire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// PathHostKeys takes the public keys by which the SSH server of a node proves
// that it is that node. Older control planes lack it.
const PathHostKeys = "/internal/v1/nodes/{node_id}/host-keys"

// Bounds of what a node says about its host keys: several times what a machine
// has, and RSA keys of 16,384 bits.
const (
	MaxHostKeys    = 16
	MaxHostKeyText = 4096
)

// HostKeysRequest is the host keys of a node, sorted: each an algorithm and a
// public key in base64, with one space between them and nothing after them.
type HostKeysRequest struct {
	Keys []string `json:"keys"`
}

// Validate says why this cannot be the host keys of a machine.
func (r HostKeysRequest) Validate() error {
	if len(r.Keys) == 0 || len(r.Keys) > MaxHostKeys {
		return fmt.Errorf("a machine has between 1 and %d host keys, not %d", MaxHostKeys, len(r.Keys))
	}
	for i, line := range r.Keys {
		if _, err := ParseHostKey(line); err != nil {
			return fmt.Errorf("host key %d: %w", i+1, err)
		}
	}
	if !slices.IsSorted(r.Keys) || len(slices.Compact(slices.Clone(r.Keys))) != len(r.Keys) {
		return errors.New("host keys are sorted, and each is there once")
	}
	return nil
}

// HostKey is one public key of an SSH server.
type HostKey struct {
	Algorithm   string
	Fingerprint string // SHA256:…, as OpenSSH shows it
}

// hostKeyFields is how many fields a public key has after the name of its
// algorithm. What is not here, such as DSA, is no key to trust a machine by.
var hostKeyFields = map[string]int{
	"ssh-ed25519": 1, "ssh-rsa": 2, "ecdsa-sha2-nistp256": 2, "ecdsa-sha2-nistp384": 2, "ecdsa-sha2-nistp521": 2,
}

// ParseHostKey reads a line of HostKeysRequest. It refuses what OpenSSH would not
// take for the same key, so that a line can go into a known_hosts as it is.
func ParseHostKey(line string) (HostKey, error) {
	if len(line) > MaxHostKeyText {
		return HostKey{}, fmt.Errorf("it is longer than %d characters", MaxHostKeyText)
	}
	algorithm, text, ok := strings.Cut(line, " ")
	fields, known := hostKeyFields[algorithm]
	if !ok || !known {
		return HostKey{}, errors.New("it is not an algorithm for host keys that we know, a space and a key")
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(blob) != text {
		return HostKey{}, errors.New("its key is not base64")
	}
	name, rest, ok := cutField(blob)
	if !ok || string(name) != algorithm {
		return HostKey{}, errors.New("its key is of another algorithm than it says")
	}
	for range fields {
		var field []byte
		if field, rest, ok = cutField(rest); !ok || len(field) == 0 || algorithm == "ssh-ed25519" && len(field) != 32 {
			return HostKey{}, errors.New("its key is cut short or none")
		}
	}
	if len(rest) != 0 {
		return HostKey{}, errors.New("there is something behind its key")
	}
	sum := sha256.Sum256(blob)
	return HostKey{Algorithm: algorithm, Fingerprint: "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])}, nil
}

// cutField cuts off the first string of the binary form of SSH (RFC 4251).
func cutField(raw []byte) (field, rest []byte, ok bool) {
	if len(raw) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(raw)
	if int64(n) > int64(len(raw)-4) {
		return nil, nil, false
	}
	return raw[4 : 4+n], raw[4+n:], true
}
