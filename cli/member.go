package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) memberColumns() []table.Column[apiclient.IdentityMemberView] {
	type member = apiclient.IdentityMemberView
	return []table.Column[member]{
		{Title: "EMAIL", Text: func(m member) string { return m.Email }},
		{Title: "NAME", Text: func(m member) string { return m.Name }},
		{Title: "ROLE", Text: func(m member) string { return string(m.Role) }},
		{Title: "USER ID", Wide: true, Text: func(m member) string { return m.UserId.String() }},
		ago(a, "SINCE", func(m member) time.Time { return m.CreatedAt }),
	}
}

func (a *app) memberCommand() *cobra.Command {
	return a.noun(noun{
		use: "member", short: "Who holds which role on a tenant or in a project", group: groupIdentity,
		long: "Roles on a tenant hold in all of its projects. With --tenant alone a command is about the\n" +
			"tenant, with --project about the project. People are named by id or e-mail address.",
	},
		a.verb(verb{
			use: "list", short: "List who holds a role", aliases: []string{"ls"},
			operations: []string{"list-tenant-members", "list-project-members"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addProject(cmd)
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					m, err := s.membership(*c)
					if err != nil {
						return err
					}
					return listing.Print(s.Session, f, listing.Listing[apiclient.IdentityMemberView]{
						Columns: a.memberColumns(),
						Fetch:   m.list,
					})
				}
			},
		}),
		a.verb(verb{
			use: "set USER", short: "Give a person a role, or another one", args: frame.Exactly("USER"),
			operations: []string{"put-tenant-member", "put-project-member"},
			example: "  gpuaas member set ada@example.com --tenant acme --role tenant_admin\n" +
				"  gpuaas member set ada@example.com --project acme/training --role project_member",
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addProject(cmd)
				role := cmd.Flags().String("role", "", "tenant_admin; or project_admin, project_member, project_viewer")
				frame.Complete(cmd, "role", append([]string{"tenant_admin"}, projectRoles()...)...)
				return func(s *session, args []string) error { return a.setMember(s, *c, args[0], *role) }
			},
		}),
		a.verb(verb{
			use: "remove USER", short: "Take a person's role away", aliases: []string{"rm"}, args: frame.Exactly("USER"),
			operations: []string{"remove-tenant-member", "remove-project-member"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addProject(cmd)
				return func(s *session, args []string) error { return a.removeMember(s, *c, args[0]) }
			},
		}),
	)
}

func projectRoles() []string { return apiclient.Words("IdentityProjectRoleBody.role") }

func (a *app) setMember(s *session, c scope, user, role string) error {
	if err := s.Require("role"); err != nil {
		return err
	}
	m, err := s.membership(c)
	if err != nil {
		return err
	}
	id, err := s.userOrMember(m, user)
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.memberColumns())(m.put(id, role))
}

func (a *app) removeMember(s *session, c scope, user string) error {
	m, err := s.membership(c)
	if err != nil {
		return err
	}
	id, err := s.memberID(m, user)
	if err != nil {
		return err
	}
	return frame.Done(s.Session, "%s no longer holds a role in %s", user, m.of)(m.remove(id))
}

// membership is what can be done with the members of a tenant or of a project.
type membership struct {
	of     string
	list   func(listing.Page) (apiclient.Answer, error)
	put    func(user types.UUID, role string) (apiclient.Answer, error)
	remove func(user types.UUID) (apiclient.Answer, error)
}

func (s *session) membership(c scope) (membership, error) {
	switch {
	case c.project != "":
		id, err := s.projectID(c)
		return s.projectMembership(id, c.project), err
	case c.tenant != "":
		id, err := s.tenantID(c.tenant)
		return s.tenantMembership(id, c.tenant), err
	}
	return membership{}, failure.Misuse(s.Cmd, "name a tenant or project with --tenant or --project")
}

func (s *session) tenantMembership(org types.UUID, name string) membership {
	return membership{
		of: "tenant " + name,
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListTenantMembersWithResponse(s.Ctx, org,
				&apiclient.ListTenantMembersParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		put: func(user types.UUID, role string) (apiclient.Answer, error) {
			return s.API.PutTenantMemberWithResponse(s.Ctx, org, user, &apiclient.PutTenantMemberParams{},
				apiclient.IdentityTenantRoleBody{Role: apiclient.IdentityTenantRoleBodyRole(role)})
		},
		remove: func(user types.UUID) (apiclient.Answer, error) {
			return s.API.RemoveTenantMemberWithResponse(s.Ctx, org, user, &apiclient.RemoveTenantMemberParams{})
		},
	}
}

func (s *session) projectMembership(project types.UUID, name string) membership {
	return membership{
		of: "project " + name,
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListProjectMembersWithResponse(s.Ctx, project,
				&apiclient.ListProjectMembersParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		put: func(user types.UUID, role string) (apiclient.Answer, error) {
			return s.API.PutProjectMemberWithResponse(s.Ctx, project, user, &apiclient.PutProjectMemberParams{},
				apiclient.IdentityProjectRoleBody{Role: apiclient.IdentityProjectRoleBodyRole(role)})
		},
		remove: func(user types.UUID) (apiclient.Answer, error) {
			return s.API.RemoveProjectMemberWithResponse(s.Ctx, project, user, &apiclient.RemoveProjectMemberParams{})
		},
	}
}

// memberID resolves a person who holds a role already.
func (s *session) memberID(m membership, name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	one, ok, err := listing.Find(m.list, func(
		v apiclient.IdentityMemberView,
	) bool {
		return strings.EqualFold(v.Email, name)
	})
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, failure.Missing("see who does: gpuaas member list", "%q holds no role in %s", name, m.of)
	}
	return one.UserId, nil
}

// userOrMember resolves a person for those who may not look up all people: they can still
// name members by address.
func (s *session) userOrMember(m membership, name string) (types.UUID, error) {
	id, err := s.userID(name)
	var p *apiclient.Problem
	if !errors.As(err, &p) || failure.ExitOf(p.Status) != failure.Forbidden {
		return id, err
	}
	id, err = s.memberID(m, name)
	if f := (*failure.Error)(nil); errors.As(err, &f) && f.Exit == failure.NotFound {
		return id, failure.Missing("use their user id, which an administrator of the platform can tell",
			"%q holds no role in %s, and you may not look up other people by address", name, m.of)
	}
	return id, err
}
