package terminal

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

const (
	// queued is how many messages of the user are kept while the node is absent
	// or slow.
	queued = 16
	// readyWait is how long the node may take from its connection to its shell.
	readyWait = 15 * time.Second
	// taskLook is how often an opening session checks whether its task failed.
	taskLook = 500 * time.Millisecond
	// pingEvery is short enough to keep proxies from cutting a silent
	// connection.
	pingEvery   = 30 * time.Second
	pingTimeout = 20 * time.Second
	lastWords   = 2 * time.Second
	recordEnd   = 10 * time.Second
)

type message struct {
	kind websocket.MessageType
	data []byte
}

// hold runs a session from the moment its token was consumed to its end. Only
// hold ends it.
func (s *Service) hold(ctx context.Context, h *held, task id.NodeTask) {
	ctx = as(context.WithoutCancel(ctx), h.Session)
	typed := make(chan message, queued)
	go h.listen(typed)
	node, opened := s.await(ctx, h, task), false
	if node != nil {
		if opened = s.welcome(ctx, h, node); opened {
			go s.carry(h, node, typed)
			go h.limit(s.settings)
			go h.keepAlive(node)
			<-h.life.Done()
		}
	}
	s.letGo(ctx, h, node, opened)
}

// await waits for the node to dial. If the task of the session fails, await
// returns at once instead of waiting out its time.
func (s *Service) await(ctx context.Context, h *held, task id.NodeTask) *websocket.Conn {
	late := time.NewTimer(s.settings.NodeWait)
	defer late.Stop()
	look := time.NewTicker(taskLook)
	defer look.Stop()
	for {
		select {
		case node := <-h.node:
			return node
		case <-h.life.Done():
			return nil
		case <-late.C:
			h.end(failed(reasonNodeSilent, "the node did not open the session in time",
				"check that the agent runs: gpuaas node show "+h.Node.String(), true))
			return nil
		case <-look.C:
			t, err := agenttask.Get(ctx, s.db, task)
			if err == nil && t.Status.Ended() && t.Status != agenttask.Succeeded {
				h.end(failed(t.Error.Code, t.Error.Message, t.Error.Remedy, false))
				return nil
			}
		}
	}
}

// welcome waits for the shell and tells the user.
func (s *Service) welcome(ctx context.Context, h *held, node *websocket.Conn) bool {
	waiting, cancel := context.WithTimeout(h.life, readyWait)
	defer cancel()
	kind, data, err := node.Read(waiting)
	if err != nil {
		h.end(failed(agentwire.ClosedNodeLost, "the node left before the session began", "try again", true))
		return false
	}
	frame, err := agentwire.DecodeTerminalFrame(data)
	switch {
	case kind != websocket.MessageText || err != nil:
		h.end(failed(agentwire.ClosedProtocol, "the node does not speak "+agentwire.TerminalProtocol,
			"compare the versions of agent and control plane", false))
		return false
	case frame.Type == agentwire.FrameError:
		h.end(failed(frame.Code, frame.Message, frame.Remedy, frame.Retryable))
		return false
	case frame.Type != agentwire.FrameReady:
		h.end(failed(agentwire.ClosedProtocol, "the node ended the session before it began", "try again", true))
		return false
	}
	if err := s.attached(ctx, h.ID); err != nil {
		s.logger.ErrorContext(ctx, "terminal session could not be recorded as open", "session", h.ID, "error", err)
		h.end(failed(fault.CodeOf(err), "the session could not be recorded", "try again", true))
		return false
	}
	h.touch()
	ready := agentwire.TerminalFrame{Type: agentwire.FrameReady, SessionID: h.ID.String()}
	if h.give(h.user, websocket.MessageText, ready.Encode(), s.settings.Stall) != nil {
		h.end(ending{reason: agentwire.ClosedUserLost})
	}
	return true
}

func failed(code, text, remedy string, retryable bool) ending {
	if code == "" {
		code = "terminal_session_failed"
	}
	return ending{reason: code, told: &agentwire.TerminalFrame{
		Type: agentwire.FrameError, Code: code, Message: text, Remedy: remedy, Retryable: retryable,
	}}
}

