package outbox

import (
	"context"
	"sync"
	"time"
)

// replay limits how much of the past one reading may cost, for a reader that
// may not see all of it. The zero value limits nothing.
type replay struct {
	behind uint64    // events between the last one read and the present
	hidden int       // events that were not shown to the reader
	until  time.Time // zero: no limit, or none any more
	leave  func()
}

// spent says whether reading the past has cost enough. Once the reader has
// caught up with the present, nothing is limited any more.
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
	users int // readers that have it or wait for it
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
