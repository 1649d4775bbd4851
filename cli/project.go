package cli

import (
	"cmp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) projectColumns() []table.Column[apiclient.IdentityProjectView] {
	type project = apiclient.IdentityProjectView
	return []table.Column[project]{
		{Title: "SLUG", Text: func(p project) string { return p.Slug }},
		{Title: "NAME", Text: func(p project) string { return p.Name }},
		{Title: "ID", Wide: true, Text: func(p project) string { return p.ProjectId.String() }},
		ago(a, "CREATED", func(p project) time.Time { return p.CreatedAt }),
		{Title: "TENANT", Text: func(p project) string { return p.OrgId.String() }, Detail: true},
		{Title: "UPDATED", Text: func(p project) string { return a.When(p.UpdatedAt) }, Detail: true},
		{Title: "VERSION", Text: func(p project) string { return strconv.FormatInt(p.Version, 10) }, Detail: true},
	}
}

func (a *app) projectCommand() *cobra.Command {
	return a.noun(noun{use: "project", short: "Parts of a tenant that share access", group: groupIdentity},
		a.verb(verb{
			use: "create SLUG", short: "Create a project in a tenant", args: frame.Exactly("SLUG"),
			example: "  gpuaas project create training --tenant acme", operations: []string{"create-project"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addTenant(cmd)
				name := cmd.Flags().String("name", "", "its name for people; the slug when left out")
				return func(s *session, args []string) error { return a.createProject(s, *c, args[0], *name) }
			},
		}),
		a.verb(verb{
			use: "list", short: "List the projects of a tenant that you may see", aliases: []string{"ls"},
			operations: []string{"list-projects"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addTenant(cmd)
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error { return a.listProjects(s, *c, f) }
			},
		}),
		a.verb(verb{
			use: "get PROJECT", short: "Show a project: its id, TENANT/PROJECT, or its slug with --tenant",
			args:       frame.Exactly("PROJECT"),
			operations: []string{"get-project"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addTenant(cmd)
				return func(s *session, args []string) error {
					id, err := s.projectID(scope{tenant: c.tenant, project: args[0]})
					if err != nil {
						return err
					}
					return frame.Show(s.Session, a.projectColumns())(s.API.GetProjectWithResponse(s.Ctx, id))
				}
			},
		}),
		a.verb(verb{
			use: "update PROJECT", short: "Rename a project", args: frame.Exactly("PROJECT"),
			operations: []string{"get-project", "update-project"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addTenant(cmd)
				name := cmd.Flags().String("name", "", "the new name for people")
				return func(s *session, args []string) error {
					return a.renameProject(s, scope{tenant: c.tenant, project: args[0]}, *name)
				}
			},
		}),
		a.projectSettingsCommand(),
	)
}

func (a *app) createProject(s *session, c scope, slug, name string) error {
	if err := s.Require("tenant"); err != nil {
		return err
	}
	org, err := s.tenantID(c.tenant)
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.projectColumns())(
		s.API.CreateProjectWithResponse(s.Ctx, org, &apiclient.CreateProjectParams{},
			apiclient.IdentityNamingBody{Slug: slug, Name: cmp.Or(name, slug)}))
}

func (a *app) listProjects(s *session, c scope, f *listing.Flags) error {
	if err := s.Require("tenant"); err != nil {
		return err
	}
	org, err := s.tenantID(c.tenant)
	if err != nil {
		return err
	}
	return listing.Print(s.Session, f, listing.Listing[apiclient.IdentityProjectView]{
		Columns: a.projectColumns(),
		Fetch:   s.projectsOf(org),
	})
}

func (a *app) renameProject(s *session, c scope, name string) error {
	if err := s.Require("name"); err != nil {
		return err
	}
	id, err := s.projectID(c)
	if err != nil {
		return err
	}
	now, err := frame.Fetch[apiclient.IdentityProjectView](s.API.GetProjectWithResponse(s.Ctx, id))
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.projectColumns())(s.API.UpdateProjectWithResponse(s.Ctx, id,
		&apiclient.UpdateProjectParams{IfMatch: frame.ETag(now.Version)}, apiclient.IdentityRenameBody{Name: name}))
}
