package cli

import (
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/contract/apiclient"
)

// tenantID resolves a tenant named by id or slug.
func (s *session) tenantID(name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	t, ok, err := listing.Find(s.tenants, func(t apiclient.IdentityTenantView) bool { return t.Slug == name })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, failure.Missing("list them: gpuaas tenant list",
			"there is no tenant %q, or you may not see it", name)
	}
	return t.OrgId, nil
}

func (s *session) tenants(p listing.Page) (apiclient.Answer, error) {
	return s.API.ListTenantsWithResponse(s.Ctx, &apiclient.ListTenantsParams{Cursor: p.Cursor, PageSize: p.Size})
}

// scope is the tenant and the project that a command is about.
type scope struct{ tenant, project string }

func (c *scope) addTenant(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.tenant, "tenant", "", "the tenant, by slug or id")
}

func (c *scope) addProject(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.project, "project", "",
		"the project: its id, TENANT/PROJECT by slugs, or its slug with --tenant")
	c.addTenant(cmd)
}

// words are the flags that name the same again, with a space before them.
func (c scope) words() (out string) {
	if c.project != "" {
		out = " --project " + c.project
	}
	if c.tenant != "" {
		out += " --tenant " + c.tenant
	}
	return out
}

// projectID resolves a project named by id, by tenant/project, or by slug within a tenant.
func (s *session) projectID(c scope) (types.UUID, error) {
	if c.project == "" {
		return types.UUID{}, failure.Misuse(s.Cmd, "--project is required")
	}
	if id, ok := frame.ParseID(c.project); ok {
		return id, nil
	}
	tenant, slug := c.tenant, c.project
	if before, after, found := strings.Cut(c.project, "/"); found {
		if tenant != "" && tenant != before {
			return types.UUID{}, failure.Misuse(s.Cmd, "the project %q is not of tenant %q", c.project, tenant)
		}
		tenant, slug = before, after
	}
	if tenant == "" {
		return types.UUID{}, failure.Misuse(s.Cmd, "%q is the project of which tenant? Use its id, TENANT/%s, or --tenant",
			c.project, c.project)
	}
	org, err := s.tenantID(tenant)
	if err != nil {
		return types.UUID{}, err
	}
	p, ok, err := listing.Find(s.projectsOf(org), func(p apiclient.IdentityProjectView) bool { return p.Slug == slug })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, failure.Missing("list them: gpuaas project list --tenant "+tenant,
			"tenant %q has no project %q, or you may not see it", tenant, slug)
	}
	return p.ProjectId, nil
}

func (s *session) projectsOf(org types.UUID) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListProjectsWithResponse(s.Ctx, org, &apiclient.ListProjectsParams{Cursor: p.Cursor, PageSize: p.Size})
	}
}

// userID resolves a person named by id or e-mail address.
func (s *session) userID(name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	if !strings.Contains(name, "@") {
		return types.UUID{}, failure.Misuse(s.Cmd, "%q is neither the id nor the e-mail address of a person", name)
	}
	u, ok, err := listing.Find(s.usersWith(name),
		func(u apiclient.IdentityUserView) bool { return strings.EqualFold(u.Email, name) })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, failure.Missing("see who there is: gpuaas user list; invite them: gpuaas user create "+name,
			"nobody has the address %q", name)
	}
	return u.UserId, nil
}

func (s *session) usersWith(email string) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		params := &apiclient.ListUsersParams{Cursor: p.Cursor, PageSize: p.Size}
		if email != "" {
			params.Email = &email
		}
		return s.API.ListUsersWithResponse(s.Ctx, params)
	}
}

// serviceAccountID resolves a service account named by id or by its name in the project.
func (s *session) serviceAccountID(project types.UUID, name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	a, ok, err := listing.Find(s.serviceAccountsOf(project),
		func(a apiclient.IdentityServiceAccountView) bool { return a.Name == name })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, failure.Missing("list them: gpuaas service-account list --project "+project.String(),
			"the project has no service account %q", name)
	}
	return a.ServiceAccountId, nil
}

func (s *session) serviceAccountsOf(project types.UUID) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListServiceAccountsWithResponse(s.Ctx, project,
			&apiclient.ListServiceAccountsParams{Cursor: p.Cursor, PageSize: p.Size})
	}
}
