package sshkey

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/people/sshkey/internal/sshkeydb"
)

// Follower hears, in the transaction, that a key opens nothing any more.
type Follower interface {
	KeyRemoved(ctx context.Context, tx pgx.Tx, key id.SSHKey) error
}

// Service holds the commands and queries of the package.
type Service struct {
	db     *postgres.DB
	follow Follower
}

// New makes the service; a nil follower hears nothing. It connects to nothing.
func New(db *postgres.DB, follow Follower) *Service { return &Service{db: db, follow: follow} }

// mine is the person who asks, for changes of that person's own keys.
func mine(ctx context.Context) (Owner, error) {
	who := auth.From(ctx)
	if who.Kind != auth.KindUser {
		return Owner{}, fault.New(fault.Forbidden, "person_required", "only people have SSH keys of their own").
			WithRemedy("have an administrator of the project add it there: gpuaas key add --project PROJECT FILE")
	}
	var o Owner
	if err := o.User.UnmarshalText([]byte(who.ID)); err != nil {
		return Owner{}, fmt.Errorf("read id of the caller: %w", err)
	}
	return o, nil
}

// mayChange refuses tokens that were made for something else.
func mayChange(ctx context.Context) error {
	if who := auth.From(ctx); len(who.Scopes) > 0 && !who.InScope(auth.SSHKeyManage) {
		return fault.New(fault.Forbidden, "permission_denied", "this token may not change SSH keys: its scopes do not name %s",
			auth.SSHKeyManage).
			WithRemedy("sign in, or use a token with the scope %s", auth.SSHKeyManage)
	}
	return nil
}

// AddOwn adds a key of the person who asks.
func (s *Service) AddOwn(ctx context.Context, name, text string) (Key, error) {
	of, err := mine(ctx)
	if err == nil {
		err = mayChange(ctx)
	}
	if err != nil {
		return Key{}, err
	}
	return s.Add(ctx, of, name, text)
}

// RemoveOwn removes a key of the person who asks.
func (s *Service) RemoveOwn(ctx context.Context, which id.SSHKey) error {
	of, err := mine(ctx)
	if err == nil {
		err = mayChange(ctx)
	}
	if err != nil {
		return err
	}
	return s.Remove(ctx, of, which)
}

// Add adds a key.
func (s *Service) Add(ctx context.Context, of Owner, name, text string) (Key, error) {
	k, err := parse(name, text)
	if err != nil {
		return Key{}, err
	}
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := sshkeydb.New(tx)
		if err := q.LockOwner(ctx, of.User.String()+of.Project.String()); err != nil {
			return fmt.Errorf("lock SSH keys of owner: %w", err)
		}
		n, err := q.Count(ctx, sshkeydb.CountParams{UserID: of.User, ProjectID: of.Project})
		if err != nil {
			return fmt.Errorf("count SSH keys: %w", err)
		}
		if n >= MaxKeys {
			return fault.New(fault.Conflict, "ssh_keys_too_many", "there are %d SSH keys already, which is the most", n).
				WithRemedy("remove one that nobody uses: gpuaas key list")
		}
		row, err := q.Insert(ctx, sshkeydb.InsertParams{
			ID: id.New[id.SSHKey](), UserID: of.User, ProjectID: of.Project, Name: k.Name, Algorithm: k.Algorithm,
			PublicKey: k.PublicKey, Fingerprint: k.Fingerprint, AddedBy: auth.From(ctx).ID,
		})
		if postgres.Violates(err, "ssh_keys_of_user") || postgres.Violates(err, "ssh_keys_of_project") {
			return fault.New(fault.Conflict, "ssh_key_exists", "the key %s is there already", k.Fingerprint).
				WithRemedy("see under which name: gpuaas key list")
		}
		if err != nil {
			return fmt.Errorf("insert SSH key: %w", err)
		}
		k = from(row)
		return record(ctx, tx, "ssh_key.add", k)
	})
	return k, err
}

// Remove removes a key.
func (s *Service) Remove(ctx context.Context, of Owner, which id.SSHKey) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := sshkeydb.New(tx).Delete(ctx, sshkeydb.DeleteParams{
			ID: which, UserID: of.User, ProjectID: of.Project,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return notFound()
		}
		if err != nil {
			return fmt.Errorf("delete SSH key: %w", err)
		}
		if err := record(ctx, tx, "ssh_key.remove", from(row)); err != nil || s.follow == nil {
			return err
		}
		return s.follow.KeyRemoved(ctx, tx, which)
	})
}

func record(ctx context.Context, tx pgx.Tx, action string, k Key) error {
	e := audit.Entry{
		Action: action, TargetKind: "ssh_key", TargetID: k.ID.String(), Project: k.Project, Result: audit.Success,
		Metadata: map[string]any{"name": k.Name, "algorithm": k.Algorithm, "fingerprint": k.Fingerprint},
	}
	if !k.Project.IsZero() {
		org, err := sshkeydb.New(tx).Org(ctx, k.Project)
		if err != nil {
			return fmt.Errorf("read tenant of project: %w", err)
		}
		e.Org = org
	}
	return audit.Record(ctx, tx, e)
}
