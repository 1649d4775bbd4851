package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/artifact/internal/artifactdb"
	"gpuaas/controlplane/internal/operate/policy"
)

func from(r artifactdb.Artifact) (Artifact, error) {
	a := Artifact{
		ID: r.ID, Owner: Owner{r.OrgID, r.ProjectID}, Name: r.Name, Kind: Kind(r.Kind), Source: r.Source, Digest: r.Digest,
		Size: r.Size, MediaType: r.MediaType, ArtifactType: r.ArtifactType, Layers: r.Layers, CheckedAt: r.CheckedAt,
		Verdict: Verdict{
			Signature: Signature(r.Signature), Format: Format(r.SignatureFormat), Reason: r.SignatureReason, Key: r.KeyID,
		},
		Status: Status(r.Status), StatusReason: r.StatusReason, Version: r.Version, CreatedAt: r.CreatedAt,
		CreatedBy: r.CreatedBy, UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}
	if err := errors.Join(json.Unmarshal(r.Platforms, &a.Platforms), json.Unmarshal(r.Labels, &a.Labels)); err != nil {
		return a, fmt.Errorf("read artifact %s: %w", r.ID, err)
	}
	return a, nil
}

func keyFrom(r artifactdb.ArtifactKey) Key {
	return Key{
		ID: r.ID, Org: r.OrgID, Name: r.Name, PEM: r.Pem, Fingerprint: r.Fingerprint, Algorithm: r.Algorithm,
		Repositories: r.Repositories, NotBefore: r.NotBefore, NotAfter: r.NotAfter, CreatedAt: r.CreatedAt,
		CreatedBy: r.CreatedBy, WithdrawnAt: r.WithdrawnAt, WithdrawnBy: r.WithdrawnBy, Because: r.WithdrawnBecause,
	}
}

// read answers a row that was looked for.
func read(row artifactdb.Artifact, err error) (Artifact, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Artifact{}, missing()
	}
	if err != nil {
		return Artifact{}, fmt.Errorf("read artifact: %w", err)
	}
	return from(row)
}

// Get reads an artifact that an owner may see.
func (s *Service) Get(ctx context.Context, by Owner, of id.Artifact) (Artifact, error) {
	return read(artifactdb.New(s.db).Get(ctx, artifactdb.GetParams{ID: of, OrgID: by.Org, ProjectID: by.Project}))
}

// Filter narrows a list.
type Filter struct {
	Name   string
	Status Status
}

// List lists what an owner may see: its own, its tenant's and the platform's artifacts.
func (s *Service) List(ctx context.Context, by Owner, f Filter, page postgres.Slice[id.Artifact]) ([]Artifact, error) {
	rows, err := artifactdb.New(s.db).List(ctx, artifactdb.ListParams{
		OrgID: by.Org, ProjectID: by.Project, Name: f.Name, Status: string(f.Status), After: page.After.String(),
		PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	out := make([]Artifact, len(rows))
	for i, r := range rows {
		if out[i], err = from(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ListKeys lists the keys of the platform or of a tenant.
func (s *Service) ListKeys(ctx context.Context, org id.Org, page postgres.Slice[id.ArtifactKey]) ([]Key, error) {
	rows, err := artifactdb.New(s.db).ListKeys(ctx, artifactdb.ListKeysParams{
		OrgID: org, After: page.After.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list keys of artifacts: %w", err)
	}
	out := make([]Key, len(rows))
	for i, r := range rows {
		out[i] = keyFrom(r)
	}
	return out, nil
}

// trusted are the keys that count for an owner now.
func (s *Service) trusted(ctx context.Context, org id.Org) ([]Key, error) {
	rows, err := artifactdb.New(s.db).TrustedKeys(ctx, org)
	if err != nil {
		return nil, fmt.Errorf("read trusted keys: %w", err)
	}
	out := make([]Key, len(rows))
	for i, r := range rows {
		out[i] = keyFrom(r)
	}
	return out, nil
}

// ownerOf is the project with its tenant; the guard of the API has found it to exist.
func (s *Service) ownerOf(ctx context.Context, project id.Project) (Owner, error) {
	org, err := artifactdb.New(s.db).OrgOfProject(ctx, project)
	if err != nil {
		return Owner{}, fmt.Errorf("read tenant of project: %w", err)
	}
	return Owner{Org: org, Project: project}, nil
}

// tenant refuses a tenant that does not exist.
func (s *Service) tenant(ctx context.Context, org id.Org) (Owner, error) {
	there, err := artifactdb.New(s.db).TenantExists(ctx, org)
	if err != nil {
		return Owner{}, fmt.Errorf("read tenant: %w", err)
	}
	if !there {
		return Owner{}, fault.New(fault.NotFound, "not_found", "there is no such tenant").
			WithRemedy("see which there are: gpuaas tenant list")
	}
	return Owner{Org: org}, nil
}

// Signed says which of these digests have a verified signature, as far as an owner may
// know. It refuses a digest that was revoked.
func (s *Service) Signed(ctx context.Context, tx pgx.Tx, by policy.Owner, digests []string) (map[string]bool, error) {
	rows, err := artifactdb.New(tx).Standing(ctx, artifactdb.StandingParams{
		Digests: digests, OrgID: by.Org, ProjectID: by.Project,
	})
	if err != nil {
		return nil, fmt.Errorf("read artifacts: %w", err)
	}
	out := make(map[string]bool, len(rows))
	for _, r := range rows {
		if r.Revoked {
			return nil, fault.New(fault.Forbidden, "artifact_revoked", "the artifact %s was revoked: %s", r.Digest, r.Because).
				WithRemedy("fetch another version of it; see which there are: gpuaas artifact list")
		}
		out[r.Digest] = r.Signed
	}
	return out, nil
}
