package identity

import (
	"context"
	"fmt"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// CreateTenant makes a tenant with its default project.
func (s *Service) CreateTenant(ctx context.Context, n Naming) (Tenant, error) {
	if err := n.check(); err != nil {
		return Tenant{}, err
	}
	var tenant Tenant
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		row, err := c.InsertTenant(ctx, identitydb.InsertTenantParams{ID: newID[id.Org](), Slug: n.Slug, Name: n.Name})
		if postgres.Violates(err, "tenant_slug") {
			return slugTaken("tenant", n.Slug)
		}
		if err != nil {
			return fmt.Errorf("insert tenant: %w", err)
		}
		tenant = tenantFrom(row)
		if err := c.record(ctx, tenantEntry("tenant.create", tenant),
			tenantEvent(eventwire.TenantCreated, tenant)); err != nil {
			return err
		}
		_, err = c.insertProject(ctx, tenant.ID, Naming{Slug: DefaultProject, Name: "Default"})
		return err
	})
	return tenant, err
}

// UpdateTenant renames a tenant. It fails if the tenant is no longer at this
// version.
func (s *Service) UpdateTenant(ctx context.Context, org id.Org, version int64, name string) (Tenant, error) {
	if err := checkName(name); err != nil {
		return Tenant{}, err
	}
	var tenant Tenant
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		before, err := c.LockTenant(ctx, org)
		if err != nil {
			return orNotFound(err)
		}
		if err := atVersion(before.Version, version); err != nil {
			return err
		}
		if tenant = tenantFrom(before); tenant.Name == name {
			return nil
		}
		row, err := c.UpdateTenant(ctx, identitydb.UpdateTenantParams{ID: org, Name: name})
		if err != nil {
			return fmt.Errorf("update tenant: %w", err)
		}
		tenant = tenantFrom(row)
		return c.record(ctx, tenantEntry("tenant.update", tenant), tenantEvent(eventwire.TenantUpdated, tenant))
	})
	return tenant, err
}

// DisableTenant lets a tenant have nothing new, and EnableTenant ends that. What it
// has stays. One that is so already stays so.
func (s *Service) DisableTenant(ctx context.Context, org id.Org, reason string) (Tenant, error) {
	return s.switchTenant(ctx, org, func(ctx context.Context, c change, now Tenant) (Tenant, error) {
		if now.DisabledAt != nil {
			return now, nil
		}
		row, err := c.DisableTenant(ctx, identitydb.DisableTenantParams{
			ID: org, Reason: reason, DisabledBy: auth.From(ctx).ID,
		})
		if err != nil {
			return now, fmt.Errorf("disable tenant: %w", err)
		}
		return tenantFrom(row), c.switched(ctx, "tenant.disable", eventwire.TenantDisabled, tenantFrom(row), reason)
	})
}

// EnableTenant lets a tenant ask for something new again.
func (s *Service) EnableTenant(ctx context.Context, org id.Org, reason string) (Tenant, error) {
	return s.switchTenant(ctx, org, func(ctx context.Context, c change, now Tenant) (Tenant, error) {
		if now.DisabledAt == nil {
			return now, nil
		}
		row, err := c.EnableTenant(ctx, org)
		if err != nil {
			return now, fmt.Errorf("enable tenant: %w", err)
		}
		return tenantFrom(row), c.switched(ctx, "tenant.enable", eventwire.TenantEnabled, tenantFrom(row), reason)
	})
}

func (s *Service) switchTenant(ctx context.Context, org id.Org,
	do func(context.Context, change, Tenant) (Tenant, error),
) (Tenant, error) {
	var tenant Tenant
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		before, err := c.LockTenant(ctx, org)
		if err != nil {
			return orNotFound(err)
		}
		tenant, err = do(ctx, c, tenantFrom(before))
		return err
	})
	return tenant, err
}

func (c change) switched(ctx context.Context, action string, tell eventwire.Type, t Tenant, reason string) error {
	e := tenantEntry(action, t)
	e.Reason = reason
	return c.record(ctx, e, tenantEvent(tell, t))
}

// TenantEnabled refuses what a tenant that is disabled may not do.
func (s *Service) TenantEnabled(ctx context.Context, org id.Org) error {
	t, err := s.Tenant(ctx, org)
	if err != nil {
		return err
	}
	return t.enabled()
}

// CreateProject makes a project in a tenant.
func (s *Service) CreateProject(ctx context.Context, org id.Org, n Naming) (Project, error) {
	if err := n.check(); err != nil {
		return Project{}, err
	}
	var project Project
	err := s.inChange(ctx, func(ctx context.Context, c change) (err error) {
		project, err = c.insertProject(ctx, org, n)
		return err
	})
	return project, err
}

