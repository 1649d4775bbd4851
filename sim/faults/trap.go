package faults

import (
	"context"
	"slices"
	"sync"
)

// Point is an attempt at a stage of a job.
type Point struct {
	Job, Stage string
	Attempt    int
	Epoch      int64
}

// What can go wrong at a point, by the names that control planes use.
const (
	mishapNone        = ""
	mishapUnavailable = "unavailable"
	mishapAmbiguous   = "ambiguous"
	mishapKilled      = "killed"
	mishapTwice       = "twice"
	mishapRefused     = "refused"
)

// Trap is called before and after each stage acts.
type Trap struct {
	mu    sync.Mutex
	runs  map[string]*run
	known map[string]chan struct{} // closed once the run of a job is known
	// asking is held for reading by whoever asks for an allocation, until its run is
	// known. Stages of allocations wait for that alone: those of others are let alone.
	asking sync.RWMutex
}

// NewTrap makes a trap that does nothing until a case is run.
func NewTrap() *Trap {
	return &Trap{runs: map[string]*run{}, known: map[string]chan struct{}{}}
}

// Before says what goes wrong before a stage acts.
func (t *Trap) Before(ctx context.Context, at Point) string {
	if r := t.of(ctx, at); r != nil {
		return r.meet(ctx, at, true)
	}
	return mishapNone
}

// After says what goes wrong when a stage has acted and nothing is recorded
// yet.
func (t *Trap) After(ctx context.Context, at Point) string {
	if r := t.of(ctx, at); r != nil {
		return r.meet(ctx, at, false)
	}
	return mishapNone
}

// of finds the run that a stage is part of.
func (t *Trap) of(ctx context.Context, at Point) *run {
	if !slices.Contains(rentalStages, at.Stage) {
		return t.await(ctx, at.Job)
	}
	t.asking.Lock()
	defer t.asking.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[at.Job]
}

func (t *Trap) knownOf(job string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[job] == nil {
		t.known[job] = make(chan struct{})
	}
	return t.known[job]
}

// await finds the run of a job. The workflow may begin before the requester has
// learned its id.
func (t *Trap) await(ctx context.Context, job string) *run {
	select {
	case <-t.knownOf(job):
	case <-ctx.Done():
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[job]
}

func (t *Trap) set(job string, r *run) {
	known := t.knownOf(job)
	t.mu.Lock()
	t.runs[job] = r
	t.mu.Unlock()
	close(known)
}

// action is what happens before or after a stage. n counts the calls, from 1.
type action func(ctx context.Context, n int) string

func once(mishap string) action {
	return func(_ context.Context, n int) string {
		if n == 1 {
			return mishap
		}
		return mishapNone
	}
}

// meet handles a stage that begins or ends.
func (r *run) meet(ctx context.Context, at Point, before bool) string {
	r.mu.Lock()
	if before && at.Epoch > r.epoch {
		r.epoch = at.Epoch
		r.mu.Unlock()
		r.checkTakeover(ctx)
		r.mu.Lock()
	}
	do := r.after
	switch {
	case at.Stage == r.Stage && before:
		do = r.before
	case at.Stage != r.Stage:
		do = nil
		if before {
			do = r.elsewhere[at.Stage]
		}
	}
	n := 0
	if do != nil {
		key := at.Stage
		if !before {
			key += "/after"
		}
		r.met[key]++
		n = r.met[key]
	}
	r.mu.Unlock()
	if do == nil {
		return mishapNone
	}
	return do(ctx, n)
}
