package reconciliation

import (
	"context"
	"maps"
	"slices"

	"gpuaas/controlplane/internal/adapter/maas"
)

const (
	// eventOverlap is how many ids before the cursor are read again. MAAS
	// assigns an id before the transaction that uses it commits, so an event
	// with a lower id can appear later.
	eventOverlap = 100
	maxPages     = 3
	// newsLevel is the lowest level of events that are read. Lower ones are
	// about network boots and BMC queries, far too many for a cycle to read.
	// What they would tell about a machine shows in its status or power, and
	// Exceptions asks for those.
	newsLevel = maas.LevelInfo
)

// tail remembers which events the last call of Changed reported, so that the
// machines of events within the overlap are not read again in every cycle.
// Without it they are read again, which is harmless.
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
	out.Cursor = max(newest, 1) // a cursor of 0 means that no event is known
	return out, nil
}

func (r *region) newest(ctx context.Context) (int64, error) {
	events, err := r.Events(ctx, maas.EventQuery{Level: maas.LevelDebug, Limit: 1})
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return events[len(events)-1].ID, nil
}

// doubtCursor is called when not even the event at the cursor is there. Either
// its machine was deleted together with its events, or MAAS was restored from a
// backup or reinstalled and counts from a lower number.
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

// tailAt returns the events that this process reported up to a cursor. If the
// caller did not keep the cursor, there are none and it gets the events again.
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
