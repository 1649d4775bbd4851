package bringup

import (
	"context"
	"sync"
	"time"
)

// recall remembers the answer to a question that concerns all machines of a
// site, and asks it once for all who ask at the same time.
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

// since returns an answer that was obtained at the given time or later. The
// question goes on if one of the askers gives up, so that the others still get
// the answer.
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
