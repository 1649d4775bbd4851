package reservation

import "slices"

// dealing gives nodes to reservations, so that as many as possible of their needs are
// met: those of an earlier reservation before those of a later one, and with earlier
// nodes rather than later ones. Giving a node to one may move others to nodes that
// serve them as well, so that none is given away that another one needs.
type dealing struct {
	room  []int   // by reservation: how many nodes it may have
	fits  [][]int // by node: which reservations it can serve
	given [][]int // by reservation: its nodes
}

// deal gives to each reservation as many nodes as it needs, if possible.
func deal(needs []int, fits [][]int) (given [][]int) {
	d := dealing{room: make([]int, len(needs)), fits: fits, given: make([][]int, len(needs))}
	dealt := make([]bool, len(fits))
	for r, need := range needs {
		d.room[r] = need
		for n := range fits {
			if len(d.given[r]) == need {
				break
			}
			// A node that cannot be placed now cannot be placed later in this round either.
			if !dealt[n] {
				dealt[n] = d.place(n, make([]bool, len(needs)))
			}
		}
		d.room[r] = len(d.given[r]) // later ones move its nodes, and take none away
	}
	return d.given
}

// place gives a node to a reservation with room, or makes room by moving a node of one
// that can be served otherwise.
func (d *dealing) place(n int, seen []bool) bool {
	for _, r := range d.fits[n] {
		if seen[r] {
			continue
		}
		seen[r] = true
		if len(d.given[r]) < d.room[r] {
			d.given[r] = append(d.given[r], n)
			return true
		}
		for i, other := range d.given[r] {
			if d.place(other, seen) {
				d.given[r][i] = n
				return true
			}
		}
	}
	return false
}

// use is what a node is to the one who asks.
type use struct{ rented, useful bool }

// trade exchanges free nodes that are of no use to the one who asks, and that its own
// reservations have, for useful ones of others, wherever each serves both.
func trade(given, fits [][]int, own []bool, uses map[int]use) {
	for mine := range given {
		for theirs := range given {
			if !own[mine] || own[theirs] {
				continue
			}
			offered := which(given[mine], func(n int) bool {
				return uses[n] == use{} && slices.Contains(fits[n], theirs)
			})
			wanted := which(given[theirs], func(n int) bool {
				return uses[n].useful && slices.Contains(fits[n], mine)
			})
			for i := range min(len(offered), len(wanted)) {
				a, b := &given[mine][offered[i]], &given[theirs][wanted[i]]
				*a, *b = *b, *a
			}
		}
	}
}

// which are the places in a list at which something holds.
func which(nodes []int, holds func(int) bool) []int {
	var out []int
	for i, n := range nodes {
		if holds(n) {
			out = append(out, i)
		}
	}
	return out
}

// pairs collects which nodes can serve which reservations.
type pairs struct {
	nodes []string
	fits  [][]int // by node
	index map[string]int
}

// add says that a node can serve a reservation, and gives the number of the node.
func (p *pairs) add(node string, reservation int) int {
	n, known := p.index[node]
	if !known {
		if p.index == nil {
			p.index = map[string]int{}
		}
		n = len(p.nodes)
		p.index[node], p.nodes, p.fits = n, append(p.nodes, node), append(p.fits, nil)
	}
	p.fits[n] = append(p.fits[n], reservation)
	return n
}
