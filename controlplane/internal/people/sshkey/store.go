package sshkey

import (
	"context"
	"fmt"

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
