package bringup

import (
	"context"
	"sync"
	"time"
)

// recall remembers the answer to a question that all machines of a site raise,
// and asks it once for all who want to know at the same time.
type recall[T any] struct {
	mu     sync.Mutex
	latest *question[T]
}

type question[T any] struct {
	asked  time.Time
	done   chan struct{}
	answer T
	err    error
}

// since gives the answer to the question as it was asked at a time or later. The
// question outlives those who ask it: one of them giving up must not fail the
// others.
func (r *recall[T]) since(ctx context.Context, oldest, now time.Time, ask func(context.Context) (T, error)) (T, error) {
	r.mu.Lock()
	q := r.latest
	if q == nil || q.asked.Before(oldest) || q.failed() {
		q = &question[T]{asked: now, done: make(chan struct{})}
		r.latest = q
		go func() {
			defer close(q.done)
			q.answer, q.err = ask(context.WithoutCancel(ctx))
		}()
	}
	r.mu.Unlock()
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (q *question[T]) failed() bool {
	select {
	case <-q.done:
		return q.err != nil
	default:
		return false
	}
}
