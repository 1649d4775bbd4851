package rentalsettings

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/rentalsettings/internal/rentalsettingsdb"
)

func from(r rentalsettingsdb.RentalSetting) Settings {
	return Settings{
		Owner: Owner{Org: r.OrgID, Project: r.ProjectID},
		Values: Values{
			DefaultExpiry: duration(r.DefaultExpiry), MaxExpiry: duration(r.MaxExpiry), RootAccess: r.RootAccess,
		},
		Version: r.Version, UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}
}

func duration(seconds *int64) *time.Duration {
	if seconds == nil {
		return nil
	}
	return new(time.Duration(*seconds) * time.Second)
}

func seconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(int64(d.Seconds()))
}

// read reads the settings of a tenant and of one of its projects (zero: none).
func read(ctx context.Context, db rentalsettingsdb.DBTX, of Owner) (tenant, project Settings, err error) {
	tenant, project = Settings{Owner: Owner{Org: of.Org}}, Settings{Owner: of}
	rows, err := rentalsettingsdb.New(db).Applying(ctx, rentalsettingsdb.ApplyingParams{
		OrgID: of.Org, ProjectID: of.Project,
	})
	if err != nil {
		return tenant, project, fmt.Errorf("read rental settings: %w", err)
	}
	for _, row := range rows {
		if s := from(row); s.Project.IsZero() {
			tenant = s
		} else {
			project = s
		}
	}
	return tenant, project, nil
}

// InForce are the rules that a project is held to, through a pool or a transaction.
func InForce(ctx context.Context, db rentalsettingsdb.DBTX, org id.Org, project id.Project) (Rules, error) {
	t, p, err := read(ctx, db, Owner{Org: org, Project: project})
	return inForce(t.Values, p.Values), err
}

// OfTenant reads the settings of a tenant and what is in force for a project that has
// none of its own.
func (s *Service) OfTenant(ctx context.Context, org id.Org) (Settings, Rules, error) {
	t, _, err := read(ctx, s.db, Owner{Org: org})
	if err == nil && t.Version == 0 {
		err = exists(ctx, rentalsettingsdb.New(s.db), org)
	}
	return t, inForce(t.Values, Values{}), err
}

func exists(ctx context.Context, q *rentalsettingsdb.Queries, org id.Org) error {
	exists, err := q.TenantExists(ctx, org)
	if err != nil {
		return fmt.Errorf("read tenant: %w", err)
	}
	if !exists {
		return noTenant()
	}
	return nil
}

// OfProject reads the settings of a project and what is in force there.
func (s *Service) OfProject(ctx context.Context, project id.Project) (Settings, Rules, error) {
	org, err := s.orgOf(ctx, project)
	if err != nil {
		return Settings{}, Rules{}, err
	}
	t, p, err := read(ctx, s.db, Owner{Org: org, Project: project})
	return p, inForce(t.Values, p.Values), err
}

// orgOf reads the tenant of a project, which the guard of the API has found to
// exist.
func (s *Service) orgOf(ctx context.Context, project id.Project) (id.Org, error) {
	org, err := rentalsettingsdb.New(s.db).Org(ctx, project)
	if err != nil {
		return id.Org{}, fmt.Errorf("read tenant of project: %w", err)
	}
	return org, nil
}
