package cli

import (
	"strconv"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) serviceAccountColumns() []table.Column[apiclient.IdentityServiceAccountView] {
	type account = apiclient.IdentityServiceAccountView
	return []table.Column[account]{
		{Title: "NAME", Text: func(v account) string { return v.Name }},
		{Title: "ROLE", Text: func(v account) string { return string(v.Role) }},
		{Title: "STATUS", Text: func(v account) string { return string(v.Status) }},
		{Title: "ID", Wide: true, Text: func(v account) string { return v.ServiceAccountId.String() }},
		ago(a, "CREATED", func(v account) time.Time { return v.CreatedAt }),
		{Title: "PROJECT", Text: func(v account) string { return v.ProjectId.String() }, Detail: true},
		{Title: "UPDATED", Text: func(v account) string { return a.When(v.UpdatedAt) }, Detail: true},
		{Title: "VERSION", Text: func(v account) string { return strconv.FormatInt(v.Version, 10) }, Detail: true},
	}
}

func (a *app) serviceAccountCommand() *cobra.Command {
	cmd := a.noun(noun{
		use: "service-account", short: "Programs that act in a project", group: groupIdentity,
		long: "Service accounts are named by id, or by their name in the project that --project names.",
	},
		a.serviceAccountCreateCommand(),
		a.verb(verb{
			use: "list", short: "List the service accounts of a project", aliases: []string{"ls"},
			operations: []string{"list-service-accounts"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addProject(cmd)
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					project, err := s.projectID(*c)
					if err != nil {
						return err
					}
					return listing.Print(s.Session, f,
						listing.Listing[apiclient.IdentityServiceAccountView]{
							Columns: a.serviceAccountColumns(),
							Fetch:   s.serviceAccountsOf(project),
						})
				}
			},
		}),
		a.verb(verb{
			use: "get ACCOUNT", short: "Show a service account", args: frame.Exactly("ACCOUNT"),
			operations: []string{"get-service-account"},
			flags: accountVerb(func(s *session, project, id types.UUID) error {
				return frame.Show(s.Session, a.serviceAccountColumns())(s.API.GetServiceAccountWithResponse(s.Ctx, project, id))
			}),
		}),
		a.serviceAccountUpdateCommand(),
		a.verb(verb{
			use: "delete ACCOUNT", short: "Delete a service account and its tokens", aliases: []string{"rm"},
			args:       frame.Exactly("ACCOUNT"),
			operations: []string{"delete-service-account"},
			flags: accountVerb(func(s *session, project, id types.UUID) error {
				return frame.Done(s.Session, "service account %s is deleted", id)(
					s.API.DeleteServiceAccountWithResponse(s.Ctx, project, id, &apiclient.DeleteServiceAccountParams{}))
			}),
		}),
	)
	cmd.Aliases = []string{"sa"}
	return cmd
}

// accountVerb is a command about one service account and nothing else.
func accountVerb(do func(s *session, project, id types.UUID) error) func(*cobra.Command) action {
	return func(cmd *cobra.Command) action {
		c := &scope{}
		c.addProject(cmd)
		return func(s *session, args []string) error {
			project, id, err := s.account(*c, args[0])
			if err != nil {
				return err
			}
			return do(s, project, id)
		}
	}
}

func (s *session) account(c scope, name string) (project, id types.UUID, err error) {
	if project, err = s.projectID(c); err != nil {
		return project, id, err
	}
	id, err = s.serviceAccountID(project, name)
	return project, id, err
}

func (a *app) serviceAccountCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create NAME", short: "Create a service account in a project", args: frame.Exactly("NAME"),
		operations: []string{"create-service-account"},
		example:    "  gpuaas service-account create ci --project acme/training --role project_member",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			role := addProjectRole(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("role"); err != nil {
					return err
				}
				project, err := s.projectID(*c)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.serviceAccountColumns())(
					s.API.CreateServiceAccountWithResponse(s.Ctx, project, &apiclient.CreateServiceAccountParams{},
						apiclient.IdentityNewServiceAccountBody{Name: args[0], Role: apiclient.IdentityNewServiceAccountBodyRole(*role)}))
			}
		},
	})
}

func addProjectRole(cmd *cobra.Command) *string {
	role := cmd.Flags().String("role", "", "what it may do: project_admin, project_member or project_viewer")
	frame.Complete(cmd, "role", projectRoles()...)
	return role
}

func (a *app) serviceAccountUpdateCommand() *cobra.Command {
	return a.verb(verb{
		use: "update ACCOUNT", short: "Change, disable or enable a service account", args: frame.Exactly("ACCOUNT"),
		operations: []string{"get-service-account", "update-service-account"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			role := addProjectRole(cmd)
			cmd.Flags().Bool("disable", false, "refuse its tokens until it is enabled again")
			cmd.Flags().Bool("enable", false, "accept its tokens again")
			return func(s *session, args []string) error { return a.updateServiceAccount(s, *c, args[0], role) }
		},
	})
}

func (a *app) updateServiceAccount(s *session, c scope, name string, role *string) error {
	if err := s.Anything("role", "disable", "enable"); err != nil {
		return err
	}
	disabled, err := s.Switched("disable", "enable")
	if err != nil {
		return err
	}
	body := apiclient.IdentityServiceAccountChangeBody{
		Role: frame.GivenAs[apiclient.IdentityServiceAccountChangeBodyRole](s.Session, "role", role),
	}
	if disabled != nil {
		body.Status = frame.Ptr(apiclient.IdentityServiceAccountChangeBodyStatusActive)
		if *disabled {
			body.Status = frame.Ptr(apiclient.IdentityServiceAccountChangeBodyStatusDisabled)
		}
	}
	project, id, err := s.account(c, name)
	if err != nil {
		return err
	}
	now, err := frame.Fetch[apiclient.IdentityServiceAccountView](s.API.GetServiceAccountWithResponse(s.Ctx, project, id))
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.serviceAccountColumns())(s.API.UpdateServiceAccountWithResponse(s.Ctx, project, id,
		&apiclient.UpdateServiceAccountParams{IfMatch: frame.ETag(now.Version)}, body))
}
