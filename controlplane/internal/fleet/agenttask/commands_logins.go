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
	loginsAtOnce = 200            // nodes that one call asks
	askAgain     = 24 * time.Hour // after an agent failed, or was too old
)

// LockLogins asks nodes in service whose machine came from MAAS to lock the
// account with which they were set up, unless they have done so in their
// present generation. Machines that were set up before each had a login of its
// own share a password. LockLogins returns how many nodes it asked.
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
		for _, n := range rows { // a node that cannot be asked does not stop the others
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
