package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Contacts gathers in memory which agents were heard of, and writes that down
// for all of them at once.
type Contacts struct {
	service *Service
	mu      sync.Mutex
	heard   map[id.Node]time.Time // with the monotonic clock, so that ages are true
}

func newContacts(s *Service) *Contacts {
	return &Contacts{service: s, heard: map[id.Node]time.Time{}}
}

// Contacts is where calls of agents are noted.
func (s *Service) Contacts() *Contacts { return s.contacts }

// Note says that the agent of a node was heard of just now. It costs no
// write; call it when a poll begins and when it ends.
func (c *Contacts) Note(node id.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[node] = time.Now()
}

// Run flushes until the context ends. It also says that somebody listens, as
// long as Config.Listening says so: run it exactly where agents come to.
func (c *Contacts) Run(ctx context.Context) {
	tick := time.NewTicker(c.service.settings.FlushEvery)
	defer tick.Stop()
	for {
		if err := c.Flush(ctx); err != nil && ctx.Err() == nil {
			c.service.logger.WarnContext(ctx, "contacts of agents were not written; they are kept for the next time", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			c.last(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
	}
}

// last writes what was heard until the end, so that a restart loses nothing.
func (c *Contacts) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.service.settings.FlushEvery)
	defer cancel()
	if err := c.Flush(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		c.service.logger.WarnContext(ctx, "last contacts of agents were not written", slog.Any("error", err))
	}
}

// Flush writes down, in one statement, who was heard of since the last time,
// and that somebody listened, if somebody did. What cannot be written is kept.
func (c *Contacts) Flush(ctx context.Context) error {
	listening := c.service.listening()
	c.mu.Lock()
	batch := c.heard
	c.heard = make(map[id.Node]time.Time, len(batch))
	c.mu.Unlock()
	if !listening && len(batch) == 0 {
		return nil
	}

	settings := c.service.settings
	p := nodedb.FlushParams{
		GapSeconds: settings.gap().Seconds(), DeafSeconds: settings.deaf().Seconds(), Listening: listening,
		Nodes: make([]string, 0, len(batch)), Ages: make([]float64, 0, len(batch)),
	}
	for node, at := range batch {
		p.Nodes = append(p.Nodes, node.String())
		p.Ages = append(p.Ages, time.Since(at).Seconds())
	}
	if err := c.service.reads.Flush(ctx, p); err != nil {
		c.putBack(batch)
		return fmt.Errorf("write contacts of agents: %w", err)
	}
	return nil
}

func (c *Contacts) putBack(batch map[id.Node]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, at := range batch {
		if at.After(c.heard[node]) {
			c.heard[node] = at
		}
	}
}
