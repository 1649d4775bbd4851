package reserved

// holding is a reservation at a moment, among all of one owner and SKU.
type holding struct {
	nodes, unused, kept int64
	fits                []bool // by kind of nodes in use: whether those may be dealt to it
}

// lacking says how many nodes each reservation lacks, in the order in which nodes are dealt.
// What one has too many of, because nodes in use are dealt to it while free ones are kept
// for it, makes up for what another lacks, if those in use may be dealt to that one instead,
// at once or by way of others. So an owner pays for as many nodes as are kept for it.
func lacking(of []holding, inUse []int64) []int64 {
	d := sharing{of: of, left: append([]int64(nil), inUse...), given: make([][]int64, len(of))}
	room := make([]int64, len(of)) // what is neither kept nor given
	for r, h := range of {
		d.given[r] = make([]int64, len(inUse))
		room[r] = max(h.nodes-h.kept, 0)
	}
	for r, h := range of { // first as much as the rule deals to it, so that nobody has less than that
		room[r] -= d.give(r, min(room[r], h.nodes-h.unused))
	}
	for r := range of {
		room[r] -= d.give(r, room[r])
	}
	return room
}

// sharing gives nodes in use to reservations.
type sharing struct {
	of    []holding
	left  []int64   // by kind: how many are given to none
	given [][]int64 // by reservation and kind
}

// give gives a reservation up to so many nodes more, and says how many. None has less then.
func (d *sharing) give(r int, most int64) (n int64) {
	for n < most {
		more := d.path(r, most-n, make([]bool, len(d.of)))
		if more == 0 {
			break
		}
		n += more
	}
	return n
}

// path gives a reservation nodes that are left, or those of another one that is given
// others for them.
func (d *sharing) path(r int, most int64, seen []bool) int64 {
	seen[r] = true
	for kind, fits := range d.of[r].fits {
		if n := min(most, d.left[kind]); fits && n > 0 {
			d.left[kind] -= n
			d.given[r][kind] += n
			return n
		}
	}
	for kind, fits := range d.of[r].fits {
		for other := range d.of {
			has := d.given[other][kind]
			if !fits || has == 0 || seen[other] {
				continue
			}
			if n := d.path(other, min(most, has), seen); n > 0 {
				d.given[other][kind] -= n
				d.given[r][kind] += n
				return n
			}
		}
	}
	return 0
}
