package reconciliation

import (
	"context"
	"maps"
	"slices"

	"gpuaas/controlplane/internal/adapter/maas"
)

const (
	// eventOverlap is how many ids before the cursor are read again: MAAS gives ids out
	// before the transaction that uses them commits.
	eventOverlap = 100
	maxPages     = 3
	// newsLevel is the level from which events are read. What is below it is about
	// network boots and queries of BMCs, in numbers that no cycle could read; what
	// it hides of a machine shows in its status or power, which Exceptions asks for.
	newsLevel = maas.LevelInfo
)

// tail is what the last call of Changed handed out. It keeps machines whose
// events lie within the overlap from being read again in every cycle. Without it
// they are, which is harmless.
type tail struct {
	cursor int64
	seen   map[int64]bool
}

// Changed reads the events after a cursor.
func (r *region) Changed(ctx context.Context, after int64) (Changes, error) {
	if after <= 0 {
		return r.fromNow(ctx, Changes{Lost: true})
	}
	before := r.tailAt(after)
	out := Changes{Cursor: after}
	seen, changed := map[int64]bool{}, map[string]bool{}
	from := max(after-eventOverlap, 1)
	for page := range maxPages {
		events, err := r.Events(ctx, maas.EventQuery{Level: newsLevel, After: from, Limit: maas.MaxEvents})
		if err != nil {
			return Changes{}, err
		}
		for _, e := range events {
			if e.ID <= from {
				return Changes{}, mixedUp("event %d was not asked for", e.ID)
			}
			seen[e.ID] = true
			if !before[e.ID] && e.SystemID != "" {
				changed[e.SystemID] = true
			}
			out.Cursor = max(out.Cursor, e.ID)
		}
		out.Events += len(events)
		if len(events) < maas.MaxEvents {
			break
		}
		from = events[len(events)-1].ID
		out.Lost = page == maxPages-1
	}
	out.Machines = slices.Sorted(maps.Keys(changed))
	if out.Lost {
		return r.fromNow(ctx, out)
	}
	if out.Events == 0 {
		return r.doubtCursor(ctx, out)
	}
	r.keepTail(out.Cursor, seen)
	return out, nil
}

// fromNow moves the cursor to the newest event.
func (r *region) fromNow(ctx context.Context, out Changes) (Changes, error) {
	newest, err := r.newest(ctx)
	if err != nil {
		return Changes{}, err
	}
	out.Cursor = max(newest, 1) // 0 would begin all over again
	return out, nil
}

func (r *region) newest(ctx context.Context) (int64, error) {
	events, err := r.Events(ctx, maas.EventQuery{Level: maas.LevelDebug, Limit: 1})
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return events[len(events)-1].ID, nil
}

// doubtCursor finds out why not even the event at the cursor is there: its
// machine was deleted, and its events with it, or MAAS was restored from a
// backup or installed anew and counts again from below.
func (r *region) doubtCursor(ctx context.Context, out Changes) (Changes, error) {
	newest, err := r.newest(ctx)
	if err != nil {
		return Changes{}, err
	}
	if newest < out.Cursor-eventOverlap {
		return Changes{Cursor: max(newest, 1), Lost: true}, nil
	}
	return out, nil
}

// tailAt is what was handed out up to a cursor, if it was by this process and
// the cursor was kept: who did not keep it gets it again.
func (r *region) tailAt(cursor int64) map[int64]bool {
	r.opened.mu.Lock()
	defer r.opened.mu.Unlock()
	if r.opened.tail.cursor != cursor {
		return nil
	}
	return r.opened.tail.seen
}

func (r *region) keepTail(cursor int64, seen map[int64]bool) {
	maps.DeleteFunc(seen, func(e int64, _ bool) bool { return e <= cursor-eventOverlap })
	r.opened.mu.Lock()
	defer r.opened.mu.Unlock()
	r.opened.tail = tail{cursor: cursor, seen: seen}
}
