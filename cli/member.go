package cli

import (
	"errors"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) memberColumns() []column[apiclient.IdentityMemberView] {
	type member = apiclient.IdentityMemberView
	return []column[member]{
		{title: "EMAIL", text: func(m member) string { return m.Email }},
		{title: "NAME", text: func(m member) string { return m.Name }},
		{title: "ROLE", text: func(m member) string { return string(m.Role) }},
		{title: "USER ID", text: func(m member) string { return m.UserId.String() }},
		{title: "SINCE", text: func(m member) string { return a.when(m.CreatedAt) }},
	}
}

func (a *app) memberCommand() *cobra.Command {
	return a.noun(noun{
		use: "member", short: "Who holds which role on a tenant or in a project", group: groupIdentity,
		long: "Roles on a tenant hold in all of its projects. With --tenant alone a command is about the\n" +
			"tenant, with --project about the project. People are named by id or e-mail address.",
	},
		a.verb(verb{
			use: "list", short: "List who holds a role", aliases: []string{"ls"}, operations: []string{"list-tenant-members", "list-project-members"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addProject(cmd)
				f := addListFlags(cmd, 0)
				return func(s *session, _ []string) error {
					m, err := s.membership(*c)
					if err != nil {
						return err
					}
					return list(s, f, listing[apiclient.IdentityMemberView]{columns: a.memberColumns(), fetch: m.list})
				}
			},
		}),
		a.verb(verb{
			use: "set USER", short: "Give a person a role, or another one", args: exactly("USER"),
			operations: []string{"put-tenant-member", "put-project-member"},
			example: "  gpuaas member set ada@example.com --tenant acme --role tenant_admin\n" +
				"  gpuaas member set ada@example.com --project acme/training --role project_member",
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addProject(cmd)
				role := cmd.Flags().String("role", "", "tenant_admin; or project_admin, project_member, project_viewer")
				complete(cmd, "role", append([]string{"tenant_admin"}, projectRoles()...)...)
				return func(s *session, args []string) error { return a.setMember(s, *c, args[0], *role) }
			},
		}),
		a.verb(verb{
			use: "remove USER", short: "Take a person's role away", aliases: []string{"rm"}, args: exactly("USER"),
			operations: []string{"remove-tenant-member", "remove-project-member"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				c.addProject(cmd)
				return func(s *session, args []string) error { return a.removeMember(s, *c, args[0]) }
			},
		}),
	)
}

func projectRoles() []string { return []string{"project_admin", "project_member", "project_viewer"} }

func (a *app) setMember(s *session, c scope, user, role string) error {
	if err := s.require("role"); err != nil {
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
	return show(s, a.memberColumns())(m.put(id, role))
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
	return done(s, "%s no longer holds a role in %s", user, m.of)(m.remove(id))
}

// membership is what can be done with the members of a tenant or of a project.
type membership struct {
	of     string
	list   func(page) (apiclient.Answer, error)
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
	return membership{}, usage(s.cmd, "say where: --tenant or --project")
}

func (s *session) tenantMembership(org types.UUID, name string) membership {
	return membership{
		of: "tenant " + name,
		list: func(p page) (apiclient.Answer, error) {
			return s.api.ListTenantMembersWithResponse(s.ctx, org, &apiclient.ListTenantMembersParams{Cursor: p.cursor, PageSize: p.size})
		},
		put: func(user types.UUID, role string) (apiclient.Answer, error) {
			return s.api.PutTenantMemberWithResponse(s.ctx, org, user, &apiclient.PutTenantMemberParams{},
				apiclient.IdentityTenantRoleBody{Role: apiclient.IdentityTenantRoleBodyRole(role)})
		},
		remove: func(user types.UUID) (apiclient.Answer, error) {
			return s.api.RemoveTenantMemberWithResponse(s.ctx, org, user, &apiclient.RemoveTenantMemberParams{})
		},
	}
}

func (s *session) projectMembership(project types.UUID, name string) membership {
	return membership{
		of: "project " + name,
		list: func(p page) (apiclient.Answer, error) {
			return s.api.ListProjectMembersWithResponse(s.ctx, project, &apiclient.ListProjectMembersParams{Cursor: p.cursor, PageSize: p.size})
		},
		put: func(user types.UUID, role string) (apiclient.Answer, error) {
			return s.api.PutProjectMemberWithResponse(s.ctx, project, user, &apiclient.PutProjectMemberParams{},
				apiclient.IdentityProjectRoleBody{Role: apiclient.IdentityProjectRoleBodyRole(role)})
		},
		remove: func(user types.UUID) (apiclient.Answer, error) {
			return s.api.RemoveProjectMemberWithResponse(s.ctx, project, user, &apiclient.RemoveProjectMemberParams{})
		},
	}
}

// memberID resolves a person who holds a role already.
func (s *session) memberID(m membership, name string) (types.UUID, error) {
	if id, ok := parseID(name); ok {
		return id, nil
	}
	one, ok, err := find(m.list, func(v apiclient.IdentityMemberView) bool { return strings.EqualFold(v.Email, name) })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, notFound("see who does: gpuaas member list", "%q holds no role in %s", name, m.of)
	}
	return one.UserId, nil
}

// userOrMember resolves a person for those who may not look up all people: they can still
// name members by address.
func (s *session) userOrMember(m membership, name string) (types.UUID, error) {
	id, err := s.userID(name)
	var p *apiclient.Problem
	if !errors.As(err, &p) || exitOfStatus(p.Status) != exitForbidden {
		return id, err
	}
	id, err = s.memberID(m, name)
	if f := (*failure)(nil); errors.As(err, &f) && f.exit == exitNotFound {
		return id, notFound("use their user id, which an administrator of the platform can tell",
			"%q holds no role in %s, and you may not look up other people by address", name, m.of)
	}
	return id, err
}