// give writes a message to one end. It waits while that end is slow, within a
// limit, and meanwhile the other end is not read. If the limit passes, give
// records the reason before it breaks the connection; otherwise the reader of
// that connection would report a lost one.
func (h *held) give(to *websocket.Conn, kind websocket.MessageType, data []byte, stall time.Duration) error {
	h.writing.Add(1)
	defer h.writing.Add(-1)
	ctx, cancel := context.WithCancel(h.wire)
	defer cancel()
	patience := time.AfterFunc(stall, func() {
		h.end(ending{reason: agentwire.ClosedStalled})
		cancel()
	})
	defer patience.Stop()
	return to.Write(ctx, kind, data)
}

// listen reads the user until the connection is closed.
func (h *held) listen(typed chan<- message) {
	for {
		kind, data, err := h.user.Read(h.wire)
		if err != nil {
			h.end(leaving(err))
			return
		}
		if kind == websocket.MessageText {
			frame, err := agentwire.DecodeTerminalFrame(data)
			switch {
			case err == nil && frame.Type == agentwire.FrameClose:
				h.end(ending{reason: agentwire.ClosedByUser})
				return
			case err != nil || frame.Type != agentwire.FrameResize:
				h.end(ending{reason: agentwire.ClosedProtocol})
				return
			}
		}
		select {
		case typed <- message{kind, data}:
		case <-h.life.Done():
			return
		}
	}
}

func leaving(err error) ending {
	switch websocket.CloseStatus(err) { //nolint:exhaustive // the others are losses
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
		return ending{reason: agentwire.ClosedByUser}
	case -1:
		if errors.Is(err, websocket.ErrMessageTooBig) {
			return ending{reason: agentwire.ClosedProtocol}
		}
	}
	return ending{reason: agentwire.ClosedUserLost}
}

// carry moves bytes in both directions until the session is over.
func (s *Service) carry(h *held, node *websocket.Conn, typed <-chan message) {
	go func() {
		for {
			select {
			case m := <-typed:
				h.touch()
				if m.kind == websocket.MessageBinary {
					h.in.Add(int64(len(m.data)))
				}
				if h.give(node, m.kind, m.data, s.settings.Stall) != nil {
					h.end(ending{reason: agentwire.ClosedNodeLost})
					return
				}
			case <-h.life.Done():
				return
			}
		}
	}()
	for {
		kind, data, err := node.Read(h.wire)
		if err != nil {
			h.end(ending{reason: agentwire.ClosedNodeLost})
			return
		}
		h.touch()
		if kind == websocket.MessageText {
			h.end(closedByNode(data))
			return
		}
		h.out.Add(int64(len(data)))
		if h.give(h.user, kind, data, s.settings.Stall) != nil {
			h.end(ending{reason: agentwire.ClosedUserLost})
			return
		}
	}
}

// closedByNode reads the reason that the agent gave for closing.
func closedByNode(data []byte) ending {
	frame, err := agentwire.DecodeTerminalFrame(data)
	if err != nil || frame.Type != agentwire.FrameClosed || !reasons[frame.Reason] {
		return ending{reason: agentwire.ClosedProtocol}
	}
	return ending{reason: frame.Reason, exit: frame.Exit}
}

// reasons are those that an agent can give.
var reasons = map[string]bool{
	agentwire.ClosedShellEnded: true, agentwire.ClosedByUser: true, agentwire.ClosedIdle: true,
	agentwire.ClosedTotal:   true,
	agentwire.ClosedStalled: true, agentwire.ClosedProtocol: true, agentwire.ClosedRemoved: true,
	agentwire.ClosedOnRequest: true,
	agentwire.ClosedDrained:   true, agentwire.ClosedGateway: true,
}

