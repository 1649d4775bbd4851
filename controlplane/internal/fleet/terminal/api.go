package terminal

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// NewSession describes the session that the caller wants.
type NewSession struct {
	Username string `json:"username" pattern:"^[a-z_][a-z0-9_-]{0,31}$" doc:"a user that was provisioned on the node; never root"`
	Columns  int    `json:"columns,omitempty" minimum:"1" maximum:"1000" default:"80" doc:"width of the terminal"`
	Rows     int    `json:"rows,omitempty" minimum:"1" maximum:"1000" default:"24" doc:"height of the terminal"`
}

// Token opens one session, once.
type Token struct {
	SessionID     id.TerminalSession `json:"session_id"`
	Token         string             `json:"token" doc:"shown once; works once"`
	WebsocketPath string             `json:"websocket_path" doc:"where to connect, on this host"`
	ExpiresAt     time.Time          `json:"expires_at"`
}

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// SessionView is an interactive session on a node.
type SessionView struct {
	ID            id.TerminalSession `json:"id"`
	NodeID        id.Node            `json:"node_id"`
	Username      string             `json:"username"`
	Status        Status             `json:"status"`
	RequestedBy   string             `json:"requested_by"`
	CloseReason   string             `json:"close_reason,omitempty" doc:"why it ended"`
	BytesIn       int64              `json:"bytes_in" doc:"typed"`
	BytesOut      int64              `json:"bytes_out" doc:"shown"`
	CorrelationID string             `json:"correlation_id"`
	CreatedAt     time.Time          `json:"created_at"`
	OpenedAt      *time.Time         `json:"opened_at,omitempty"`
	ClosedAt      *time.Time         `json:"closed_at,omitempty"`
}

// Closing says why a session shall end.
type Closing struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"why; it goes into the audit log"`
}

type mintInput struct {
	Node id.Node `path:"node_id"`
	Body NewSession
}

type mintOutput struct {
	Body Token
}

type listInput struct {
	httpapi.Page
	Node   string `query:"node_id" format:"uuid" doc:"only sessions on this node"`
	Status Status `query:"status" doc:"only sessions in this state"`
}

type listOutput struct {
	Body httpapi.List[SessionView]
}

type closeInput struct {
	ID   id.TerminalSession `path:"session_id"`
	Body Closing
}

type sessionOutput struct {
	Body SessionView
}

const root = "/api/v1/admin/terminal-sessions"

// Register adds the operations of terminals, and the endpoint for users.
func (s *Service) Register(api *httpapi.API) {
	s.attend = api.Attend
	httpapi.Register(api, httpapi.Operation{
		ID: "create-terminal-token", Method: http.MethodPost, Path: "/api/v1/admin/nodes/{node_id}/terminal-token",
		Tag:    "Terminals",
		Status: http.StatusCreated, Summary: "Issue a token that opens one terminal session on a node",
		Description: "Connect to `websocket_path` with a websocket and offer the subprotocols `gpuaas.terminal.v1` and " +
			"`bearer.<token>`, " +
			"or send the token as `Authorization: Bearer`. A token in the query is refused; a refused token closes with 4401. " +
			"So does a session whose requester loses token, account or permission, within 15 seconds. " +
			"Binary messages are the bytes of the terminal; text messages are JSON: `session_ready`, `session_error` and " +
			"`session_closed` " +
			"to the user, `resize` with `cols` and `rows`, and `close`, from the user.",
		Access: httpapi.Platform(auth.TerminalOpen), SecretResponse: true,
	}, s.mint)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-terminal-sessions", Method: http.MethodGet, Path: root, Tag: "Terminals",
		Summary: "List terminal sessions, newest first", Access: httpapi.Platform(auth.NodeRead),
	}, s.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "close-terminal-session", Method: http.MethodPost, Path: root + "/{session_id}/close", Tag: "Terminals",
		Status:  http.StatusAccepted,
		Summary: "End a terminal session",
		Description: "Both ends of an open session are cut, at the latest after 15 seconds, and the agent of its node is " +
			"told; one that has ended is left as it is.",
		Access: httpapi.Platform(auth.NodeManage),
	}, func(ctx context.Context, in *closeInput) (*sessionOutput, error) {
		now, err := s.Close(ctx, in.ID, in.Body.Reason)
		if err != nil {
			return nil, err
		}
		return &sessionOutput{Body: wire(now)}, nil
	})
	api.Socket("terminal-session", PathUser, http.HandlerFunc(s.ServeUser))
}

func (s *Service) mint(ctx context.Context, in *mintInput) (*mintOutput, error) {
	made, token, err := s.Mint(ctx, Wish{
		Node: in.Node, Username: in.Body.Username, Columns: in.Body.Columns,
		Rows: in.Body.Rows,
	}, nil)
	if err != nil {
		return nil, err
	}
	return &mintOutput{Body: Token{
		SessionID: made.ID, Token: token.Reveal(), ExpiresAt: made.TokenExpiresAt,
		WebsocketPath: strings.Replace(PathUser, "{session_id}", made.ID.String(), 1),
	}}, nil
}

func (s *Service) list(ctx context.Context, in *listInput) (*listOutput, error) {
	var at position
	var after *position
	if more, err := in.After(&at); err != nil {
		return nil, err
	} else if more {
		after = &at
	}
	sessions, err := list(ctx, s.db, optional(in.Node), optional(string(in.Status)), after, in.Limit())
	if err != nil {
		return nil, err
	}
	page := httpapi.NewList(in.Page, sessions, func(t Session) any { return position{t.CreatedAt, t.ID} })
	out := &listOutput{Body: httpapi.List[SessionView]{NextCursor: page.NextCursor}}
	for _, t := range page.Items {
		out.Body.Items = append(out.Body.Items, wire(t))
	}
	return out, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func wire(t Session) SessionView {
	return SessionView{
		ID: t.ID, NodeID: t.Node, Username: t.Username, Status: t.Status, RequestedBy: t.RequestedBy,
		CloseReason: t.CloseReason,
		BytesIn:     t.BytesIn, BytesOut: t.BytesOut, CorrelationID: t.Correlation, CreatedAt: t.CreatedAt,
		OpenedAt: t.OpenedAt,
		ClosedAt: t.ClosedAt,
	}
}
