package terminal

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
)

// Owns asks the row of a session whether it wants a task, for tests.
func Owns(ctx context.Context, tx pgx.Tx, session id.TerminalSession, node id.Node, typ string) error {
	return opening(session).Owns(ctx, tx, node, typ)
}
