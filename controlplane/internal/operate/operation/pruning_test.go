package operation_test

import (
	"testing"
	"time"
)

// What a run printed goes when it is old, with nothing else of the run; what a run
// prints that has not ended stays, however old it is.
func TestOldLogsAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, node, task := w.printing(t)
	for from := int64(1); from <= 5; from += 2 {
		if _, err := w.service.AppendLogs(w.ctx, node, task, lines(from, from+1, "one")); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	if n, err := w.service.CountPrunable(w.ctx, later, 20); err != nil || n != 0 {
		t.Fatalf("%d pieces of a run that has not ended, %v", n, err)
	}
	if _, err := w.service.Cancel(w.ctx, o.ID, ""); err != nil {
		t.Fatal(err)
	}
	w.turn(t, o.ID)
	w.silence(t, o.ID, 15*time.Minute)
	if n, err := w.service.CountPrunable(w.ctx, time.Now().Add(-time.Hour), 20); err != nil || n != 0 {
		t.Fatalf("%d pieces of a run that ended just now, %v", n, err)
	}
	if n, err := w.service.CountPrunable(w.ctx, later, 20); err != nil || n != 3 {
		t.Fatalf("%d pieces are counted, %v", n, err)
	}
	for _, want := range []int64{2, 1, 0} {
		if n, err := w.service.Prune(w.ctx, later, 20, 2); err != nil || n != want {
			t.Fatalf("%d pieces were deleted, want %d: %v", n, want, err)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM operation_targets`); n != 1 {
		t.Errorf("%d targets are left", n)
	}
}
