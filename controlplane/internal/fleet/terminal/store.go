package terminal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/terminal/internal/terminaldb"
)

func fromRow(r terminaldb.TerminalSession) Session {
	return Session{
		ID: r.ID, Node: r.NodeID, Username: r.Username, Status: Status(r.Status), TokenExpiresAt: r.TokenExpiresAt,
		RequestedBy: r.RequestedBy, Columns: int(r.WindowColumns), Rows: int(r.WindowRows), Correlation: r.CorrelationID,
		Gateway: r.Gateway, CloseReason: r.CloseReason, BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		CreatedAt: r.CreatedAt, OpenedAt: r.OpenedAt, ClosedAt: r.ClosedAt,
		requesterToken: r.RequesterToken, requesterKind: auth.Kind(r.RequesterKind), requesterName: r.RequesterName,
		tenant: auth.Target{Org: r.OrgID, Project: r.ProjectID}, allocation: r.AllocationID,
	}
}

func found(r terminaldb.TerminalSession, err error, session id.TerminalSession) (Session, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, fault.New(fault.NotFound, "terminal_session_not_found", "there is no terminal session %s", session).
			WithRemedy("list them with: gpuaas terminal-session list")
	}
	if err != nil {
		return Session{}, fmt.Errorf("read terminal session %s: %w", session, err)
	}
	return fromRow(r), nil
}

// Get reads a session.
func Get(ctx context.Context, db *postgres.DB, session id.TerminalSession) (Session, error) {
	r, err := terminaldb.New(db).Get(ctx, session)
	return found(r, err, session)
}

func lock(ctx context.Context, tx pgx.Tx, session id.TerminalSession) (Session, error) {
	r, err := terminaldb.New(tx).Lock(ctx, session)
	return found(r, err, session)
}

// position is where the next page begins; the newest session comes first.
type position struct {
	CreatedAt time.Time          `json:"c"`
	ID        id.TerminalSession `json:"i"`
}

func list(ctx context.Context, db *postgres.DB, node, status *string, after *position, limit int32) ([]Session, error) {
	p := terminaldb.ListParams{Node: node, Status: status, PageSize: limit}
	if after != nil {
		before := after.ID.String()
		p.CreatedBefore, p.IDBefore = &after.CreatedAt, &before
	}
	rows, err := terminaldb.New(db).List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list terminal sessions: %w", err)
	}
	out := make([]Session, len(rows))
	for i, r := range rows {
		out[i] = fromRow(r)
	}
	return out, nil
}
