package terminal

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// PathUser is where the user's end of a session connects, on the public
// listener.
const PathUser = "/ws/terminal/{session_id}"

// attendance starts watching whether a session may go on.
type attendance func(httpapi.Standing) (leave func(), err error)

// ServeUser serves the user's end of a session until the session is over. It
// answers a bad request with a problem document, and a bad token with a close
// code, because browsers show nothing else.
func (s *Service) ServeUser(w http.ResponseWriter, r *http.Request) {
	if err := s.acceptable(r); err != nil {
		httpapi.WriteProblem(r.Context(), w, err)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{agentwire.TerminalProtocol}})
	if err != nil {
		s.logger.DebugContext(r.Context(), "terminal connection refused", "error", err)
		return // Accept has answered
	}
	defer conn.CloseNow() //nolint:errcheck // closed with a code where it matters
	conn.SetReadLimit(agentwire.MaxTerminalMessage)
	h := newHeld(conn)
	task, leave, err := s.admit(r, h)
	if err != nil {
		s.dismiss(r.Context(), conn, err)
		return
	}
	defer leave()
	h.stands.Store(true)
	s.hold(r.Context(), h, task)
}

// acceptable checks what can be checked before the websocket is open. A page of
// another origin must not use what its visitor can reach.
func (s *Service) acceptable(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return fault.New(fault.Invalid, "websocket_required", "this path speaks websocket only").
			WithRemedy("connect with a websocket, subprotocol %s; or use: gpuaas terminal NODE", agentwire.TerminalProtocol)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return fault.New(fault.Forbidden, "origin_refused", "a page of another origin must not open a terminal")
		}
	}
	if !s.broker.open() {
		return errShutdown
	}
	if s.settings.GatewayURL == "" {
		return errNoGateway
	}
	return nil
}

// admit consumes the token that a user brings, if whoever asked for it may
// still have a terminal. From then on that right is watched.
func (s *Service) admit(r *http.Request, h *held) (task id.NodeTask, leave func(), err error) {
	ctx := r.Context()
	if r.URL.RawQuery != "" { // tokens in a query end up in logs, and nothing else belongs there
		return task, nil, errTokenInQuery
	}
	session, err := id.Parse[id.TerminalSession](r.PathValue("session_id"))
	if err != nil {
		return task, nil, errToken
	}
	token := tokenOf(r.Header)
	if token.IsZero() {
		return task, nil, errToken
	}
	if leave, err = s.watched(ctx, session, token, h); err == nil {
		if _, task, err = s.use(ctx, session, token, func(now Session) { s.broker.add(h, now) }); err == nil {
			return task, leave, nil
		}
		leave()
	}
	if !h.ID.IsZero() {
		s.broker.remove(h)
	}
	if kind := fault.KindOf(err); kind == fault.Unauthenticated || kind == fault.Forbidden {
		s.refused(ctx, session, "terminal_session.connect", fault.CodeOf(err))
	}
	return task, nil, err
}

// watched checks whether the session of a token may be opened, and ends it as
// soon as it no longer may.
func (s *Service) watched(ctx context.Context, session id.TerminalSession, token redact.Secret, h *held) (
	leave func(), err error,
) {
	asked, err := s.presented(ctx, session, token)
	if err != nil {
		return nil, err
	}
	standing := httpapi.Standing{
		Caller: asked.requester(), End: func(why error) { h.end(lost(why)) },
		Again: func(ctx context.Context) (*auth.Principal, error) {
			return s.holders.Reauthenticate(ctx, asked.requesterToken)
		},
		May: func(ctx context.Context, now *auth.Principal) error {
			if now.Decide(asked.needs(), asked.tenant) != auth.Allowed {
				return errForbidden
			}
			if asked.allocation.IsZero() || s.visits == nil {
				return nil
			}
			return s.visits.MayStay(ctx, asked.allocation, now)
		},
	}
	now, err := standing.Again(ctx)
	if err == nil {
		err = standing.May(ctx, now)
	}
	if err != nil {
		return nil, err
	}
	return s.attend(standing)
}

