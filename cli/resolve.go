package cli

import (
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

// parseID is the id that a string is; false when it is a name.
func parseID(s string) (types.UUID, bool) {
	var id types.UUID
	if len(s) != len(id.String()) || id.UnmarshalText([]byte(s)) != nil {
		return types.UUID{}, false
	}
	return id, true
}

// idOf is the id that an argument must be.
func (s *session) idOf(what, arg string) (types.UUID, error) {
	id, ok := parseID(arg)
	if !ok {
		return id, usage(s.cmd, "%q is not the id of %s", arg, what)
	}
	return id, nil
}

func notFound(remedy, format string, args ...any) error {
	return fail(exitNotFound, "not_found", remedy, format, args...)
}

// tenantID resolves a tenant named by id or slug.
func (s *session) tenantID(name string) (types.UUID, error) {
	if id, ok := parseID(name); ok {
		return id, nil
	}
	t, ok, err := find(s.tenants, func(t apiclient.IdentityTenantView) bool { return t.Slug == name })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, notFound("see which there are: gpuaas tenant list", "there is no tenant %q, or you may not see it", name)
	}
	return t.OrgId, nil
}

func (s *session) tenants(p page) (apiclient.Answer, error) {
	return s.api.ListTenantsWithResponse(s.ctx, &apiclient.ListTenantsParams{Cursor: p.cursor, PageSize: p.size})
}

// scope is the tenant and the project that a command is about.
type scope struct{ tenant, project string }

func (c *scope) addTenant(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.tenant, "tenant", "", "the tenant, by slug or id")
}

func (c *scope) addProject(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.project, "project", "", "the project: its id, TENANT/PROJECT by slugs, or its slug with --tenant")
	c.addTenant(cmd)
}

// projectID resolves a project named by id, by tenant/project, or by slug within a tenant.
func (s *session) projectID(c scope) (types.UUID, error) {
	if c.project == "" {
		return types.UUID{}, usage(s.cmd, "--project is required")
	}
	if id, ok := parseID(c.project); ok {
		return id, nil
	}
	tenant, slug := c.tenant, c.project
	if before, after, found := strings.Cut(c.project, "/"); found {
		if tenant != "" && tenant != before {
			return types.UUID{}, usage(s.cmd, "the project %q is not of tenant %q", c.project, tenant)
		}
		tenant, slug = before, after
	}
	if tenant == "" {
		return types.UUID{}, usage(s.cmd, "%q is the project of which tenant? Use its id, TENANT/%s, or --tenant", c.project, c.project)
	}
	org, err := s.tenantID(tenant)
	if err != nil {
		return types.UUID{}, err
	}
	p, ok, err := find(s.projectsOf(org), func(p apiclient.IdentityProjectView) bool { return p.Slug == slug })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, notFound("see which there are: gpuaas project list --tenant "+tenant, "tenant %q has no project %q, or you may not see it", tenant, slug)
	}
	return p.ProjectId, nil
}

func (s *session) projectsOf(org types.UUID) func(page) (apiclient.Answer, error) {
	return func(p page) (apiclient.Answer, error) {
		return s.api.ListProjectsWithResponse(s.ctx, org, &apiclient.ListProjectsParams{Cursor: p.cursor, PageSize: p.size})
	}
}

// userID resolves a person named by id or e-mail address.
func (s *session) userID(name string) (types.UUID, error) {
	if id, ok := parseID(name); ok {
		return id, nil
	}
	if !strings.Contains(name, "@") {
		return types.UUID{}, usage(s.cmd, "%q is neither the id nor the e-mail address of a person", name)
	}
	u, ok, err := find(s.usersWith(name), func(u apiclient.IdentityUserView) bool { return strings.EqualFold(u.Email, name) })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, notFound("see who there is: gpuaas user list; invite them: gpuaas user create "+name, "nobody has the address %q", name)
	}
	return u.UserId, nil
}

func (s *session) usersWith(email string) func(page) (apiclient.Answer, error) {
	return func(p page) (apiclient.Answer, error) {
		params := &apiclient.ListUsersParams{Cursor: p.cursor, PageSize: p.size}
		if email != "" {
			params.Email = &email
		}
		return s.api.ListUsersWithResponse(s.ctx, params)
	}
}

// serviceAccountID resolves a service account named by id or by its name in the project.
func (s *session) serviceAccountID(project types.UUID, name string) (types.UUID, error) {
	if id, ok := parseID(name); ok {
		return id, nil
	}
	a, ok, err := find(s.serviceAccountsOf(project), func(a apiclient.IdentityServiceAccountView) bool { return a.Name == name })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, notFound("see which there are: gpuaas service-account list --project "+project.String(), "the project has no service account %q", name)
	}
	return a.ServiceAccountId, nil
}

func (s *session) serviceAccountsOf(project types.UUID) func(page) (apiclient.Answer, error) {
	return func(p page) (apiclient.Answer, error) {
		return s.api.ListServiceAccountsWithResponse(s.ctx, project, &apiclient.ListServiceAccountsParams{Cursor: p.cursor, PageSize: p.size})
	}
}
