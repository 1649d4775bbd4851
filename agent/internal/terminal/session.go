package terminal

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

const (
	chunk = 32 << 10
	// queued is how many messages of input are kept for programs that do not
	// read.
	queued = 32
	// drain is how long the last output may take to be sent.
	drain = 500 * time.Millisecond
)

// session is one shell and its connection to the user.
type session struct {
	id, user    string
	idle, total time.Duration
	cfg         Config
	conn        *websocket.Conn
	shell       *hostexec.Shell

	begun  time.Time
	active atomic.Int64 // when something was last typed or shown, since begun
	in     atomic.Int64
	out    atomic.Int64

	life context.Context //nolint:containedctx // of the session, not of a call
	stop context.CancelCauseFunc
	gone chan struct{} // closed when none of its processes run any more
}

// ended is why a session ends: one of the reasons of agentwire.
type ended string

func (e ended) Error() string { return string(e) }

func newSession(p agentwire.TerminalOpenParams, cfg Config) *session {
	life, stop := context.WithCancelCause(context.Background())
	return &session{
		id: p.SessionID, user: p.Username, cfg: cfg, begun: time.Now(), life: life, stop: stop, gone: make(chan struct{}),
		idle: time.Duration(p.IdleSeconds) * time.Second, total: time.Duration(p.TotalSeconds) * time.Second,
	}
}

// end ends the session. The first reason counts.
func (x *session) end(reason string) { x.stop(ended(reason)) }

// ready tells the user that the shell runs.
func (x *session) ready() error {
	return x.send(websocket.MessageText, agentwire.TerminalFrame{Type: agentwire.FrameReady, SessionID: x.id}.Encode())
}

// refuse tells the user that there will be no shell.
func (x *session) refuse(e *Error) {
	_ = x.send(websocket.MessageText, agentwire.TerminalFrame{
		Type: agentwire.FrameError, SessionID: x.id, Code: e.Code, Message: e.Message, Remedy: e.Remedy,
	}.Encode())
	go func() { _ = x.conn.Close(agentwire.CloseUnavailable, e.Code) }() // Close waits for the other end
}

// run carries bytes until the session is over. The caller then hangs up.
func (x *session) run() (hangUp func()) {
	x.cfg.Logger.Info("terminal session opened", "session", x.id, "user", x.user)
	var carrying sync.WaitGroup
	input := make(chan []byte, queued)
	shown := make(chan struct{})
	carrying.Go(func() { x.listen(input) })
	carrying.Go(func() { x.typing(input) })
	carrying.Go(func() { x.show(); close(shown) })
	carrying.Go(x.limit)
	carrying.Go(func() {
		select {
		case <-x.shell.Ended():
			x.end(agentwire.ClosedShellEnded)
		case <-x.life.Done():
		}
	})
	<-x.life.Done()
	exit := x.shell.End()
	close(x.gone)
	select {
	case <-shown:
	case <-time.After(drain): // a process that left the session holds the terminal
	}
	leave := x.finish(exit)
	return func() { leave(); carrying.Wait() }
}

// finish closes the terminal and tells the user why.
func (x *session) finish(exit int) (hangUp func()) {
	_ = x.shell.Close() // ends what waits for it
	var why ended
	if !errors.As(context.Cause(x.life), &why) {
		why = agentwire.ClosedGateway
	}
	frame := agentwire.TerminalFrame{Type: agentwire.FrameClosed, Reason: string(why)}
	if why == agentwire.ClosedShellEnded {
		frame.Exit = &exit
	}
	_ = x.send(websocket.MessageText, frame.Encode()) // the other end may be the one that was lost
	x.cfg.Logger.Info("terminal session ended", "session", x.id, "user", x.user, "reason", string(why),
		"duration", time.Since(x.begun), "bytes_in", x.in.Load(), "bytes_out", x.out.Load())
	return func() { _ = x.conn.Close(websocket.StatusNormalClosure, string(why)) }
}

// send fails if the other end takes nothing for too long.
func (x *session) send(kind websocket.MessageType, message []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), x.cfg.Stall)
	defer cancel()
	return x.conn.Write(ctx, kind, message)
}

// listen reads what the control plane sends until the connection is closed.
func (x *session) listen(input chan<- []byte) {
	defer close(input)
	for {
		kind, message, err := x.conn.Read(context.Background())
		if err != nil {
			x.end(agentwire.ClosedGateway)
			return
		}
		x.touch()
		if kind == websocket.MessageText {
			if !x.obey(message) {
				return
			}
			continue
		}
		x.in.Add(int64(len(message)))
		select {
		case input <- message:
		case <-x.life.Done():
			return
		case <-time.After(x.cfg.Stall):
			x.end(agentwire.ClosedStalled)
			return
		}
	}
}

// obey carries out a control frame and says whether to go on.
func (x *session) obey(message []byte) bool {
	frame, err := agentwire.DecodeTerminalFrame(message)
	switch {
	case err != nil:
		x.end(agentwire.ClosedProtocol)
		return false
	case frame.Type == agentwire.FrameResize:
		_ = x.shell.Resize(frame.Columns, frame.Rows) // it fails only if the shell has ended
	case frame.Type == agentwire.FrameClose:
		x.end(cmp.Or(frame.Reason, agentwire.ClosedByUser))
		return false
	}
	return true
}

// typing runs beside listen: a program that does not read must not keep the
// agent from hearing that the session ends.
func (x *session) typing(input <-chan []byte) {
	for {
		select {
		case message, more := <-input:
			if !more {
				return
			}
			if _, err := x.shell.Write(message); err != nil {
				return // the terminal is gone; other code notices that the shell has ended
			}
		case <-x.life.Done():
			return
		}
	}
}

// show sends what programs print. It reads no faster than the user does.
func (x *session) show() {
	buffer := make([]byte, chunk)
	for {
		n, err := x.shell.Read(buffer)
		if n > 0 {
			x.touch()
			x.out.Add(int64(n))
			if x.send(websocket.MessageBinary, buffer[:n]) != nil {
				x.end(agentwire.ClosedGateway)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (x *session) touch() { x.active.Store(int64(time.Since(x.begun))) }

// limit ends the session when it was idle for too long, or open for too long.
func (x *session) limit() {
	for {
		wait, reason := x.left(time.Since(x.begun))
		if wait <= 0 {
			x.end(reason)
			return
		}
		select {
		case <-x.life.Done():
			return
		case <-time.After(wait):
		}
	}
}

// left says how long the session may go on if nothing happens, and what ends it
// then.
func (x *session) left(age time.Duration) (time.Duration, string) {
	idle, total := x.idle-(age-time.Duration(x.active.Load())), x.total-age
	if total < idle {
		return total, agentwire.ClosedTotal
	}
	return idle, agentwire.ClosedIdle
}
