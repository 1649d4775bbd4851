package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options say what to try.
type Options struct {
	Seed     uint64
	Parallel int
	Cases    []Case
	// Places are searched for secrets at the end; nil means none. Telling holds
	// parts of names of places in which the ids of jobs must be found.
	Places  Places
	Telling []string
	// Tell is called for each case that has ended. It may be nil.
	Tell func(done, all int, o Outcome)
}

// Report is the result of a run over the catalogue.
type Report struct {
	Seed     uint64
	Parallel int
	Took     time.Duration
	Outcomes []Outcome
	Search   Search
}

// share is how much of the catalogue must be resolved by itself or by the first
// recommended action.
const share = 0.9

// slowAtOnce is how many cases wait for time limits at the same time.
const slowAtOnce = 12

// Run tries all cases.
func (w *World) Run(ctx context.Context, o Options) (Report, error) {
	began := time.Now()
	out := Report{Seed: o.Seed, Parallel: o.Parallel, Outcomes: make([]Outcome, len(o.Cases))}
	// Cases that wait for time limits do not hold up the others.
	var lanes [2][]int
	for i, c := range o.Cases {
		lane := 0
		if c.slow {
			lane = 1
		}
		lanes[lane] = append(lanes[lane], i)
	}
	var mu sync.Mutex
	var working sync.WaitGroup
	done := 0
	for lane, most := range []int{max(o.Parallel, 1), slowAtOnce} {
		for range min(most, len(lanes[lane])) {
			working.Go(func() {
				for {
					mu.Lock()
					if len(lanes[lane]) == 0 || ctx.Err() != nil {
						mu.Unlock()
						return
					}
					next := lanes[lane][0]
					lanes[lane] = lanes[lane][1:]
					mu.Unlock()
					result := w.try(ctx, o.Seed, next+1, o.Cases[next])
					mu.Lock()
					done++
					out.Outcomes[next] = result
					if o.Tell != nil {
						o.Tell(done, len(o.Cases), result)
					}
					mu.Unlock()
				}
			})
		}
	}
	working.Wait()
	if ctx.Err() != nil {
		return out, fmt.Errorf("try the catalogue: %w", ctx.Err())
	}
	var err error
	if o.Places != nil {
		out.Search, err = w.search(ctx, o.Places, o.Telling)
	}
	out.Took = time.Since(began)
	return out, err
}

// Count returns how many cases ended with one of these results.
func (r Report) Count(results ...Result) int {
	n := 0
	for _, o := range r.Outcomes {
		if slices.Contains(results, o.Result) {
			n++
		}
	}
	return n
}

// First counts the cases that were resolved by themselves or by the first
// recommended action.
func (r Report) First() int {
	n := 0
	for _, o := range r.Outcomes {
		if o.First() {
			n++
		}
	}
	return n
}

// Tried counts the cases that could be tried.
func (r Report) Tried() int { return len(r.Outcomes) - r.Count(NotApplicable) }

// Verdict is nil if all rules held.
func (r Report) Verdict() error {
	var problems []string
	for _, o := range r.Outcomes {
		for _, b := range o.Broken {
			problems = append(problems, o.Name()+": "+b)
		}
	}
	for _, l := range r.Search.Leaks {
		problems = append(problems, fmt.Sprintf("%s was found in %s", l.Secret, l.Place))
	}
	for _, b := range r.Search.Blind {
		problems = append(problems, "what jobs leave behind was not found in "+b+", so that secrets would not be either")
	}
	if tried := r.Tried(); float64(r.First()) < share*float64(tried) {
		problems = append(problems, fmt.Sprintf(
			"%d of %d cases were resolved by themselves or by the first recommended action, and %.0f %% must be", r.First(),
			tried, share*100))
	}
	if len(problems) == 0 {
		return nil
	}
	return &BrokenError{Problems: problems}
}

// BrokenError lists the rules that did not hold.
type BrokenError struct{ Problems []string }

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%d things that must hold did not:\n  %s", len(e.Problems), strings.Join(e.Problems, "\n  "))
}
