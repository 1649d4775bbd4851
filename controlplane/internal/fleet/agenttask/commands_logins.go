package agenttask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
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
	var failures []error
	var after *string
	for asked < loginsAtOnce {
		rows, err := agenttaskdb.New(c.DB).OpenLogins(ctx, agenttaskdb.OpenLoginsParams{
			After: after, Type: agentwire.TypeLoginLock, Since: c.now().Add(-askAgain), Most: loginsAtOnce,
		})
		if err != nil {
			return asked, errors.Join(append(failures, fmt.Errorf("list nodes with an open deploy login: %w", err))...)
		}
		for _, n := range rows { // one that cannot be asked keeps no other from being asked
			if err := c.lockLogin(ctx, n); err != nil {
				failures = append(failures, fmt.Errorf("ask node %s to lock its deploy login %q: %w", n.ID, n.DeployUser, err))
				continue
			}
			asked++
		}
		if len(rows) < loginsAtOnce {
			break
		}
		last := rows[len(rows)-1].ID.String()
		after = &last
	}
	return asked, errors.Join(failures...)
}

func (c Commands) lockLogin(ctx context.Context, n agenttaskdb.OpenLoginsRow) error {
	return c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := c.Enqueue(ctx, tx, Request{
			Node: n.ID, Type: agentwire.TypeLoginLock, Params: agentwire.LoginLockParams{Username: n.DeployUser},
			IdempotencyKey: "login-lock/" + c.now().UTC().Format(time.DateOnly),
			Reason:         "nobody needs the deploy login of a machine that has an agent",
		})
		return err
	})
}
