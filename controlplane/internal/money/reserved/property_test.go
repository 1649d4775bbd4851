package reserved_test

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/reserved"
	"gpuaas/controlplane/internal/money/reserved/reservedtest"
)

// Any interleaving of reservations, cancellations, rents, releases, cleanings, shortages
// and looks by several replicas gives, to the minor unit, what the rule gives when every
// moment is dealt by itself; and at any moment what is booked and what is not yet come to
// the same.
func TestAnyInterleavingGivesWhatTheRuleSays(t *testing.T) {
	w := newWorld(t)
	cases := 0
	rapid.Check(t, func(r *rapid.T) {
		cases++
		w.now, w.kept = start, map[id.Reservation]int64{}
		w.settle(t, fmt.Sprintf("t%d", cases))
		s := &storm{world: w, t: t, r: r}
		for range rapid.IntRange(5, 25).Draw(r, "steps") {
			s.step()
			w.now = w.now.Add(rapid.SampledFrom([]time.Duration{
				time.Microsecond, time.Second + time.Microsecond, 7 * time.Minute, 3 * time.Hour, 20 * 24 * time.Hour,
			}).Draw(r, "passes"))
			s.agrees()
		}
		w.now = w.now.Add(200 * 24 * time.Hour)
		s.look()
		for _, x := range s.made {
			if got, want := w.booked(t, x.id), x.cost(s, w.now); got != want {
				r.Fatalf("reservation %s was charged with %d, the rule says %d", x.id, got, want)
			}
		}
		if n := w.number(t, `SELECT count(*) FROM reservation_meters WHERE closed_at IS NULL AND org_id = $1`, w.org); n != 0 {
			r.Fatalf("%d meters are open after everything has ended", n)
		}
	})
}

// storm is what happens, and what a second bookkeeper remembers of it.
type storm struct {
	*world
	t    *testing.T
	r    *rapid.T
	made []*kept
	used []*use
}

type kept struct {
	plan
	id     id.Reservation
	ends   time.Time
	shorts []short
}

type short struct {
	from  time.Time
	nodes int64
}

type use struct {
	id      id.Allocation
	project id.Project
	region  string
	from    time.Time
	asked   bool
	until   time.Time // zero: it goes on
}

func (s *storm) step() {
	switch rapid.SampledFrom([]string{
		"reserve", "rent", "rent", "release", "clean", "cancel", "lack", "look", "look",
	}).Draw(s.r, "what") {
	case "reserve":
		p := plan{
			nodes: rapid.Int32Range(1, 3).Draw(s.r, "nodes"), from: s.time(),
			region:  rapid.SampledFrom([]string{"", "eu", "us"}).Draw(s.r, "kept in"),
			project: rapid.SampledFrom([]id.Project{{}, s.projects[0], s.projects[1]}).Draw(s.r, "kept for"),
			lasts:   rapid.SampledFrom([]time.Duration{time.Second / 2, 5 * time.Hour, 45 * 24 * time.Hour}).Draw(s.r, "lasts"),
		}
		p.from = p.from.Add(rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(s.r, "begins in"))
		s.made = append(s.made, &kept{plan: p, id: s.reserve(s.t, p), ends: p.from.Add(p.lasts)})
	case "rent":
		u := &use{
			project: rapid.SampledFrom(s.projects[:]).Draw(s.r, "by"), from: s.time(),
			region: rapid.SampledFrom([]string{"eu", "us"}).Draw(s.r, "in"),
		}
		u.id = s.rent(s.t, u.project, u.region)
		s.used = append(s.used, u)
	case "release":
		if u := s.any(func(u *use) bool { return !u.asked }); u != nil {
			u.asked = true
			s.release(s.t, u.id)
		}
	case "clean":
		if u := s.any(func(u *use) bool { return u.asked && u.until.IsZero() }); u != nil {
			u.until = s.time()
			s.clean(s.t, u.id)
		}
	case "cancel":
		if len(s.made) > 0 {
			x := rapid.SampledFrom(s.made).Draw(s.r, "cancelled")
			if x.ends.After(s.time()) && x.ends.Equal(x.from.Add(x.lasts)) {
				x.ends = s.time()
				if x.from.After(x.ends) {
					x.ends = x.from
				}
				s.cancel(s.t, x.id)
			}
		}
	case "lack":
		if len(s.made) > 0 {
			s.kept[rapid.SampledFrom(s.made).Draw(s.r, "lacking").id] = rapid.Int64Range(0, 3).Draw(s.r, "kept")
		}
	case "look":
		s.look()
	}
}

