package outbox

import (
	"context"
	"sync"
	"time"
)

// replay is the part of a reading that lies in the past, for a reader who may
// not see all of it. The zero value bounds nothing.
type replay struct {
	behind uint64    // events between the last one read and the present
	hidden int       // events that the reader was not shown
	until  time.Time // zero: there is nothing to bound, or no longer
	leave  func()
}

// spent says whether the past has cost enough. What comes after it is new, and
// costs what everybody's costs.
func (r *replay) spent() bool {
	if r.until.IsZero() {
		return false
	}
	if r.behind == 0 {
		r.over()
		return false
	}
	return r.hidden >= replayScan || time.Now().After(r.until)
}

// over lets the next reading of the same reader begin.
func (r *replay) over() {
	if r.leave != nil {
		r.leave()
	}
	r.until = time.Time{}
}

// turns gives each reader one turn at a time.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	taken chan struct{}
	users int // who has it, or waits for it
}

func newTurns() *turns { return &turns{of: map[string]*turn{}} }

func (t *turns) wait(ctx context.Context, reader string) (leave func(), err error) {
	t.mu.Lock()
	mine := t.of[reader]
	if mine == nil {
		mine = &turn{taken: make(chan struct{}, 1)}
		t.of[reader] = mine
	}
	mine.users++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.of, reader)
		}
	}
	select {
	case mine.taken <- struct{}{}:
		return sync.OnceFunc(func() { <-mine.taken; gone() }), nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
