package maas

import (
	"context"
	"slices"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// grid is the raster of looks, so that machines share requests.
const grid = 250 * time.Millisecond

func (w *Watcher) join(id string) *waiter {
	me := &waiter{news: make(chan sighting, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	it := w.watched[id]
	if it == nil {
		it = &watched{id: id, waiters: map[*waiter]struct{}{}}
		w.watched[id] = it
	}
	it.waiters[me] = struct{}{}
	it.missing = 0
	w.hurry(it)
	if !w.running && !w.closed {
		w.running = true
		w.tail = NewTail(w.source, LevelInfo, 0) // events from before anybody waited do not matter
		go w.run()
	}
	w.wake()
	return me
}

func (w *Watcher) leave(id string, me *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	it := w.watched[id]
	delete(it.waiters, me)
	if len(it.waiters) == 0 {
		delete(w.watched, id)
		w.wake()
	}
}

// hurry makes a machine due at the next point of the grid.
func (w *Watcher) hurry(it *watched) {
	it.again = it.reading
	it.interval = 0
	it.due = aligned(w.cfg.Clock.Now())
}

func aligned(at time.Time) time.Time { return at.Truncate(grid).Add(grid) }

func (w *Watcher) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// run runs while somebody waits.
func (w *Watcher) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	for {
		wait, more := w.turn(ctx, &tasks)
		if !more {
			return
		}
		select {
		case <-w.kick:
		case <-w.cfg.Clock.After(wait):
		case <-w.end:
		}
	}
}

// turn starts the reads that are due and says when to come back.
func (w *Watcher) turn(ctx context.Context, tasks *sync.WaitGroup) (wait time.Duration, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watched) == 0 || w.closed {
		w.running = false
		return 0, false
	}
	now := w.cfg.Clock.Now()
	for w.readers < w.cfg.Parallel {
		batch := w.due(now)
		if len(batch) == 0 {
			break
		}
		w.readers++
		tasks.Go(func() { w.look(ctx, batch) })
	}
	if !w.tailing && !now.Before(w.tailDue) {
		w.tailing = true
		tail := w.tail
		tasks.Go(func() { w.follow(ctx, tail) })
	}
	return w.idle(now), true
}

// due takes as many machines as fit one request: those whose time has come, the
// longest overdue first, and then those whose time is near.
func (w *Watcher) due(now time.Time) []string {
	var candidates []*watched
	ripe := false
	for _, it := range w.watched {
		if it.reading || it.due.After(now.Add(it.interval/4)) {
			continue
		}
		candidates = append(candidates, it)
		ripe = ripe || !it.due.After(now)
	}
	if !ripe {
		return nil
	}
	slices.SortFunc(candidates, func(a, b *watched) int { return a.due.Compare(b.due) })
	ids := make([]string, 0, MaxIDs)
	for _, it := range candidates[:min(len(candidates), MaxIDs)] {
		it.reading, it.again = true, false
		ids = append(ids, it.id)
	}
	return ids
}

// idle returns the time until something is due. A running read wakes the loop
// with kick when it ends.
func (w *Watcher) idle(now time.Time) time.Duration {
	next := now.Add(time.Minute)
	if !w.tailing && w.tailDue.Before(next) {
		next = w.tailDue
	}
	for _, it := range w.watched {
		if w.readers < w.cfg.Parallel && !it.reading && it.due.Before(next) {
			next = it.due
		}
	}
	return max(next.Sub(now), time.Millisecond)
}

// look reads machines and tells those who wait for them.
func (w *Watcher) look(ctx context.Context, ids []string) {
	began := w.cfg.Clock.Now()
	found, err := w.source.Machines(ctx, Filter{IDs: ids})
	took := w.cfg.Clock.Now().Sub(began)
	seen := make(map[string]sighting, len(ids))
	for _, m := range found {
		seen[m.SystemID] = sighting{machine: m}
	}
	absent := map[string]bool{}
	for _, id := range ids {
		if _, ok := seen[id]; err == nil && !ok {
			m, direct := w.source.Machine(ctx, id)
			switch {
			case direct == nil:
				seen[id] = sighting{machine: m}
			case fault.KindOf(direct) == fault.NotFound:
				absent[id] = true
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	w.readers--
	w.lastFail = err
	if each := took / time.Duration(len(ids)); err == nil {
		preset(&w.cost, each)
		w.cost = (w.cost*7 + each) / 8
	}
	for _, id := range ids {
		it := w.watched[id]
		if it == nil {
			continue
		}
		s, ok := seen[id]
		switch {
		case err != nil && lasting(err):
			it.tell(sighting{err: err})
		case absent[id]:
			w.absent(it)
		case ok:
			it.missing = 0
			it.tell(s)
		}
		w.schedule(it, s.machine.Status, ok)
	}
}

// lasting reports whether a failure does not go away by waiting.
func lasting(err error) bool {
	kind := fault.KindOf(err)
	return kind != fault.Unavailable && kind != fault.Ambiguous && kind != fault.RateLimited
}

// absent believes that a machine is gone only after two direct reads say so.
func (w *Watcher) absent(it *watched) {
	if it.missing++; it.missing >= 2 {
		it.tell(sighting{err: fault.New(fault.NotFound, CodeMachineGone, "MAAS machine %s no longer exists", it.id).
			WithRemedy("onboard the machine again, or retire its node")})
	}
}

// tell replaces a sighting that nobody has read yet.
func (it *watched) tell(s sighting) {
	for me := range it.waiters {
		select {
		case <-me.news:
		default:
		}
		me.news <- s
	}
}

// schedule decides when to look next: within the pace of the status, less often
// while nothing changes, and so seldom that this machine's share of the
// requests keeps MAAS busy at most half the time.
func (w *Watcher) schedule(it *watched, status Status, read bool) {
	it.reading = false
	if it.again {
		w.hurry(it)
		return
	}
	if !read {
		status = it.status
	}
	least, most := w.cfg.Pace(status)
	if it.interval == 0 || (read && status != it.status) {
		it.interval = least
	} else {
		it.interval = min(it.interval+it.interval/4, most)
	}
	it.status = status
	share := w.cost * time.Duration(2*len(w.watched)/w.cfg.Parallel)
	it.interval = max(it.interval, share)
	it.due = aligned(w.cfg.Clock.Now().Add(it.interval - grid))
}

// follow reads new events and makes the machines in them due.
func (w *Watcher) follow(ctx context.Context, tail *Tail) {
	events, err := tail.Next(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	w.tailing = false
	w.tailDue = w.cfg.Clock.Now().Add(w.cfg.EventsEvery)
	if err != nil {
		w.tailDue = w.tailDue.Add(w.cfg.EventsEvery)
	}
	for _, e := range events {
		if it := w.watched[e.SystemID]; it != nil {
			w.hurry(it)
		}
	}
}
