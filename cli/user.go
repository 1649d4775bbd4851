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

func platformRoles() []string { return apiclient.Words("IdentityNewUserBody.platform_role") }

func (a *app) userColumns() []table.Column[apiclient.IdentityUserView] {
	type user = apiclient.IdentityUserView
	return []table.Column[user]{
		{Title: "EMAIL", Text: func(u user) string { return u.Email }},
		{Title: "NAME", Text: func(u user) string { return u.Name }},
		{Title: "PLATFORM ROLE", Text: func(u user) string { return string(u.PlatformRole) }},
		{Title: "DISABLED", Text: func(u user) string { return yesNo(u.Disabled) }},
		{Title: "SIGNED IN", Text: func(u user) string { return yesNo(u.Linked) }},
		{Title: "ID", Wide: true, Text: func(u user) string { return u.UserId.String() }},
		ago(a, "CREATED", func(u user) time.Time { return u.CreatedAt }),
		{Title: "UPDATED", Text: func(u user) string { return a.When(u.UpdatedAt) }, Detail: true},
		{Title: "VERSION", Text: func(u user) string { return strconv.FormatInt(u.Version, 10) }, Detail: true},
	}
}

func (a *app) userCommand() *cobra.Command {
	return a.noun(noun{use: "user", short: "People", group: groupIdentity},
		a.verb(verb{
			use: "create EMAIL", short: "Invite a person", args: frame.Exactly("EMAIL"), operations: []string{"create-user"},
			long: "Invites a person. They become able to act by signing in with the same verified e-mail address.",
			flags: func(cmd *cobra.Command) action {
				name := cmd.Flags().String("name", "", "their name; taken from the first sign-in when left out")
				role := addPlatformRole(cmd)
				return func(s *session, args []string) error {
					return frame.Show(s.Session, a.userColumns())(
						s.API.CreateUserWithResponse(s.Ctx, &apiclient.CreateUserParams{}, apiclient.IdentityNewUserBody{
							Email: types.Email(args[0]), Name: frame.Given(s.Session, "name", name),
							PlatformRole: frame.GivenAs[apiclient.IdentityNewUserBodyPlatformRole](s.Session, "platform-role", role),
						}))
				}
			},
		}),
		a.verb(verb{
			use: "list", short: "List people", aliases: []string{"ls"}, operations: []string{"list-users"},
			flags: func(cmd *cobra.Command) action {
				email := cmd.Flags().String("email", "", "only the person with this address")
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.IdentityUserView]{
						Columns: a.userColumns(),
						Fetch:   s.usersWith(*email),
					})
				}
			},
		}),
		a.verb(verb{
			use: "get USER", short: "Show a person, named by id or e-mail address", args: frame.Exactly("USER"),
			operations: []string{"get-user"},
			run: func(s *session, args []string) error {
				id, err := s.userID(args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.userColumns())(s.API.GetUserWithResponse(s.Ctx, id))
			},
		}),
		a.verb(verb{
			use: "update USER", short: "Change, disable or enable a person", args: frame.Exactly("USER"),
			operations: []string{"get-user", "update-user"},
			flags: func(cmd *cobra.Command) action {
				name := cmd.Flags().String("name", "", "their name")
				role := addPlatformRole(cmd)
				cmd.Flags().Bool("disable", false, "refuse them, and revoke all of their tokens at once")
				cmd.Flags().Bool("enable", false, "let them sign in again")
				return func(s *session, args []string) error { return a.updateUser(s, args[0], name, role) }
			},
		}),
	)
}

func addPlatformRole(cmd *cobra.Command) *string {
	role := cmd.Flags().String("platform-role", "", "role on the platform itself: platform_admin, operator, auditor or none")
	frame.Complete(cmd, "platform-role", platformRoles()...)
	return role
}

func (a *app) updateUser(s *session, user string, name, role *string) error {
	if err := s.Anything("name", "platform-role", "disable", "enable"); err != nil {
		return err
	}
	disabled, err := s.Switched("disable", "enable")
	if err != nil {
		return err
	}
	id, err := s.userID(user)
	if err != nil {
		return err
	}
	now, err := frame.Fetch[apiclient.IdentityUserView](s.API.GetUserWithResponse(s.Ctx, id))
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.userColumns())(
		s.API.UpdateUserWithResponse(s.Ctx, id, &apiclient.UpdateUserParams{IfMatch: frame.ETag(now.Version)},
			apiclient.IdentityUserChangeBody{
				Name: frame.Given(s.Session, "name", name), Disabled: disabled,
				PlatformRole: frame.GivenAs[apiclient.IdentityUserChangeBodyPlatformRole](s.Session, "platform-role", role),
			}))
}