func (c change) insertProject(ctx context.Context, org id.Org, n Naming) (Project, error) {
	row, err := c.InsertProject(ctx, identitydb.InsertProjectParams{
		ID: newID[id.Project](), OrgID: org, Slug: n.Slug, Name: n.Name,
	})
	switch {
	case postgres.Violates(err, "projects_org_id_slug_key"):
		return Project{}, slugTaken("project", n.Slug)
	case postgres.Violates(err, "projects_org_id_fkey"):
		return Project{}, notFound()
	case err != nil:
		return Project{}, fmt.Errorf("insert project: %w", err)
	}
	project := projectFrom(row)
	return project, c.record(ctx, projectEntry("project.create", project), projectEvent(eventwire.ProjectCreated, project))
}

// UpdateProject renames a project. It fails if the project is no longer at this
// version.
func (s *Service) UpdateProject(ctx context.Context, project id.Project, version int64, name string) (Project, error) {
	if err := checkName(name); err != nil {
		return Project{}, err
	}
	var after Project
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		before, err := c.LockProject(ctx, project)
		if err != nil {
			return orNotFound(err)
		}
		if err := atVersion(before.Version, version); err != nil {
			return err
		}
		if after = projectFrom(before); after.Name == name {
			return nil
		}
		row, err := c.UpdateProject(ctx, identitydb.UpdateProjectParams{ID: project, Name: name})
		if err != nil {
			return fmt.Errorf("update project: %w", err)
		}
		after = projectFrom(row)
		return c.record(ctx, projectEntry("project.update", after), projectEvent(eventwire.ProjectUpdated, after))
	})
	return after, err
}

// Tenant reads one tenant.
func (s *Service) Tenant(ctx context.Context, org id.Org) (Tenant, error) {
	row, err := s.reads.Tenant(ctx, org)
	return tenantFrom(row), orNotFound(err)
}

// Tenants lists the tenants that the caller may see.
func (s *Service) Tenants(ctx context.Context, page postgres.Slice[id.Org]) ([]Tenant, error) {
	caller := auth.From(ctx)
	var visible []id.Org
	for _, org := range caller.Orgs() {
		if caller.Decide(auth.TenantRead, auth.Target{Org: org}) == auth.Allowed {
			visible = append(visible, org)
		}
	}
	rows, err := s.reads.ListTenants(ctx, identitydb.ListTenantsParams{
		After: page.After.String(), Everything: caller.SeesAll(auth.TenantRead), Ids: idsColumn(visible),
		PageSize: page.Limit,
	})
	return converted(rows, err, tenantFrom)
}

// Project reads one project.
func (s *Service) Project(ctx context.Context, project id.Project) (Project, error) {
	row, err := s.reads.Project(ctx, project)
	return projectFrom(row), orNotFound(err)
}

// Projects lists the projects of a tenant that the caller may see. Callers with
// a role on the tenant itself see all projects; others see those in which they
// have a role.
func (s *Service) Projects(ctx context.Context, org id.Org, page postgres.Slice[id.Project]) ([]Project, error) {
	caller := auth.From(ctx)
	_, ofTenant := caller.Tenants[org]
	var visible []id.Project
	for project := range caller.Projects {
		if caller.Decide(auth.ProjectRead, auth.Target{Org: org, Project: project}) == auth.Allowed {
			visible = append(visible, project)
		}
	}
	rows, err := s.reads.ListProjects(ctx, identitydb.ListProjectsParams{
		OrgID: org, After: page.After.String(), Everything: ofTenant || caller.SeesAll(auth.ProjectRead),
		Ids: idsColumn(visible), PageSize: page.Limit,
	})
	if err == nil && len(rows) == 0 {
		_, err = s.Tenant(ctx, org) // a tenant that does not exist has no list
	}
	return converted(rows, err, projectFrom)
}

// ProjectOrg returns the tenant of a project.
func (s *Service) ProjectOrg(ctx context.Context, project id.Project) (id.Org, error) {
	org, err := s.reads.ProjectOrg(ctx, project)
	return org, orNotFound(err)
}

func slugTaken(noun, slug string) error {
	return fault.New(fault.Conflict, noun+"_slug_taken", "there is already a %s with the slug %s", noun, slug).
		WithRemedy("choose another slug")
}

func tenantEntry(action string, t Tenant) audit.Entry {
	return audit.Entry{
		Action: action, TargetKind: "tenant", TargetID: t.ID.String(), Org: t.ID,
		Metadata: map[string]any{"slug": t.Slug, "name": t.Name, "version": t.Version},
	}
}

func projectEntry(action string, p Project) audit.Entry {
	return audit.Entry{
		Action: action, TargetKind: "project", TargetID: p.ID.String(), Org: p.Org, Project: p.ID,
		Metadata: map[string]any{"slug": p.Slug, "name": p.Name, "version": p.Version},
	}
}
