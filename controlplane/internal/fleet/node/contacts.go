package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Contacts collects in memory which agents called, and writes that for all of
// them at once.
type Contacts struct {
	service *Service
	mu      sync.Mutex
	heard   map[id.Node]contact
}

// contact is the last call of an agent.
type contact struct {
	at   time.Time // with the monotonic clock, so that ages are right
	says agentwire.Vitals
}

func newContacts(s *Service) *Contacts {
	return &Contacts{service: s, heard: map[id.Node]contact{}}
}

// Contacts returns the collector of agents' calls.
func (s *Service) Contacts() *Contacts { return s.contacts }

// Note records in memory that the agent of a node called just now, and what it says
// about itself. Call it when a poll begins and when it ends.
func (c *Contacts) Note(node id.Node, says agentwire.Vitals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[node] = contact{time.Now(), says}
}

// Run flushes until the context ends. Each flush also records that somebody
// listens, while Config.Listening says so. Run it only in processes that serve
// agents.
func (c *Contacts) Run(ctx context.Context) {
	tick := time.NewTicker(c.service.settings.FlushEvery)
	defer tick.Stop()
	for {
		if err := c.Flush(ctx); err != nil && ctx.Err() == nil {
			c.service.logger.WarnContext(ctx, "contacts of agents were not written; they are kept for the next time",
				slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			c.last(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
	}
}

// last flushes once more at the end, so that a restart loses nothing.
func (c *Contacts) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.service.settings.FlushEvery)
	defer cancel()
	if err := c.Flush(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		c.service.logger.WarnContext(ctx, "last contacts of agents were not written", slog.Any("error", err))
	}
}

// Flush writes in one statement which agents called since the last flush, and
// that somebody listened. If the write fails, the calls are kept for the next
// one.
func (c *Contacts) Flush(ctx context.Context) error {
	listening := c.service.listening()
	c.mu.Lock()
	batch := c.heard
	c.heard = make(map[id.Node]contact, len(batch))
	c.mu.Unlock()
	if !listening && len(batch) == 0 {
		return nil
	}

	settings := c.service.settings
	p := nodedb.FlushParams{
		GapSeconds: settings.gap().Seconds(), DeafSeconds: settings.deaf().Seconds(), Listening: listening,
		Nodes: make([]string, 0, len(batch)), Ages: make([]float64, 0, len(batch)),
		Memories: make([]int64, 0, len(batch)), Uptimes: make([]float64, 0, len(batch)),
	}
	for node, last := range batch {
		p.Nodes = append(p.Nodes, node.String())
		p.Ages = append(p.Ages, time.Since(last.at).Seconds())
		p.Memories = append(p.Memories, last.says.MemoryBytes)
		p.Uptimes = append(p.Uptimes, last.says.Uptime.Seconds())
	}
	if err := c.service.reads.Flush(ctx, p); err != nil {
		c.putBack(batch)
		return fmt.Errorf("write contacts of agents: %w", err)
	}
	return nil
}

func (c *Contacts) putBack(batch map[id.Node]contact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, last := range batch {
		if last.at.After(c.heard[node].at) {
			c.heard[node] = last
		}
	}
}
