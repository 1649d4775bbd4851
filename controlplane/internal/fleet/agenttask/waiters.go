package agenttask

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// channel is the PostgreSQL channel for notifications about tasks.
const channel = "node_tasks"

// The shortest and the longest pause before subscribing again.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 3 * time.Second
)

// Run keeps one subscription to the database's notifications for all agents
// that poll this process, until the context ends. After each new subscription
// it wakes all polls, so that they find what was committed in between.
func (q *Queue) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		err := q.cfg.DB.Listen(ctx, channel, func() { pause = firstPause; q.waiting.wakeAll() }, q.notified)
		if ctx.Err() != nil {
			return
		}
		q.cfg.Logger.WarnContext(ctx, "notifications of node tasks lost; subscribing again", "error", err)
		timer := time.NewTimer(pause*3/4 + rand.N(pause/2)) //nolint:gosec // jitter, not a secret
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, longestPause)
	}
}

func (q *Queue) notified(payload string) {
	node, err := id.Parse[id.Node](payload)
	if err != nil {
		q.waiting.wakeAll()
		return
	}
	q.waiting.wake(node)
}

// waiters are the polls that this process holds.
type waiters struct {
	mu sync.Mutex
	by map[id.Node][]*waiter
}

type waiter struct {
	node  id.Node
	woken chan struct{} // capacity 1: no wake-up is lost, and several become one
	leave func()        // ends the poll without a task
}

func newWaiters() *waiters { return &waiters{by: map[id.Node][]*waiter{}} }

// add registers a poll and ends the earlier polls of the node. An agent has
// only one open, so nobody hears the earlier ones, and a task that they claim
// is lost.
func (w *waiters) add(node id.Node, leave func()) *waiter {
	one := &waiter{node: node, woken: make(chan struct{}, 1), leave: leave}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, earlier := range w.by[node] {
		earlier.leave()
	}
	w.by[node] = append(w.by[node], one)
	return one
}

func (w *waiters) remove(gone *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.by[gone.node]
	for i, one := range all {
		if one == gone {
			all = append(all[:i], all[i+1:]...)
			break
		}
	}
	if len(all) == 0 {
		delete(w.by, gone.node)
		return
	}
	w.by[gone.node] = all
}

func (w *waiters) wake(node id.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.by[node] {
		one.wake()
	}
}

func (w *waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.by {
		for _, one := range all {
			one.wake()
		}
	}
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}
