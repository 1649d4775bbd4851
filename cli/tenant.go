package cli

import (
	"cmp"
	"strconv"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) tenantColumns() []table.Column[apiclient.IdentityTenantView] {
	type tenant = apiclient.IdentityTenantView
	return []table.Column[tenant]{
		{Title: "SLUG", Text: func(t tenant) string { return t.Slug }},
		{Title: "NAME", Text: func(t tenant) string { return t.Name }},
		{Title: "ID", Text: func(t tenant) string { return t.OrgId.String() }},
		{Title: "CREATED", Text: func(t tenant) string { return a.When(t.CreatedAt) }},
		{Title: "UPDATED", Text: func(t tenant) string { return a.When(t.UpdatedAt) }, Detail: true},
		{Title: "VERSION", Text: func(t tenant) string { return strconv.FormatInt(t.Version, 10) }, Detail: true},
	}
}

func (a *app) tenantCommand() *cobra.Command {
	return a.noun(noun{use: "tenant", short: "Organisations that use the platform", group: groupIdentity},
		a.verb(verb{
			use: "create SLUG", short: "Create a tenant and its project \"default\"", args: frame.Exactly("SLUG"),
			example: "  gpuaas tenant create acme --name \"Acme Inc.\"", operations: []string{"create-tenant"},
			flags: func(cmd *cobra.Command) action {
				name := cmd.Flags().String("name", "", "its name for people; the slug when left out")
				return func(s *session, args []string) error {
					body := apiclient.IdentityNamingBody{Slug: args[0], Name: cmp.Or(*name, args[0])}
					return frame.Show(s.Session, a.tenantColumns())(
						s.API.CreateTenantWithResponse(s.Ctx, &apiclient.CreateTenantParams{}, body))
				}
			},
		}),
		a.verb(verb{
			use: "list", short: "List the tenants that you may see", aliases: []string{"ls"},
			operations: []string{"list-tenants"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.IdentityTenantView]{
						Columns: a.tenantColumns(),
						Fetch:   s.tenants,
					})
				}
			},
		}),
		a.verb(verb{
			use: "get TENANT", short: "Show a tenant, named by slug or id", args: frame.Exactly("TENANT"),
			operations: []string{"get-tenant"},
			run: func(s *session, args []string) error {
				id, err := s.tenantID(args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.tenantColumns())(s.API.GetTenantWithResponse(s.Ctx, id))
			},
		}),
		a.verb(verb{
			use: "update TENANT", short: "Rename a tenant", args: frame.Exactly("TENANT"),
			operations: []string{"get-tenant", "update-tenant"},
			flags: func(cmd *cobra.Command) action {
				name := cmd.Flags().String("name", "", "the new name for people")
				return func(s *session, args []string) error { return a.renameTenant(s, args[0], *name) }
			},
		}),
		a.tenantSettingsCommand(),
	)
}

func (a *app) renameTenant(s *session, tenant, name string) error {
	if err := s.Require("name"); err != nil {
		return err
	}
	id, err := s.tenantID(tenant)
	if err != nil {
		return err
	}
	now, err := frame.Fetch[apiclient.IdentityTenantView](s.API.GetTenantWithResponse(s.Ctx, id))
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.tenantColumns())(s.API.UpdateTenantWithResponse(s.Ctx, id,
		&apiclient.UpdateTenantParams{IfMatch: frame.ETag(now.Version)}, apiclient.IdentityRenameBody{Name: name}))
}