func (s *storm) any(fits func(*use) bool) *use {
	var of []*use
	for _, u := range s.used {
		if fits(u) {
			of = append(of, u)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return rapid.SampledFrom(of).Draw(s.r, "which")
}

// look charges, with two replicas, one after the other.
func (s *storm) look() {
	s.judge()
	s.tend(s.t)
	if err := s.replica().Tend(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// judge remembers what is lacking now of all reservations that run, together.
func (s *storm) judge() {
	now := s.time()
	var inUse []int64
	var kinds []*use
	for _, u := range s.used {
		if !u.lives(now) {
			continue
		}
		kind := slices.IndexFunc(kinds, func(k *use) bool { return k.project == u.project && k.region == u.region })
		if kind < 0 {
			kind, kinds, inUse = len(kinds), append(kinds, u), append(inUse, 0)
		}
		inUse[kind]++
	}
	run := s.running(now)
	of := make([]reserved.Holding, len(run))
	for i, x := range run {
		of[i] = reserved.Holding{Nodes: int64(x.nodes), Unused: s.unused(x, now), Kept: reservedtest.Plenty}
		if n, said := s.kept[x.id]; said {
			of[i].Kept = n
		}
		for _, k := range kinds {
			of[i].Fits = append(of[i].Fits, x.fits(k))
		}
	}
	for i, n := range judged(of, inUse) {
		run[i].shorts = append(run[i].shorts, short{now, n})
	}
}

// agrees compares what is booked and what is not yet with the rule.
func (s *storm) agrees() {
	var want int64
	for _, x := range s.made {
		want += x.cost(s, s.time())
	}
	open := s.number(s.t, `SELECT (reserved_standing($1, $2))[1]::bigint`, s.org, s.time())
	if got := open - s.balance(s.t); got != want {
		s.r.Fatalf("booked are %d, not yet %d; the rule says %d", -s.balance(s.t), open, want)
	}
}

// running are the reservations that run at a moment, in the order in which nodes are dealt.
func (s *storm) running(at time.Time) []*kept {
	run := slices.DeleteFunc(slices.Clone(s.made), func(x *kept) bool { return x.from.After(at) || !x.ends.After(at) })
	slices.SortStableFunc(run, func(a, b *kept) int {
		return cmp.Or(
			boolInt(a.project.IsZero())-boolInt(b.project.IsZero()), boolInt(a.region == "")-boolInt(b.region == ""),
			a.from.Compare(b.from), slices.Compare(a.id[:], b.id[:]),
		)
	})
	return run
}

func (u *use) lives(at time.Time) bool {
	return !u.from.After(at) && (u.until.IsZero() || u.until.After(at))
}

func (x *kept) fits(u *use) bool {
	return (x.project.IsZero() || x.project == u.project) && (x.region == "" || x.region == u.region)
}

// unused deals the nodes that are used at a moment, one after the other.
func (s *storm) unused(of *kept, at time.Time) int64 {
	taken := map[*use]bool{}
	for _, x := range s.running(at) {
		left := int64(x.nodes)
		// Those of the first project and region are dealt first, as the rule has them.
		uses := slices.Clone(s.used)
		slices.SortStableFunc(uses, func(a, b *use) int {
			return cmp.Or(slices.Compare(a.project[:], b.project[:]), cmp.Compare(a.region, b.region))
		})
		for _, u := range uses {
			if left > 0 && u.lives(at) && x.fits(u) && !taken[u] {
				taken[u] = true
				left--
			}
		}
		if x == of {
			return left
		}
	}
	return 0
}

// cost is what a reservation comes to until a moment.
func (x *kept) cost(s *storm, until time.Time) int64 {
	if x.ends.Before(until) {
		until = x.ends
	}
	cuts := []time.Time{x.from, until}
	for _, o := range s.made {
		cuts = append(cuts, o.from, o.ends)
	}
	for _, u := range s.used {
		cuts = append(cuts, u.from, u.until)
	}
	for _, l := range x.shorts {
		cuts = append(cuts, l.from)
	}
	cuts = slices.DeleteFunc(cuts, func(c time.Time) bool { return c.Before(x.from) || c.After(until) })
	slices.SortFunc(cuts, time.Time.Compare)
	micros := new(big.Int)
	for i := 1; i < len(cuts); i++ {
		n := s.unused(x, cuts[i-1])
		for _, l := range slices.Backward(x.shorts) {
			if !l.from.After(cuts[i-1]) {
				n = max(n-l.nodes, 0)
				break
			}
		}
		micros.Add(micros, big.NewInt(n*cuts[i].Sub(cuts[i-1]).Microseconds()))
	}
	seconds := micros.Div(micros, big.NewInt(1_000_000))
	total := seconds.Mul(seconds, big.NewInt(nodeHour*9_000))
	return total.Div(total, big.NewInt(3600*10_000)).Int64()
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
