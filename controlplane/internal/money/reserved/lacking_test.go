package reserved_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/reserved"
)

// judged is what reservations lack, found in another way: not by giving nodes, but by what
// any set of reservations can have together. So much of each is covered by nodes in use: at
// least what the rule deals to it, and then as much as goes, one after the other.
func judged(of []reserved.Holding, inUse []int64) []int64 {
	covered, lacks := make([]int64, len(of)), make([]int64, len(of))
	for r, h := range of {
		lacks[r] = max(h.Nodes-h.Kept, 0)
		covered[r] = min(lacks[r], h.Nodes-h.Unused)
	}
	for r := range of {
		for covered[r] < lacks[r] {
			covered[r]++
			if !goesTogether(of, inUse, covered) {
				covered[r]--
				break
			}
		}
	}
	for r := range of {
		lacks[r] -= covered[r]
	}
	return lacks
}

// goesTogether says whether reservations can have so many nodes in use: no set of them has
// more than there are of all kinds that fit one of the set (Hall).
func goesTogether(of []reserved.Holding, inUse, covered []int64) bool {
	for set := range 1 << len(of) {
		var want, have int64
		for kind, n := range inUse {
			for r := range of {
				if set&(1<<r) != 0 && of[r].Fits[kind] {
					have += n
					break
				}
			}
		}
		for r, n := range covered {
			if set&(1<<r) != 0 {
				want += n
			}
		}
		if want > have {
			return false
		}
	}
	return true
}

// What reservations lack is what any set of them lacks together, and no reservation lacks
// more than it would by itself.
func TestWhatIsLackingIsJudgedTogether(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		inUse := rapid.SliceOfN(rapid.Int64Range(1, 4), 0, 4).Draw(r, "in use")
		of := make([]reserved.Holding, rapid.IntRange(0, 5).Draw(r, "reservations"))
		left := slices.Clone(inUse)
		for i := range of {
			nodes := rapid.Int64Range(1, 5).Draw(r, "nodes")
			of[i] = reserved.Holding{
				Nodes: nodes, Unused: nodes, Kept: rapid.Int64Range(0, 6).Draw(r, "kept"),
				Fits: rapid.SliceOfN(rapid.Bool(), len(inUse), len(inUse)).Draw(r, "fits"),
			}
			for kind, fits := range of[i].Fits { // the rule, as the database has it
				if n := min(of[i].Unused, left[kind]); fits {
					of[i].Unused -= n
					left[kind] -= n
				}
			}
		}
		got, want := reserved.Lacking(of, inUse), judged(of, inUse)
		if !slices.Equal(got, want) {
			r.Fatalf("%+v with %v in use lack %v, want %v", of, inUse, got, want)
		}
		for i, n := range got {
			if alone := max(of[i].Unused-of[i].Kept, 0); n > alone {
				r.Fatalf("%+v lacks %d, and %d by itself", of[i], n, alone)
			}
		}
	})
}

// A node in use is dealt to one reservation by the rule, while a free node is kept for that
// one, and it serves another: together they have all that was reserved but one.
func TestWhatIsKeptForAnotherReservationIsPaid(t *testing.T) {
	w := newWorld(t)
	first := w.reserve(t, plan{nodes: 1, from: start, lasts: 10 * time.Hour})
	second := w.reserve(t, plan{nodes: 2, from: start.Add(time.Minute), lasts: 10*time.Hour - time.Minute})
	foreign := w.reserve(t, plan{project: w.projects[1], nodes: 1, from: start, lasts: 10 * time.Hour})
	w.now = start.Add(time.Hour)
	w.tend(t)
	w.rent(t, w.projects[0], "eu")
	w.kept = map[id.Reservation]int64{first: 1, second: 1, foreign: 0}
	w.tend(t)
	w.now = start.Add(20 * time.Hour)
	w.tend(t)
	// After an hour the first has what is used, and two of the second are paid: what is kept for
	// both. The one for the other project is lacking: nothing that is kept or used makes up for it.
	want := []int64{paid(1), paid(2*10) - paid(2)/60, paid(1)}
	if got := []int64{w.booked(t, first), w.booked(t, second), w.booked(t, foreign)}; !slices.Equal(got, want) {
		t.Errorf("they were charged with %v, want %v", got, want)
	}
}
