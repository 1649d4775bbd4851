package cli

import (
	"strconv"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func platformRoles() []string { return []string{"platform_admin", "auditor", "none"} }

func (a *app) userColumns() []column[apiclient.IdentityUserView] {
	type user = apiclient.IdentityUserView
	return []column[user]{
		{title: "EMAIL", text: func(u user) string { return u.Email }},
		{title: "NAME", text: func(u user) string { return u.Name }},
		{title: "PLATFORM ROLE", text: func(u user) string { return string(u.PlatformRole) }},
		{title: "DISABLED", text: func(u user) string { return yesNo(u.Disabled) }},
		{title: "SIGNED IN", text: func(u user) string { return yesNo(u.Linked) }},
		{title: "ID", text: func(u user) string { return u.UserId.String() }},
		{title: "CREATED", text: func(u user) string { return a.when(u.CreatedAt) }},
		{title: "UPDATED", text: func(u user) string { return a.when(u.UpdatedAt) }, detail: true},
		{title: "VERSION", text: func(u user) string { return strconv.FormatInt(u.Version, 10) }, detail: true},
	}
}

func (a *app) userCommand() *cobra.Command {
	return a.noun(noun{use: "user", short: "People", group: groupIdentity},
		a.verb(verb{
			use: "create EMAIL", short: "Invite a person", args: exactly("EMAIL"), operations: []string{"create-user"},
			long: "Invites a person. They become able to act by signing in with the same verified e-mail address.",
			flags: func(cmd *cobra.Command) action {
				name := cmd.Flags().String("name", "", "their name; taken from the first sign-in when left out")
				role := addPlatformRole(cmd)
				return func(s *session, args []string) error {
					return show(s, a.userColumns())(s.api.CreateUserWithResponse(s.ctx, &apiclient.CreateUserParams{}, apiclient.IdentityNewUserBody{
						Email: types.Email(args[0]), Name: given(s, "name", name),
						PlatformRole: givenAs[apiclient.IdentityNewUserBodyPlatformRole](s, "platform-role", role),
					}))
				}
			},
		}),
		a.verb(verb{
			use: "list", short: "List people", aliases: []string{"ls"}, operations: []string{"list-users"},
			flags: func(cmd *cobra.Command) action {
				email := cmd.Flags().String("email", "", "only the person with this address")
				f := addListFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return list(s, f, listing[apiclient.IdentityUserView]{columns: a.userColumns(), fetch: s.usersWith(*email)})
				}
			},
		}),
		a.verb(verb{
			use: "get USER", short: "Show a person, named by id or e-mail address", args: exactly("USER"), operations: []string{"get-user"},
			run: func(s *session, args []string) error {
				id, err := s.userID(args[0])
				if err != nil {
					return err
				}
				return show(s, a.userColumns())(s.api.GetUserWithResponse(s.ctx, id))
			},
		}),
		a.verb(verb{
			use: "update USER", short: "Change, disable or enable a person", args: exactly("USER"), operations: []string{"get-user", "update-user"},
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
	role := cmd.Flags().String("platform-role", "", "role on the platform itself: platform_admin, auditor or none")
	complete(cmd, "platform-role", platformRoles()...)
	return role
}

func (a *app) updateUser(s *session, user string, name, role *string) error {
	if err := s.anything("name", "platform-role", "disable", "enable"); err != nil {
		return err
	}
	disabled, err := s.switched("disable", "enable")
	if err != nil {
		return err
	}
	id, err := s.userID(user)
	if err != nil {
		return err
	}
	now, err := fetch[apiclient.IdentityUserView](s.api.GetUserWithResponse(s.ctx, id))
	if err != nil {
		return err
	}
	return show(s, a.userColumns())(s.api.UpdateUserWithResponse(s.ctx, id, &apiclient.UpdateUserParams{IfMatch: etag(now.Version)},
		apiclient.IdentityUserChangeBody{
			Name: given(s, "name", name), Disabled: disabled,
			PlatformRole: givenAs[apiclient.IdentityUserChangeBodyPlatformRole](s, "platform-role", role),
		}))
}
