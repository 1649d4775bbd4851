package cli

import (
	"cmp"
	"strconv"
	"time"

	"github.com/oapi-codegen/runtime/types"
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
		{Title: "ID", Wide: true, Text: func(t tenant) string { return t.OrgId.String() }},
		ago(a, "CREATED", func(t tenant) time.Time { return t.CreatedAt }),
		{Title: "DISABLED SINCE", Text: func(t tenant) string { return a.Whenever(t.DisabledAt) }, Detail: true},
		{Title: "DISABLED BECAUSE", Text: func(t tenant) string { return text(t.DisabledBecause) }, Detail: true},
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
		a.tenantSwitchCommand(verb{
			use: "disable TENANT", short: "Disable a tenant: it can rent nothing new", operations: []string{"disable-tenant"},
			long: "Its people can read everything and release what they have; new requests are refused, and its requests\n" +
				"that wait are not placed. What it has stays until it is released or ends.",
			example: "  gpuaas tenant disable acme --reason 'no contract from June on'",
		}, func(s *session, id types.UUID, why apiclient.IdentitySwitchBody) (apiclient.Answer, error) {
			return s.API.DisableTenantWithResponse(s.Ctx, id, &apiclient.DisableTenantParams{}, why)
		}),
		a.tenantSwitchCommand(verb{
			use: "enable TENANT", short: "Enable a tenant: it can rent again", operations: []string{"enable-tenant"},
		}, func(s *session, id types.UUID, why apiclient.IdentitySwitchBody) (apiclient.Answer, error) {
			return s.API.EnableTenantWithResponse(s.Ctx, id, &apiclient.EnableTenantParams{}, why)
		}),
		a.tenantSettingsCommand(),
	)
}

// tenantSwitchCommand disables or enables a tenant, for a reason.
func (a *app) tenantSwitchCommand(v verb, do func(*session, types.UUID, apiclient.IdentitySwitchBody) (
	apiclient.Answer, error),
) *cobra.Command {
	v.args = frame.Exactly("TENANT")
	v.flags = func(cmd *cobra.Command) action {
		reason := cmd.Flags().String("reason", "", "why; the people of the tenant can read it")
		return func(s *session, args []string) error {
			if err := s.Require("reason"); err != nil {
				return err
			}
			id, err := s.tenantID(args[0])
			if err != nil {
				return err
			}
			return frame.Show(s.Session, a.tenantColumns())(do(s, id, apiclient.IdentitySwitchBody{Reason: *reason}))
		}
	}
	return a.verb(v)
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
