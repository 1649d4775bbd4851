package operation

import (
	"context"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// followers are the feeds of this process, by run.
type followers struct {
	mu sync.Mutex
	by map[id.Operation]map[chan struct{}]bool
}

// join registers a feed. Its channel holds one wake-up: none is lost, and several
// become one.
func (f *followers) join(of id.Operation) (news <-chan struct{}, leave func()) {
	woken := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by = map[id.Operation]map[chan struct{}]bool{}
	}
	if f.by[of] == nil {
		f.by[of] = map[chan struct{}]bool{}
	}
	f.by[of][woken] = true
	return woken, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.by[of], woken)
		if len(f.by[of]) == 0 {
			delete(f.by, of)
		}
	}
}

// wake tells the feeds of a run; of a zero id, all of them.
func (f *followers) wake(of id.Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for run, all := range f.by {
		if !of.IsZero() && run != of {
			continue
		}
		for woken := range all {
			select {
			case woken <- struct{}{}:
			default:
			}
		}
	}
}

// Follow keeps one subscription to what runs print for all feeds of this process, until
// the context ends.
func (s *Service) Follow(ctx context.Context) {
	const pause = time.Second
	for ctx.Err() == nil {
		err := s.db.Listen(ctx, logsChannel, func() { s.followers.wake(id.Operation{}) }, func(payload string) {
			of, err := id.Parse[id.Operation](payload)
			if err != nil {
				of = id.Operation{}
			}
			s.followers.wake(of)
		})
		if ctx.Err() != nil {
			return
		}
		s.logger.WarnContext(ctx, "notifications of operation logs lost; subscribing again", "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}
