package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Enrolment is what one agent enrols with.
type Enrolment struct {
	Token    string
	Hostname string
}

// EnrollAll enrols many agents, a bounded number of them at once.
func (o Options) EnrollAll(ctx context.Context, enrolments []Enrolment, atOnce int) ([]*Agent, error) {
	agents := make([]*Agent, len(enrolments))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, e := range enrolments {
		group.Go(func() (err error) {
			agents[i], err = o.Enroll(ctx, e.Token, e.Hostname)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("enrol the fleet: %w", err)
	}
	return agents, nil
}

// Running is a fleet at work.
type Running struct {
	cancel  context.CancelFunc
	done    sync.WaitGroup
	alive   atomic.Int64
	mu      sync.Mutex
	refused []error
}

// Start runs agents until Stop.
func Start(ctx context.Context, agents []*Agent) *Running {
	ctx, cancel := context.WithCancel(ctx)
	r := &Running{cancel: cancel}
	for _, a := range agents {
		r.alive.Add(1)
		r.done.Go(func() {
			defer r.alive.Add(-1)
			if err := a.Run(ctx); err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.refused = append(r.refused, fmt.Errorf("agent of node %s: %w", a.NodeID, err))
			}
		})
	}
	return r
}

// Alive counts the agents that have not been refused.
func (r *Running) Alive() int { return int(r.alive.Load()) }

// Stop ends all agents and says which of them the control plane had refused.
func (r *Running) Stop() []error {
	r.cancel()
	r.done.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}
