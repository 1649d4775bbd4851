package agenttask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
)

const (
	loginsAtOnce = 200            // nodes that one call asks
	askAgain     = 24 * time.Hour // after an agent failed, or was too old
)

// LockLogins asks nodes that no operation holds and whose machine came from MAAS
// to lock the account with which they were set up, unless they have done so in
// their present generation. Machines that were set up before each had a login of
// its own share a password. The account is the one that was deployed. If its name
// was not kept, LockLogins names the present deploy user of the site, and agents
// search for others by themselves. LockLogins returns how many nodes it asked.
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
			IdempotencyKey: fmt.Sprintf("login-lock/%d/%s", n.Generation, c.now().UTC().Format(time.DateOnly)),
			Reason:         "nobody needs the deploy login of a machine that has an agent",
		})
		return err
	})
}

// DeployUser is the account that the machine of a node was set up by; empty: its
// deployment did not keep that.
func DeployUser(ctx context.Context, db agenttaskdb.DBTX, node id.Node) (string, error) {
	known, err := deployUsers(ctx, db, []id.Node{node})
	return known[node], err
}

func texts[noun any](nodes []id.Of[noun]) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.String()
	}
	return out
}

func deployUsers(ctx context.Context, db agenttaskdb.DBTX, nodes []id.Node) (map[id.Node]string, error) {
	rows, err := agenttaskdb.New(db).DeployUsers(ctx, texts(nodes))
	if err != nil {
		return nil, fmt.Errorf("read deploy users of nodes: %w", err)
	}
	known := make(map[id.Node]string, len(rows))
	for _, r := range rows {
		known[r.ID] = r.DeployUser
	}
	return known, nil
}

// UnprovenLogins are those of some nodes whose agent was asked about the account of
// the name that their site has now, and did not look for others: the one that was
// deployed may be open. It gives the name that was tried.
func UnprovenLogins(ctx context.Context, db agenttaskdb.DBTX, nodes []id.Node) (map[id.Node]string, error) {
	rows, err := agenttaskdb.New(db).UnprovenLogins(ctx,
		agenttaskdb.UnprovenLoginsParams{Nodes: texts(nodes), Type: agentwire.TypeLoginLock})
	if err != nil {
		return nil, fmt.Errorf("list deploy logins that are not proven to be locked: %w", err)
	}
	if len(rows) == 0 {
		return map[id.Node]string{}, nil
	}
	known, err := deployUsers(ctx, db, nodes)
	if err != nil {
		return nil, err
	}
	unproven := map[id.Node]string{}
	for _, r := range rows {
		if known[r.NodeID] != r.Username {
			unproven[r.NodeID] = r.Username
		}
	}
	return unproven, nil
}
