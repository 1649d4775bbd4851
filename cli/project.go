package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) projectColumns() []column[apiclient.IdentityProjectView] {
	type project = apiclient.IdentityProjectView
	return []column[project]{
		{title: "SLUG", text: func(p project) string { return p.Slug }},
		{title: "NAME", text: func(p project) string { return p.Name }},
		{title: "ID", text: func(p project) string { return p.ProjectId.String() }},
		{title: "CREATED", text: func(p project) string { return a.when(p.CreatedAt) }},
		{title: "TENANT", text: func(p project) string { return p.OrgId.String() }, detail: true},
		{title: "UPDATED", text: func(p project) string { return a.when(p.UpdatedAt) }, detail: true},
		{title: "VERSION", text: func(p project) string { return strconv.FormatInt(p.Version, 10) }, detail: true},
	}
}

func (a *app) projectCommand() *cobra.Command {
	return a.noun(noun{use: "project", short: "Parts of a tenant that share access", group: groupIdentity},
		a.verb(verb{
			use: "create SLUG", short: "Create a project in a tenant", args: exactly("SLUG"),
			example: "  gpuaas project create training --tenant acme", operations: []string{"create-project"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addTenant(cmd)
				name := cmd.Flags().String("name", "", "its name for people; the slug when left out")
				return func(s *session, args []string) error { return a.createProject(s, *c, args[0], *name) }
			},
		}),
		a.verb(verb{
			use: "list", short: "List the projects of a tenant that you may see", aliases: []string{"ls"}, operations: []string{"list-projects"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addTenant(cmd)
				f := addListFlags(cmd, 0)
				return func(s *session, _ []string) error { return a.listProjects(s, *c, f) }
			},
		}),
		a.verb(verb{
			use: "get PROJECT", short: "Show a project: its id, TENANT/PROJECT, or its slug with --tenant", args: exactly("PROJECT"),
			operations: []string{"get-project"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addTenant(cmd)
				return func(s *session, args []string) error {
					id, err := s.projectID(scope{tenant: c.tenant, project: args[0]})
					if err != nil {
						return err
					}
					return show(s, a.projectColumns())(s.api.GetProjectWithResponse(s.ctx, id))
				}
			},
		}),
		a.verb(verb{
			use: "update PROJECT", short: "Rename a project", args: exactly("PROJECT"), operations: []string{"get-project", "update-project"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addTenant(cmd)
				name := cmd.Flags().String("name", "", "the new name for people")
				return func(s *session, args []string) error {
					return a.renameProject(s, scope{tenant: c.tenant, project: args[0]}, *name)
				}
			},
		}),
	)
}

func (a *app) createProject(s *session, c scope, slug, name string) error {
	if err := s.require("tenant"); err != nil {
		return err
	}
	org, err := s.tenantID(c.tenant)
	if err != nil {
		return err
	}
	return show(s, a.projectColumns())(s.api.CreateProjectWithResponse(s.ctx, org, &apiclient.CreateProjectParams{},
		apiclient.IdentityNamingBody{Slug: slug, Name: or(name, slug)}))
}

func (a *app) listProjects(s *session, c scope, f *listFlags) error {
	if err := s.require("tenant"); err != nil {
		return err
	}
	org, err := s.tenantID(c.tenant)
	if err != nil {
		return err
	}
	return list(s, f, listing[apiclient.IdentityProjectView]{columns: a.projectColumns(), fetch: s.projectsOf(org)})
}

func (a *app) renameProject(s *session, c scope, name string) error {
	if err := s.require("name"); err != nil {
		return err
	}
	id, err := s.projectID(c)
	if err != nil {
		return err
	}
	now, err := fetch[apiclient.IdentityProjectView](s.api.GetProjectWithResponse(s.ctx, id))
	if err != nil {
		return err
	}
	return show(s, a.projectColumns())(s.api.UpdateProjectWithResponse(s.ctx, id,
		&apiclient.UpdateProjectParams{IfMatch: etag(now.Version)}, apiclient.IdentityRenameBody{Name: name}))
}
