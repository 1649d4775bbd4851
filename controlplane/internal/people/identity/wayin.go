package identity

import (
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// lastingWayIn is how long a token must still work to count as more than a way
// in for the moment, and endSoon how long before its end the last one is told of.
const (
	lastingWayIn = 24 * time.Hour
	endSoon      = 30 * 24 * time.Hour
)

// waysIn are the ways by which people can administer the platform at one moment:
// administrators who have signed in through the identity provider that is
// configured, and tokens of administrators that no scope narrows.
type waysIn struct {
	linked int64
	tokens []Token // the one that ends last comes first
}

// lasting counts the ways that will still be there tomorrow. A session is none.
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

// givenAway reports whether a change ended the last way in: the last that lasts,
// or, where none lasted, the last of all.
func givenAway(before, after waysIn, now time.Time) bool {
	if after.lasting(now) > 0 {
		return false
	}
	return before.lasting(now) > 0 || before.any() > 0 && after.any() == 0
}

const codeLastWayIn = "last_way_in"

func lastWayIn() error {
	return fault.New(fault.Conflict, codeLastWayIn, "nobody could administer the platform after this: it ends the last way in").
		WithRemedy("make another way in first: an administrator who has signed in through the identity provider, " +
			"or, on the machine of the control plane, a new token with gpuaas admin recover")
}

// AccessEnd is when nobody can administer the platform any more, unless somebody
// does something.
type AccessEnd struct {
	At    time.Time
	Token Token // that is the last
}
