package node

import (
	"slices"
	"time"

	"gpuaas/contract/agentwire"
)

// HostKey is a public key by which people recognise a node over SSH.
type HostKey struct {
	Algorithm   string
	Line        string // algorithm and key, as known_hosts has them
	Fingerprint string // SHA256:…
}

// HostKeys are those of the installation that a node runs on.
type HostKeys struct {
	Keys []HostKey // what people shall find there; empty: nobody knows
	// ChangedAt is since when the agent says other keys than these, although the
	// node was not reinstalled; nil: it does not.
	ChangedAt *time.Time
	Reported  []HostKey // what the agent says now
}

// hostKeys leaves out what is no key: it was checked when it was stored.
func hostKeys(lines []string) []HostKey {
	out := []HostKey{}
	for _, line := range lines {
		if k, err := agentwire.ParseHostKey(line); err == nil {
			out = append(out, HostKey{Algorithm: k.Algorithm, Line: line, Fingerprint: k.Fingerprint})
		}
	}
	return out
}

// fingerprints names keys for people.
func fingerprints(lines []string) []string {
	out := []string{}
	for _, k := range hostKeys(lines) {
		out = append(out, k.Algorithm+" "+k.Fingerprint)
	}
	return out
}

// among says whether all keys are among others. A machine that lost a key is
// still recognised by the rest.
func among(keys, others []string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(others, k) })
}
