package reservation

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// most is how many nodes the first reservations could be given at best, by trying all ways.
func most(needs []int, fits [][]int) int {
	if len(fits) == 0 {
		return 0
	}
	best := most(needs, fits[1:])
	for _, r := range fits[0] {
		if r < len(needs) && needs[r] > 0 {
			needs[r]--
			best = max(best, 1+most(needs, fits[1:]))
			needs[r]++
		}
	}
	return best
}

// Whatever serves whom: a reservation gets all that it could have beside those before
// it, no node is given twice, and none to whom it does not serve. What is traded
// afterwards changes nothing of that, moves nothing that is rented, and leaves no trade.
func TestEveryReservationGetsWhatItCanHaveBesideThoseBeforeIt(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	roll := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		needs := make([]int, 1+roll.IntN(4))
		for r := range needs {
			needs[r] = 1 + roll.IntN(3)
		}
		fits := make([][]int, roll.IntN(7))
		for n := range fits {
			for r := range needs {
				if roll.IntN(2) == 0 {
					fits[n] = append(fits[n], r)
				}
			}
		}
		given := deal(needs, fits)
		own, uses := make([]bool, len(needs)), map[int]use{}
		for r := range own {
			own[r] = roll.IntN(2) == 0
		}
		for n := range fits {
			uses[n] = []use{{}, {rented: true}, {useful: true}}[roll.IntN(3)]
		}
		before := rentedOf(given, uses)
		trade(given, fits, own, uses)
		if after := rentedOf(given, uses); !maps.Equal(before, after) {
			t.Fatalf("rented nodes moved: %v, %v", before, after)
		}
		for n, r := range holders(given) {
			for m, s := range holders(given) {
				if own[r] && !own[s] && uses[n] == (use{}) && uses[m].useful && slices.Contains(fits[n], s) &&
					slices.Contains(fits[m], r) {
					t.Fatalf("node %d of %d could be had for node %d of %d: %v", m, s, n, r, given)
				}
			}
		}
		total, had := 0, map[int]bool{}
		for r, nodes := range given {
			total += len(nodes)
			if want := most(append([]int{}, needs[:r+1]...), fits); total != want {
				t.Fatalf("needs %v, fits %v: %v, the first %d could have %d", needs, fits, given, r+1, want)
			}
			for _, n := range nodes {
				serves := false
				for _, x := range fits[n] {
					serves = serves || x == r
				}
				if had[n] || !serves {
					t.Fatalf("needs %v, fits %v: %v gives node %d twice, or to whom it does not serve", needs, fits, given, n)
				}
				had[n] = true
			}
		}
	}
}

// holders is by node the reservation that has it.
func holders(given [][]int) map[int]int {
	out := map[int]int{}
	for r, nodes := range given {
		for _, n := range nodes {
			out[n] = r
		}
	}
	return out
}

// rentedOf are the holders of the nodes that are rented.
func rentedOf(given [][]int, uses map[int]use) map[int]int {
	out := holders(given)
	maps.DeleteFunc(out, func(n, _ int) bool { return !uses[n].rented })
	return out
}

// A node that comes earlier is given rather than a later one, where both would do, also
// if others have to move for it.
func TestNodesThatComeEarlierAreGivenFirst(t *testing.T) {
	for name, c := range map[string]struct {
		needs []int
		fits  [][]int
		spare int // the node that must stay free
	}{
		"one reservation": {[]int{1}, [][]int{{0}, {0}}, 1},
		"others move":     {[]int{1, 1}, [][]int{{0, 1}, {0}, {1}}, 2},
	} {
		for _, nodes := range deal(c.needs, c.fits) {
			for _, n := range nodes {
				if n == c.spare {
					t.Errorf("%s: node %d was given", name, n)
				}
			}
		}
	}
}
