package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Paths are the cases that are no stage in one of the kinds, but a way that a job
// takes: what is broken, what must be seen of it, and how it ends.
const Paths Family = "path"

// Groups are the parts of the catalogue in the order of the report.
var Groups = append(Families[:len(Families):len(Families)], Paths)

// path is what must be seen of a case that is a path.
type path struct {
	name string
	// stops are where it must be parked, with the code and the action that must be
	// recommended first. None: it must not be parked.
	stops []Stop
	// tells is a part of what the explanation must say was observed.
	tells string
	// outcome is that of a decommission; empty: clean.
	outcome string
	// alone says that the job must go on by itself once the cause is put right.
	alone bool
	// ask asks for the job otherwise than usual. It may be nil.
	ask func(r *run, ctx context.Context) error
}

// Group is the part of the catalogue that the case belongs to.
func (c Case) Group() Family {
	if c.path != nil {
		return Paths
	}
	return c.Family
}

// nobody stands in the place of an action where a job must go on by itself.
const nobody = "nobody acts"

// soon is how long a job may take to notice that its cause was put right.
const soon = 20 * time.Second

// goesOn waits until a job that is parked goes on without an action.
func (r *run) goesOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	tick := time.NewTicker(rentalLook)
	defer tick.Stop()
	for {
		v, err := r.view(ctx)
		if err == nil && !parked(v.Status) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the job did not go on by itself in %s", soon), err)
		}
	}
}

// checkPath compares what was seen of a path with what must be.
func (r *run) checkPath(seen []Stop) {
	if r.path == nil {
		return
	}
	if len(seen) != len(r.path.stops) {
		r.violate("it was parked %d times, and must be %d times", len(seen), len(r.path.stops))
		return
	}
	for i, want := range r.path.stops {
		if got := seen[i]; got.Stage != want.Stage || got.Code != want.Code || got.Action != want.Action {
			r.violate("it was parked at %s with %s, and %s leads on; want %s with %s, and %s", got.Stage, got.Code, got.Action,
				want.Stage, want.Code, want.Action)
		}
	}
}

// checkTold checks that the explanation of a path names what is wrong.
func (r *run) checkTold(v *standing) {
	if r.path == nil || strings.Contains(v.Explanation.Summary+v.Explanation.Observed, r.path.tells) {
		return
	}
	r.violate("the explanation does not say %q: %s %s", r.path.tells, v.Explanation.Summary, v.Explanation.Observed)
}

// checkOutcome checks that a decommission that did less than was asked for says so.
func (r *run) checkOutcome(v *standing) {
	if r.path == nil || r.Family != Decommission {
		return
	}
	want := "clean"
	if r.path.outcome != "" {
		want = r.path.outcome
	}
	if v.Outcome != want {
		r.violate("the outcome is %q, and must be %s", v.Outcome, want)
	}
}

// samplePaths picks some of the paths that wait for no time limit.
func samplePaths(all []Case, seed uint64) []Case {
	var quick, out []Case
	for _, c := range all {
		if c.path != nil && !c.slow {
			quick = append(quick, c)
		}
	}
	const some = 4
	order := rand.New(rand.NewPCG(seed, some)).Perm(len(quick)) //nolint:gosec // a simulation must repeat itself by its seed
	for _, i := range order[:min(some, len(order))] {
		out = append(out, quick[i])
	}
	return out
}