// limit ends the session when nothing was carried for too long, or when it was
// open for too long.
func (h *held) limit(limits Settings) {
	opened := time.Now()
	for {
		wait, reason := limits.IdleLimit-(time.Since(h.begun)-time.Duration(h.active.Load())), agentwire.ClosedIdle
		if rest := limits.TotalLimit - time.Since(opened); rest < wait {
			wait, reason = rest, agentwire.ClosedTotal
		}
		if wait <= 0 {
			h.end(ending{reason: reason})
			return
		}
		select {
		case <-h.life.Done():
			return
		case <-time.After(wait):
		}
	}
}

// keepAlive pings both ends while no message waits to be written. An end that
// is behind with reading cannot answer a ping, and needs none.
func (h *held) keepAlive(node *websocket.Conn) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-h.life.Done():
			return
		case <-tick.C:
		}
		for conn, reason := range map[*websocket.Conn]string{
			h.user: agentwire.ClosedUserLost,
			node:   agentwire.ClosedNodeLost,
		} {
			if h.writing.Load() > 0 {
				continue
			}
			ctx, cancel := context.WithTimeout(h.life, pingTimeout)
			err := conn.Ping(ctx)
			cancel()
			if err != nil && h.writing.Load() == 0 {
				h.end(ending{reason: reason})
			}
		}
	}
}

// letGo ends a session: the shell first, then the row, then the user.
func (s *Service) letGo(ctx context.Context, h *held, node *websocket.Conn, opened bool) {
	var why ending
	if !errors.As(context.Cause(h.life), &why) { // nothing else ends it
		why = ending{reason: agentwire.ClosedGateway}
	}
	if node != nil {
		// the node may be gone
		_ = h.give(node, websocket.MessageText, agentwire.TerminalFrame{
			Type:   agentwire.FrameClose,
			Reason: why.reason,
		}.Encode(), lastWords)
		go func() { _ = node.Close(closeCode(why.reason), why.reason) }()
	}
	recording, cancel := context.WithTimeout(ctx, recordEnd)
	defer cancel()
	if err := s.ended(recording, h.ID, why.reason, h.in.Load(), h.out.Load()); err != nil {
		s.logger.ErrorContext(ctx, "end of terminal session not recorded; a sweep will", "session", h.ID, "error", err)
	}
	told := agentwire.TerminalFrame{
		Type: agentwire.FrameClosed, SessionID: h.ID.String(), Reason: why.reason,
		Exit: why.exit,
	}
	if opened && why.told != nil {
		told.Code, told.Message, told.Remedy = why.told.Code, why.told.Message, why.told.Remedy
	}
	if !opened {
		told = agentwire.TerminalFrame{
			Type: agentwire.FrameError, Code: why.reason,
			Message: "the session ended before it began", Retryable: true,
		}
		if why.told != nil {
			told = *why.told
		}
		told.SessionID = h.ID.String()
	}
	_ = h.give(h.user, websocket.MessageText, told.Encode(), lastWords) // the user may be gone
	_ = h.user.Close(closeCode(why.reason), why.reason)
	s.logger.InfoContext(ctx, "terminal session ended", "session", h.ID, "node", h.Node, "user", h.Username, "reason",
		why.reason,
		"opened", opened, "duration", time.Since(h.begun), "bytes_in", h.in.Load(), "bytes_out", h.out.Load())
	s.broker.remove(h)
}

func closeCode(reason string) websocket.StatusCode {
	switch reason {
	case agentwire.ClosedShellEnded, agentwire.ClosedByUser, agentwire.ClosedRemoved, agentwire.ClosedOnRequest,
		agentwire.ClosedDrained:
		return websocket.StatusNormalClosure
	case agentwire.ClosedIdle, agentwire.ClosedTotal:
		return agentwire.CloseLimit
	case agentwire.ClosedAccessLost:
		return agentwire.CloseUnauthenticated
	case agentwire.ClosedGateway, reasonGatewayLost:
		return websocket.StatusServiceRestart
	case agentwire.ClosedProtocol:
		return websocket.StatusPolicyViolation
	}
	return agentwire.CloseUnavailable
}
