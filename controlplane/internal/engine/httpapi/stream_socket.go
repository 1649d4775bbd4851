package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// The subprotocol of streams, and what the one begins with that carries the token of
// a browser, which cannot set headers.
const (
	streamProtocol = "gpuaas.events.v1"
	streamBearer   = "bearer."
)

// closeUnauthenticated is the close code of a stream whose caller may not have it any
// more.
const closeUnauthenticated websocket.StatusCode = 4401

// socketMessage is one event of a stream, as a text message.
type socketMessage struct {
	ID    string          `json:"id,omitempty"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// wantsSocket says whether a caller asks for a websocket.
func wantsSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// offeredToken is the token among the subprotocols of a websocket; zero: there is none.
func offeredToken(r *http.Request) redact.Secret {
	if !wantsSocket(r) {
		return redact.Secret{}
	}
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for offered := range strings.SplitSeq(line, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(offered), streamBearer); ok {
				return redact.New(token)
			}
		}
	}
	return redact.Secret{}
}

// sameOrigin refuses a websocket that a page of another origin opens, however it says
// who its caller is: browsers let every page open websockets to everywhere.
func (a *API) sameOrigin(r *http.Request, op Operation) error {
	asChange := r.WithContext(r.Context())
	asChange.Method = http.MethodPost
	if origins.Check(asChange) != nil {
		return a.crossOrigin(r, op)
	}
	return nil
}

// socket is a stream as a websocket.
type socket struct {
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context //nolint:containedctx // of the stream, which the socket is one end of
	lost func()          // the listener has left
	conn *websocket.Conn
}

func (s *socket) open() error {
	conn, err := websocket.Accept(s.w, s.r, &websocket.AcceptOptions{Subprotocols: []string{streamProtocol}})
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err) // Accept has answered
	}
	s.conn = conn
	// A listener says nothing; pongs are read so. It goes on when the stream is over, so that its end can still be told.
	reading := conn.CloseRead(context.WithoutCancel(s.ctx))
	context.AfterFunc(reading, s.lost)
	return nil
}

func (s *socket) event(e Event, data []byte) error {
	message, err := json.Marshal(socketMessage{ID: e.ID, Event: e.Name, Data: data})
	if err != nil {
		return fmt.Errorf("encode event %s: %w", e.Name, err)
	}
	return s.within(func(ctx context.Context) error { return s.conn.Write(ctx, websocket.MessageText, message) })
}

func (s *socket) sign(string) error { return s.within(s.conn.Ping) }

// within does something with the connection for as long as a listener may take.
func (s *socket) within(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), streamWriteTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	return nil
}

// drop cuts the connection, in case nobody ended it.
func (s *socket) drop() {
	if s.conn != nil {
		_ = s.conn.CloseNow() // it is closed already where the stream has ended well
	}
}

func (s *socket) end(why error) {
	if s.conn == nil {
		return
	}
	code, reason := websocket.StatusNormalClosure, "resume after the last id"
	if why != nil {
		code, reason = websocket.StatusTryAgainLater, fault.CodeOf(why)
	}
	if kind := fault.KindOf(why); kind == fault.Unauthenticated || kind == fault.Forbidden || kind == fault.NotFound {
		code = closeUnauthenticated
	}
	_ = s.conn.Close(code, reason)
}
