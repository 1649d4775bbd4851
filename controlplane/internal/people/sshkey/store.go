package sshkey

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/people/sshkey/internal/sshkeydb"
)

func from(r sshkeydb.SshKey) Key {
	return Key{
		ID: r.ID, User: r.UserID, Project: r.ProjectID, Name: r.Name, Algorithm: r.Algorithm, PublicKey: r.PublicKey,
		Fingerprint: r.Fingerprint, AddedBy: r.AddedBy, CreatedAt: r.CreatedAt,
	}
}

// Own lists the keys of the person who asks.
func (s *Service) Own(ctx context.Context, page postgres.Slice[id.SSHKey]) ([]Key, error) {
	of, err := mine(ctx)
	if err != nil {
		return nil, err
	}
	return s.Keys(ctx, of, page)
}

// Keys lists the keys of an owner, in the order in which they were added.
func (s *Service) Keys(ctx context.Context, of Owner, page postgres.Slice[id.SSHKey]) ([]Key, error) {
	rows, err := sshkeydb.New(s.db).List(ctx, sshkeydb.ListParams{
		UserID: of.User, ProjectID: of.Project, After: page.After.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list SSH keys: %w", err)
	}
	out := make([]Key, len(rows))
	for i, r := range rows {
		out[i] = from(r)
	}
	return out, nil
}

// Usable gives the keys that an owner may put on a node: those that are named, or
// all where none is. An owner may be a person and a project at once here.
func Usable(ctx context.Context, tx pgx.Tx, of Owner, named []id.SSHKey) ([]Key, error) {
	rows, err := sshkeydb.New(tx).List(ctx, sshkeydb.ListParams{
		UserID: of.User, ProjectID: of.Project, After: id.SSHKey{}.String(), PageSize: 2 * MaxKeys,
	})
	if err != nil {
		return nil, fmt.Errorf("list SSH keys: %w", err)
	}
	var out []Key
	for _, r := range rows {
		doubled := slices.ContainsFunc(out, func(k Key) bool { return k.Fingerprint == r.Fingerprint })
		if len(named) == 0 && !doubled && len(out) < MaxKeys || slices.Contains(named, r.ID) {
			out = append(out, from(r))
		}
	}
	for _, n := range named {
		if !slices.ContainsFunc(out, func(k Key) bool { return k.ID == n }) {
			return nil, fault.New(fault.NotFound, "ssh_key_not_found",
				"the key %s is neither yours nor one of the project", n).WithRemedy("see which there are: gpuaas key list")
		}
	}
	return out, nil
}

// Owners says whose keys these are. One that is gone is not in it.
func Owners(ctx context.Context, tx pgx.Tx, of []id.SSHKey) (map[id.SSHKey]Owner, error) {
	ids := make([]string, len(of))
	for i, k := range of {
		ids[i] = k.String()
	}
	rows, err := sshkeydb.New(tx).Owners(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look whose SSH keys these are: %w", err)
	}
	out := make(map[id.SSHKey]Owner, len(rows))
	for _, r := range rows {
		out[r.ID] = Owner{User: r.UserID, Project: r.ProjectID}
	}
	return out, nil
}
