package maas

import (
	"context"
	"fmt"
)

// PerSite is how many requests may be in flight to one region from the whole
// product. A region serves about sixteen, shared with the machines it boots.
const PerSite = 4

// Limiter hands out the right to have a request in flight. The caller must call
// release exactly once.
type Limiter interface {
	Acquire(ctx context.Context) (release func(), err error)
}

// LocalLimiter limits the requests of one process.
type LocalLimiter struct{ slots chan struct{} }

// NewLimiter makes a limiter with n slots.
func NewLimiter(n int) *LocalLimiter { return &LocalLimiter{slots: make(chan struct{}, n)} }

// Acquire waits for a slot. Slots are given in the order of the calls.
func (l *LocalLimiter) Acquire(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("wait for a MAAS slot: %w", err)
	}
	select {
	case l.slots <- struct{}{}:
		return func() { <-l.slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a MAAS slot: %w", ctx.Err())
	}
}
