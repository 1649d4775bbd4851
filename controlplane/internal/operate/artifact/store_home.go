package artifact

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/operate/artifact/internal/artifactdb"
)

// PlatformRepositories is how repositories of the platform begin in its own registry. No
// tenant is called so: their names have no dots.
const PlatformRepositories = "platform.gpuaas"

// Place says whose a repository of the platform's own registry is: that of a project is
// called TENANT/PROJECT/NAME.
func (s *Service) Place(ctx context.Context, repository string) (Owner, error) {
	return place(ctx, s.db, repository)
}

func place(ctx context.Context, db artifactdb.DBTX, repository string) (Owner, error) {
	tenant, rest, _ := strings.Cut(repository, "/")
	if tenant == PlatformRepositories && rest != "" {
		return Owner{}, nil
	}
	project, name, _ := strings.Cut(rest, "/")
	if name == "" {
		return Owner{}, noPlace(repository)
	}
	row, err := artifactdb.New(db).PlaceOf(ctx, artifactdb.PlaceOfParams{Tenant: tenant, Project: project})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Owner{}, noPlace(repository)
	case err != nil:
		return Owner{}, fmt.Errorf("read whose repository it is: %w", err)
	}
	return Owner{Org: row.OrgID, Project: row.ID}, nil
}

func noPlace(repository string) error {
	return fault.New(fault.NotFound, "artifact_repository_unknown",
		"the registry of the platform has no repository %.200q for you", repository).
		WithRemedy("write it as %s/TENANT/PROJECT/NAME", agentwire.PlatformRegistry)
}

// atHome refuses a source in the platform's own registry that is somebody else's. Whoever
// may not know of it learns nothing: it is as if it did not exist.
func atHome(ctx context.Context, db artifactdb.DBTX, by Owner, source string) error {
	repository, _, _ := strings.Cut(strings.TrimPrefix(source, "https://"), "@")
	repository, ours := strings.CutPrefix(repository, agentwire.PlatformRegistry+"/")
	if !ours {
		return nil
	}
	at, err := place(ctx, db, repository)
	if err != nil {
		return err
	}
	if at.Org.IsZero() || by.Org.IsZero() || at.Org == by.Org && (by.Project.IsZero() || by.Project == at.Project) {
		return nil
	}
	return noPlace(repository)
}
