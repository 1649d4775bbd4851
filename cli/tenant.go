package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) tenantColumns() []column[apiclient.IdentityTenantView] {
	type tenant = apiclient.IdentityTenantView
	return []column[tenant]{
		{title: "SLUG", text: func(t tenant) string { return t.Slug }},
		{title: "NAME", text: func(t tenant) string { return t.Name }},
		{title: "ID", text: func(t tenant) string { return t.OrgId.String() }},
		{title: "CREATED", text: func(t tenant) string { return a.when(t.CreatedAt) }},
		{title: "UPDATED", text: func(t tenant) string { return a.when(t.UpdatedAt) }, detail: true},
		{title: "VERSION", text: func(t tenant) string { return strconv.FormatInt(t.Version, 10) }, detail: true},
	}
}

func (a *app) tenantCommand() *cobra.Command {
	return a.noun(noun{use: "tenant", short: "Organisations that use the platform", group: groupIdentity},
		a.verb(verb{
			use: "create SLUG", short: "Create a tenant and its project \"default\"", args: exactly("SLUG"),
			example: "  gpuaas tenant create acme --name \"Acme Inc.\"", operations: []string{"create-tenant"},
			flags: func(cmd *cobra.Command) action {
				name := cmd.Flags().String("name", "", "its name for people; the slug when left out")
				return func(s *session, args []string) error {
					body := apiclient.IdentityNamingBody{Slug: args[0], Name: or(*name, args[0])}
					return show(s, a.tenantColumns())(s.api.CreateTenantWithResponse(s.ctx, &apiclient.CreateTenantParams{}, body))
				}
			},
		}),
		a.verb(verb{
			use: "list", short: "List the tenants that you may see", aliases: []string{"ls"}, operations: []string{"list-tenants"},
			flags: func(cmd *cobra.Command) action {
				f := addListFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return list(s, f, listing[apiclient.IdentityTenantView]{columns: a.tenantColumns(), fetch: s.tenants})
				}
			},
		}),
		a.verb(verb{
			use: "get TENANT", short: "Show a tenant, named by slug or id", args: exactly("TENANT"), operations: []string{"get-tenant"},
			run: func(s *session, args []string) error {
				id, err := s.tenantID(args[0])
				if err != nil {
					return err
				}
				return show(s, a.tenantColumns())(s.api.GetTenantWithResponse(s.ctx, id))
			},
		}),
		a.verb(verb{
			use: "update TENANT", short: "Rename a tenant", args: exactly("TENANT"), operations: []string{"get-tenant", "update-tenant"},
			flags: func(cmd *cobra.Command) action {
				name := cmd.Flags().String("name", "", "the new name for people")
				return func(s *session, args []string) error { return a.renameTenant(s, args[0], *name) }
			},
		}),
	)
}

func (a *app) renameTenant(s *session, tenant, name string) error {
	if err := s.require("name"); err != nil {
		return err
	}
	id, err := s.tenantID(tenant)
	if err != nil {
		return err
	}
	now, err := fetch[apiclient.IdentityTenantView](s.api.GetTenantWithResponse(s.ctx, id))
	if err != nil {
		return err
	}
	return show(s, a.tenantColumns())(s.api.UpdateTenantWithResponse(s.ctx, id,
		&apiclient.UpdateTenantParams{IfMatch: etag(now.Version)}, apiclient.IdentityRenameBody{Name: name}))
}
