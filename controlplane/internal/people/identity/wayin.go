package identity

import (
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// lastingWayIn is how long a token must still be valid to count as a lasting
// way in. endSoon is how long before the end of the last one operators are
// warned.
const (
	lastingWayIn = 24 * time.Hour
	endSoon      = 30 * 24 * time.Hour
)

// waysIn are the ways to administer the platform at one moment: administrators
// who are linked to the configured identity provider, and tokens of
// administrators without scopes.
type waysIn struct {
	linked int64
	tokens []Token // the one that ends last comes first
}

// lasting counts the ways in that will still exist tomorrow. It does not count
// sessions.
func (w waysIn) lasting(now time.Time) int {
	n := int(w.linked)
	for _, t := range w.tokens {
		if t.Kind == TokenAPI && t.ExpiresAt.Sub(now) > lastingWayIn {
			n++
		}
	}
	return n
}

func (w waysIn) any() int { return int(w.linked) + len(w.tokens) }

// givenAway reports whether a change ended the last way in: the last lasting
// one or, if there was no lasting one, the last of all.
func givenAway(before, after waysIn, now time.Time) bool {
	if after.lasting(now) > 0 {
		return false
	}
	return before.lasting(now) > 0 || before.any() > 0 && after.any() == 0
}

const codeLastWayIn = "last_way_in"

func lastWayIn() error {
	return fault.New(fault.Conflict, codeLastWayIn,
		"nobody could administer the platform after this: it ends the last way in").
		WithRemedy("make another way in first: an administrator who has signed in through the identity provider, " +
			"or, on the machine of the control plane, a new token with gpuaas admin recover")
}

// AccessEnd is when nobody can administer the platform any more, unless
// somebody acts before.
type AccessEnd struct {
	At    time.Time
	Token Token // the last one
}