// lost is the ending of a session whose requester may no longer have it, or
// whose replica is shutting down.
func lost(why error) ending {
	f, ok := fault.As(why)
	switch {
	case !ok:
		return ending{reason: agentwire.ClosedAccessLost}
	case f.Kind == fault.Unavailable && f.Code == errShutdown.Code:
		return ending{reason: agentwire.ClosedGateway}
	}
	return ending{reason: agentwire.ClosedAccessLost, told: &agentwire.TerminalFrame{
		Type: agentwire.FrameError, Code: f.Code, Message: f.Message, Remedy: f.Remedy,
	}}
}

// tokenOf finds the token among the subprotocols, where browsers can put it, or
// in the Authorization header.
func tokenOf(h http.Header) redact.Secret {
	for _, line := range h.Values("Sec-WebSocket-Protocol") {
		for offered := range strings.SplitSeq(line, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(offered), agentwire.TerminalBearer); ok {
				return redact.New(token)
			}
		}
	}
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return redact.Secret{}
	}
	return redact.New(strings.TrimSpace(token))
}

// dismiss tells a user why there will be no session.
func (s *Service) dismiss(ctx context.Context, conn *websocket.Conn, err error) {
	frame := agentwire.TerminalFrame{
		Type: agentwire.FrameError, Code: "internal", Message: "the session could not be begun",
		Remedy: "ask for a new token", Retryable: true,
	}
	if f, ok := fault.As(err); ok && f.Kind != fault.Internal {
		frame.Code, frame.Message, frame.Remedy = f.Code, f.Message, f.Remedy
	}
	code := websocket.StatusCode(agentwire.CloseUnavailable)
	if kind := fault.KindOf(err); kind == fault.Unauthenticated || kind == fault.Forbidden {
		code, frame.Retryable = agentwire.CloseUnauthenticated, false
	} else if kind != fault.RateLimited {
		s.logger.ErrorContext(ctx, "terminal session could not be begun", "code", frame.Code, "error", err)
	}
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	_ = conn.Write(writing, websocket.MessageText, frame.Encode()) // the user may be gone
	_ = conn.Close(code, frame.Code)
}

// ServeNode serves the node's end of a session until the session is over. The
// caller has established which node it is.
func (s *Service) ServeNode(w http.ResponseWriter, r *http.Request, node id.Node) {
	h, err := s.join(r, node)
	if err != nil {
		httpapi.WriteProblem(r.Context(), w, err)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{agentwire.TerminalProtocol}})
	if err != nil {
		h.end(failed(agentwire.ClosedNodeLost, "the node did not complete its connection", "try again", true))
		return // Accept has answered
	}
	defer conn.CloseNow() //nolint:errcheck // closed with a code where it matters
	conn.SetReadLimit(agentwire.MaxTerminalMessage)
	h.node <- conn
	<-h.done
}

// join finds the session that a node may join in this replica now.
func (s *Service) join(r *http.Request, node id.Node) (*held, error) {
	ctx := r.Context()
	session, err := id.Parse[id.TerminalSession](r.PathValue("session_id"))
	if err != nil {
		return nil, errNotFound
	}
	h, here, err := s.broker.claim(session, node)
	if here && err == nil {
		return h, nil
	}
	now, missing := Get(ctx, s.db, session)
	switch {
	case fault.KindOf(missing) == fault.NotFound:
		return nil, errNotFound
	case missing != nil:
		return nil, missing
	case now.Node != node:
		s.refused(ctx, session, "terminal_session.join", "the session is for another node than "+node.String())
		return nil, errNotFound
	case here, now.Status != Opening, now.Gateway == s.name:
		return nil, errEnded
	}
	return nil, errElsewhere
}
