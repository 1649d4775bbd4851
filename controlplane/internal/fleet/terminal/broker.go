package terminal

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
)

// broker knows the sessions of this replica and connects their two ends.
type broker struct {
	mu      sync.Mutex
	closing bool
	held    map[id.TerminalSession]*held
}

// held is a session whose user is connected to this replica.
type held struct {
	Session
	user *websocket.Conn
	node chan *websocket.Conn // sent once

	begun   time.Time
	active  atomic.Int64 // when something was last carried, since begun
	in, out atomic.Int64
	writing atomic.Int32 // messages that are being written
	stands  atomic.Bool  // the row says that this replica holds it

	life context.Context //nolint:containedctx // of the session, not of a call
	stop context.CancelCauseFunc
	// wire outlives life: when the context of a connection ends, the connection
	// is cut and cannot be told why.
	wire context.Context //nolint:containedctx // likewise
	done chan struct{}   // closed when both ends have been released
	// claimed says that the node's end is connected, or about to be. The
	// broker's lock guards it.
	claimed bool
}

// ending is why a session ends.
type ending struct {
	reason string
	// told is sent to the user if the session never opened or lost its right.
	told *agentwire.TerminalFrame
	exit *int
}

func (e ending) Error() string { return e.reason }

func newBroker() *broker { return &broker{held: map[id.TerminalSession]*held{}} }

func newHeld(user *websocket.Conn) *held {
	h := &held{user: user, node: make(chan *websocket.Conn, 1), begun: time.Now(), done: make(chan struct{})}
	h.life, h.stop = context.WithCancelCause(context.Background())
	h.wire = context.WithoutCancel(h.life)
	return h
}

// end ends the session. The first reason counts.
func (h *held) end(e ending) { h.stop(e) }

func (h *held) touch() { h.active.Store(int64(time.Since(h.begun))) }

// add makes a session joinable for its node.
func (b *broker) add(h *held, s Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.Session = s
	b.held[s.ID] = h
	if b.closing {
		h.end(ending{reason: agentwire.ClosedGateway})
	}
}

// remove forgets a session. Nobody can join it from then on.
func (b *broker) remove(h *held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[h.ID] == h {
		delete(b.held, h.ID)
	}
	close(h.done)
}

// open reports whether the replica takes new sessions.
func (b *broker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closing
}

// claim finds the session that a node may join now. A session can be joined
// once.
func (b *broker) claim(session id.TerminalSession, node id.Node) (h *held, here bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, here = b.held[session]
	switch {
	case !here:
		return nil, false, nil
	case h.Node != node:
		return nil, true, errNotFound
	case h.claimed || h.life.Err() != nil:
		return nil, true, errEnded
	}
	h.claimed = true
	return h, true, nil
}

// standing lists the sessions whose rows say that this replica holds them.
func (b *broker) standing() []*held {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*held
	for _, h := range b.held {
		if h.stands.Load() {
			out = append(out, h)
		}
	}
	return out
}

// shutdown ends all sessions and waits for them.
func (b *broker) shutdown(grace time.Duration) {
	b.mu.Lock()
	b.closing = true
	var all []*held
	for _, h := range b.held {
		all = append(all, h)
		h.end(ending{reason: agentwire.ClosedGateway})
	}
	b.mu.Unlock()
	late := time.After(grace)
	for _, h := range all {
		select {
		case <-h.done:
		case <-late:
			return
		}
	}
}
