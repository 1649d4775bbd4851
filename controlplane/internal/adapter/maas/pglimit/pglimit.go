// Package pglimit limits the requests to one MAAS region over all replicas of
// the control plane. The slots of a site are advisory locks in PostgreSQL. The
// session of the replica that uses a slot holds its lock, so a replica that
// dies gives its slots back.
//
// A replica needs one connection per site, and only while it has requests. A
// transaction keeps the connection out of the pool, but the locks belong to the
// session. The transaction reads nothing, so it holds up no vacuum. The server
// ends it when the replica falls silent.
package pglimit

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/engine/postgres"
)

// Limiter is one replica's view of the slots of a site.
type Limiter struct {
	db    *postgres.DB
	class int32
	slots int
	local *maas.LocalLimiter // keeps the order of callers, and the limit if sessions are lost

	mu      sync.Mutex
	current *session
	closed  bool
	ctx     context.Context //nolint:containedctx // of the sessions, which outlive the calls that start them
	cancel  context.CancelFunc
}

var _ maas.Limiter = (*Limiter)(nil)

// New makes a limiter for a site. All replicas must use the same name of the
// site and the same number of slots.
func New(db *postgres.DB, site string, slots int) *Limiter {
	h := fnv.New32a()
	_, _ = h.Write([]byte("maas-site:" + site))
	ctx, cancel := context.WithCancel(context.Background())
	return &Limiter{
		db: db, class: int32(h.Sum32()), slots: slots, //nolint:gosec // a hash may become negative
		local: maas.NewLimiter(slots), ctx: ctx, cancel: cancel,
	}
}

// Close returns all slots.
func (l *Limiter) Close() {
	l.mu.Lock()
	current := l.current
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	if current != nil {
		<-current.gone
	}
}

// ask is a request for a slot. The session ends it by granting, the caller by
// giving up; the first one wins.
type ask struct {
	settled atomic.Bool
	granted chan int32
}

// Acquire waits for a slot of the site.
func (l *Limiter) Acquire(ctx context.Context) (func(), error) {
	leave, err := l.local.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	s, slot, err := l.acquire(ctx)
	if err != nil {
		leave()
		return nil, fmt.Errorf("wait for a MAAS slot: %w", err)
	}
	return func() {
		s.give(slot)
		leave()
	}, nil
}

func (l *Limiter) acquire(ctx context.Context) (*session, int32, error) {
	for {
		s, err := l.session()
		if err != nil {
			return nil, 0, err
		}
		a := &ask{granted: make(chan int32, 1)}
		select {
		case s.asks <- a:
		case <-s.gone:
			if s.err != nil {
				return nil, 0, s.err
			}
			continue // the session was idle and has just ended
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
		select {
		case slot := <-a.granted:
			return s, slot, nil
		case <-s.gone:
			if a.settled.CompareAndSwap(false, true) {
				return nil, 0, s.err
			}
			return s, <-a.granted, nil // granted, but the session was lost: for this one request others may use the slot too
		case <-ctx.Done():
			if !a.settled.CompareAndSwap(false, true) {
				s.give(<-a.granted)
			}
			return nil, 0, ctx.Err()
		}
	}
}

// session returns the running session, or starts one.
func (l *Limiter) session() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, context.Canceled
	}
	if l.current != nil && !l.current.over() {
		return l.current, nil
	}
	s := &session{
		class: l.class, slots: l.slots, held: map[int32]bool{},
		asks: make(chan *ask), gives: make(chan int32), gone: make(chan struct{}),
	}
	l.current = s
	go func() {
		s.err = l.db.InTx(l.ctx, s.run)
		if s.err == nil && l.ctx.Err() != nil {
			s.err = context.Canceled
		}
		close(s.gone)
	}()
	return s, nil
}

// Timing of a session.
const (
	idleAfter = 2 * time.Second        // an unused connection returns to the pool after this
	pulse     = 10 * time.Second       // sign of life while slots are held
	silence   = 45 * time.Second       // after this the server ends a silent session
	leastWait = 5 * time.Millisecond   // between two tries for a slot that others hold
	mostWait  = 100 * time.Millisecond // the longest such pause
)
