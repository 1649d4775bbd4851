package agenttask

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/agenttask/internal/agenttaskdb"
	"gpuaas/controlplane/internal/auth"
)

const (
	loginsAtOnce = 200            // nodes that are asked in one look
	askAgain     = 24 * time.Hour // an agent that could not, or is too old
)

// LockLogins asks every node in service, whose machine came from MAAS, to lock the
// account that it was set up by, if it has not done so in its present life: those
// of before machines had a login of their own share a password. It says how many
// were asked.
func (c Commands) LockLogins(ctx context.Context) (asked int, err error) {
	ctx = auth.With(ctx, auth.System("login-sweeper"))
	rows, err := agenttaskdb.New(c.DB).OpenLogins(ctx, agenttaskdb.OpenLoginsParams{
		Type: agentwire.TypeLoginLock, Since: c.now().Add(-askAgain), Most: loginsAtOnce,
	})
	if err != nil {
		return 0, fmt.Errorf("list nodes with an open deploy login: %w", err)
	}
	for _, n := range rows {
		err := c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := c.Enqueue(ctx, tx, Request{
				Node: n.ID, Type: agentwire.TypeLoginLock, Params: agentwire.LoginLockParams{Username: n.DeployUser},
				IdempotencyKey: "login-lock/" + c.now().UTC().Format(time.DateOnly),
				Reason:         "nobody needs the deploy login of a machine that has an agent",
			})
			return err
		})
		if err != nil {
			return asked, fmt.Errorf("ask node %s to lock its deploy login: %w", n.ID, err)
		}
		asked++
	}
	return asked, nil
}
