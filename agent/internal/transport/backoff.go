package transport

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait before the next try: a random time up to a
// limit that doubles with every failure, so that a fleet does not rush at a
// control plane that comes back.
type Backoff struct {
	First, Most time.Duration
	failures    int
}

// Next returns the time to wait after another failure. The control plane may
// ask for more.
func (b *Backoff) Next(asked time.Duration) time.Duration {
	bound := b.First << min(b.failures, 16)
	if bound <= 0 || bound > b.Most {
		bound = b.Most
	}
	b.failures++
	return asked + rand.N(bound) //nolint:gosec // spreads load, hides nothing
}

// Reset starts over after a success.
func (b *Backoff) Reset() { b.failures = 0 }

// Failures counts those since the last success.
func (b *Backoff) Failures() int { return b.failures }
