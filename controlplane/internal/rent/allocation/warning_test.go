package allocation_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/rent/allocation"
)

// ends moves the end of an allocation without anybody having set it.
func (w *world) ends(tb testing.TB, a allocation.Allocation, in time.Duration) {
	tb.Helper()
	w.exec(tb, `UPDATE allocations SET expires_at = clock_timestamp() + $2::bigint * interval '1 second',
		created_at = clock_timestamp() - interval '10 days', expiry_set_at = NULL WHERE id = $1`, a.ID, int64(in.Seconds()))
}

func (w *world) warn(tb testing.TB) int {
	tb.Helper()
	n, err := w.service.Warn(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// A tenant is warned of the end once per mark, also where nobody looked for a while,
// and again where the end was moved.
func TestATenantIsWarnedBeforeTheEnd(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{ExpiresIn: 48 * time.Hour})
	if n := w.warn(t); n != 0 {
		t.Fatalf("%d were warned two days before", n)
	}
	for _, left := range []time.Duration{23 * time.Hour, 50 * time.Minute, 5 * time.Minute} {
		w.ends(t, a, left)
		if first, again := w.warn(t), w.warn(t); first != 1 || again != 0 {
			t.Fatalf("%s before: warned %d times, then %d", left, first, again)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'allocation.expiring' AND aggregate_id = $1`,
		a.ID.String()); n != 3 {
		t.Errorf("%d events", n)
	}
	if n := w.count(t, `SELECT count(*) FROM allocation_events WHERE event = 'expiring' AND allocation_id = $1`, a.ID); n != 3 {
		t.Errorf("%d entries of the timeline", n)
	}
	end := time.Now().Add(30 * time.Hour)
	if _, err := w.service.Change(w.ctx, a.ID, allocation.Terms{ExpiresAt: &end}); err != nil {
		t.Fatal(err)
	}
	w.ends(t, a, 23*time.Hour)
	if n := w.warn(t); n != 1 {
		t.Errorf("%d were warned of the new end", n)
	}
}

// A mark that had passed when the end was set is no news; several that passed while
// nobody looked are one warning.
func TestNobodyIsWarnedOfWhatTheyKnow(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 2)
	short := w.active(t, allocation.Ask{ExpiresIn: 30 * time.Minute})
	if n := w.warn(t); n != 0 {
		t.Fatalf("%d were warned of an end that was just asked for", n)
	}
	missed := w.active(t, allocation.Ask{ExpiresIn: 48 * time.Hour})
	w.ends(t, missed, 5*time.Minute)
	if first, again := w.warn(t), w.warn(t); first != 1 || again != 0 {
		t.Errorf("warned %d times, then %d", first, again)
	}
	if w.get(t, short.ID).Status != allocation.Active {
		t.Error("it ended")
	}
}
