package fleetcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/apiclient"
	"gpuaas/sim/fleet"
)

// measurement compares when tasks were recorded with when agents had verified
// them. If the control plane runs on this machine, both times come from the
// same clock.
type measurement struct {
	mu      sync.Mutex
	asked   map[string]time.Time
	arrived map[string]time.Time
	all     chan struct{} // closed when all requested tasks have arrived
	total   int
}

func newMeasurement() *measurement {
	return &measurement{
		asked: map[string]time.Time{}, arrived: map[string]time.Time{}, all: make(chan struct{}),
		total: -1,
	}
}

func (m *measurement) received(e agentwire.Envelope, at time.Time) {
	if e.Type != agentwire.TypeHeartbeatCheck {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arrived[e.TaskID] = at
	m.settle()
}

func (m *measurement) recorded(task string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[task] = at
	m.settle()
}

// settle notices the end. The lock must be held.
func (m *measurement) settle() {
	if m.total >= 0 && len(m.asked) == m.total && len(m.arrived) >= m.total {
		select {
		case <-m.all:
		default:
			close(m.all)
		}
	}
}

const patience = time.Minute

func (m *measurement) run(ctx context.Context, out io.Writer, api *apiclient.Client, agents []*fleet.Agent,
	f flags,
) error {
	ids, err := nodeIDs(agents)
	if err != nil {
		return err
	}
	if err := allActive(ctx, api, f); err != nil {
		return err
	}
	total := int(f.measure.Seconds() * float64(f.rate))
	ticker := time.NewTicker(time.Second / time.Duration(f.rate))
	defer ticker.Stop()
	var asking sync.WaitGroup
	failures := make(chan error, total)
	for range total {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		node := ids[rand.IntN(len(ids))] //nolint:gosec // chance, not secrecy
		asking.Go(func() {
			answer, err := api.CreateNodeTaskWithResponse(ctx, node, &apiclient.CreateNodeTaskParams{},
				apiclient.AgenttaskNewBody{Type: agentwire.TypeHeartbeatCheck, Reason: "measurement"})
			switch {
			case err != nil:
				failures <- err
			case answer.JSON == nil:
				failures <- fmt.Errorf("the control plane answered %s", answer.HTTP.Status)
			default:
				m.recorded(answer.JSON.TaskId.String(), answer.JSON.CreatedAt)
			}
		})
	}
	asking.Wait()
	close(failures)
	for err := range failures {
		return fmt.Errorf("ask a node to answer: %w", err)
	}
	m.mu.Lock()
	m.total = total
	m.settle()
	m.mu.Unlock()
	select {
	case <-m.all:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		err = errors.New("not every task arrived within a minute")
	}
	m.report(out, total, f.rate)
	return err
}

// allActive waits until every agent has polled, because the start is not
// measured.
func allActive(ctx context.Context, api *apiclient.Client, f flags) error {
	enrolling, one := apiclient.ListNodesParamsStatusEnrolling, int64(1)
	for {
		answer, err := api.ListNodesWithResponse(ctx,
			&apiclient.ListNodesParams{Status: &enrolling, Hostname: &f.prefix, PageSize: &one})
		if err != nil {
			return fmt.Errorf("look for nodes that are not active yet: %w", err)
		}
		if answer.JSON != nil && len(answer.JSON.Items) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (m *measurement) report(out io.Writer, total, rate int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var took []time.Duration
	for task, asked := range m.asked {
		if at, ok := m.arrived[task]; ok {
			took = append(took, at.Sub(asked))
		}
	}
	slices.Sort(took)
	say(out, "tasks %d at %d/s, arrived %d, missed %d", total, rate, len(took), total-len(took))
	if len(took) > 0 {
		at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
		say(out, "recorded to verified by the agent: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms", at(.5), at(.9),
			at(.99), at(1))
	}
}
