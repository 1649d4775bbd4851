package artifact

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/artifact/internal/artifactdb"
)

func sourceFrom(r artifactdb.ArtifactSource) Source {
	return Source{
		ID: r.ID, Org: r.OrgID, Name: r.Name, Kind: SourceKind(r.Kind), Reach: r.Reach, Login: r.Login, Region: r.Region,
		Shared: r.Shared, HasSecret: r.HasSecret, Version: r.Version, CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy,
		UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}
}

// ListSources lists the sources of the platform or of a tenant.
func (s *Service) ListSources(ctx context.Context, org id.Org, page postgres.Slice[id.ArtifactSource]) (
	[]Source, error,
) {
	rows, err := artifactdb.New(s.db).ListSources(ctx, artifactdb.ListSourcesParams{
		OrgID: org, After: page.After.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list artifact sources: %w", err)
	}
	out := make([]Source, len(rows))
	for i, r := range rows {
		out[i] = sourceFrom(r)
	}
	return out, nil
}

// sourceFor finds the source whose login reads a repository or an address that an owner
// registered: the owner's own before one that a level above shares, and the one that
// reaches least far.
func (s *Service) sourceFor(ctx context.Context, by Owner, what string) (Source, bool, error) {
	rows, err := artifactdb.New(s.db).SourcesFor(ctx, artifactdb.SourcesForParams{
		OrgID: by.Org, OfPlatform: by.Org.IsZero(), OfProject: !by.Project.IsZero(),
	})
	if err != nil {
		return Source{}, false, fmt.Errorf("read artifact sources: %w", err)
	}
	for _, r := range rows {
		if of := sourceFrom(r); of.reads(what) {
			return of, true, nil
		}
	}
	return Source{}, false, nil
}

// login reads the login of a source.
func (s *Service) login(ctx context.Context, of Source) (Login, error) {
	if !of.HasSecret {
		return Login{User: of.Login}, nil
	}
	kept, err := s.secrets.Get(ctx, secretOf(of))
	if err == nil && kept[keySecret].IsZero() {
		err = fault.New(fault.Internal, "artifact_secret_missing", "the secret of the artifact source %s is not in the secrets "+
			"engine", of.Name).WithRemedy("give it again: gpuaas artifact source rotate SOURCE")
	}
	return Login{of.Login, kept[keySecret]}, err
}

// loginFor is the login that an owner has for a repository; none: nobody's.
func (s *Service) loginFor(ctx context.Context, by Owner, repository string) (Login, error) {
	of, found, err := s.sourceFor(ctx, by, repository)
	if err != nil || !found || of.Kind != SourceRegistry {
		return Login{}, err
	}
	return s.login(ctx, of)
}
