package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// TenantMembers lists who holds a role on the tenant itself.
func (s *Service) TenantMembers(ctx context.Context, org id.Org, page postgres.Slice[id.User]) ([]Member, error) {
	rows, err := s.reads.ListTenantMembers(ctx, identitydb.ListTenantMembersParams{
		OrgID: org, After: page.After.String(), PageSize: page.Limit,
	})
	if err == nil && len(rows) == 0 {
		_, err = s.Tenant(ctx, org) // a tenant that does not exist has no list
	}
	return converted(rows, err, func(r identitydb.ListTenantMembersRow) Member {
		return memberFrom(
			identitydb.TenantMemberRow(r))
	})
}

// PutTenantMember gives a person a role on a tenant. If they have it already,
// nothing changes.
func (s *Service) PutTenantMember(ctx context.Context, org id.Org, user id.User, role auth.Role) (Member, error) {
	if err := checkTenantRole(role); err != nil {
		return Member{}, err
	}
	target := auth.Target{Org: org}
	if err := checkGrant(auth.From(ctx), target, role); err != nil {
		return Member{}, err
	}
	var member Member
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		if _, err := c.LockTenant(ctx, org); err != nil {
			return orNotFound(err)
		}
		read := func() (identitydb.TenantMemberRow, error) {
			return c.TenantMember(ctx, identitydb.TenantMemberParams{OrgID: org, UserID: user})
		}
		put := func() error {
			return c.PutTenantMember(ctx, identitydb.PutTenantMemberParams{OrgID: org, UserID: user, Role: string(role)})
		}
		var err error
		member, err = c.putMember(ctx, target, user, role, read, put)
		return err
	})
	return member, err
}

// RemoveTenantMember takes the role on a tenant away. Only the platform's own
// administrators can remove the last administrator of a tenant.
func (s *Service) RemoveTenantMember(ctx context.Context, org id.Org, user id.User) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		if _, err := c.LockTenant(ctx, org); err != nil {
			return orNotFound(err)
		}
		before, err := c.TenantMember(ctx, identitydb.TenantMemberParams{OrgID: org, UserID: user})
		if err != nil {
			return orNotFound(err)
		}
		others, err := c.CountOtherTenantAdmins(ctx, identitydb.CountOtherTenantAdminsParams{OrgID: org, UserID: user})
		if err != nil {
			return fmt.Errorf("count tenant admins: %w", err)
		}
		if others == 0 && auth.From(ctx).RoleOn(auth.Target{}) != auth.PlatformAdmin {
			return fault.New(fault.Conflict, "last_tenant_admin", "this is the last administrator of the tenant").
				WithRemedy("make somebody else tenant_admin first, or ask a platform administrator")
		}
		if err := c.DeleteTenantMember(ctx, identitydb.DeleteTenantMemberParams{OrgID: org, UserID: user}); err != nil {
			return fmt.Errorf("delete tenant member: %w", err)
		}
		return c.recordRemoval(ctx, auth.Target{Org: org}, user, auth.Role(before.Role))
	})
}

// ProjectMembers lists who holds a role in a project.
func (s *Service) ProjectMembers(ctx context.Context, project id.Project, page postgres.Slice[id.User]) (
	[]Member, error,
) {
	rows, err := s.reads.ListProjectMembers(ctx, identitydb.ListProjectMembersParams{
		ProjectID: project, After: page.After.String(), PageSize: page.Limit,
	})
	return converted(rows, err, func(r identitydb.ListProjectMembersRow) Member {
		return memberFrom(
			identitydb.TenantMemberRow(r))
	})
}

// PutProjectMember gives a person a role in a project, or replaces their role.
// If they have it already, nothing changes.
func (s *Service) PutProjectMember(ctx context.Context, project id.Project, user id.User, role auth.Role) (
	Member, error,
) {
	if err := checkProjectRole(role); err != nil {
		return Member{}, err
	}
	var member Member
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		row, err := c.LockProject(ctx, project)
		if err != nil {
			return orNotFound(err)
		}
		target := auth.Target{Org: row.OrgID, Project: project}
		if err := checkGrant(auth.From(ctx), target, role); err != nil {
			return err
		}
		read := func() (identitydb.TenantMemberRow, error) {
			r, err := c.ProjectMember(ctx, identitydb.ProjectMemberParams{ProjectID: project, UserID: user})
			return identitydb.TenantMemberRow(r), err
		}
		put := func() error {
			return c.PutProjectMember(ctx, identitydb.PutProjectMemberParams{
				ProjectID: project, UserID: user,
				Role: string(role),
			})
		}
		member, err = c.putMember(ctx, target, user, role, read, put)
		return err
	})
	return member, err
}

// RemoveProjectMember takes the role in a project away.
func (s *Service) RemoveProjectMember(ctx context.Context, project id.Project, user id.User) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		row, err := c.LockProject(ctx, project)
		if err != nil {
			return orNotFound(err)
		}
		before, err := c.ProjectMember(ctx, identitydb.ProjectMemberParams{ProjectID: project, UserID: user})
		if err != nil {
			return orNotFound(err)
		}
		if err := c.DeleteProjectMember(ctx, identitydb.DeleteProjectMemberParams{
			ProjectID: project,
			UserID:    user,
		}); err != nil {
			return fmt.Errorf("delete project member: %w", err)
		}
		return c.recordRemoval(ctx, auth.Target{Org: row.OrgID, Project: project}, user, auth.Role(before.Role))
	})
}

// putMember writes a membership. The caller has locked the tenant or project.
func (c change) putMember(ctx context.Context, target auth.Target, user id.User, role auth.Role,
	read func() (identitydb.TenantMemberRow, error), put func() error,
) (Member, error) {
	before, err := read()
	switch {
	case err == nil && auth.Role(before.Role) == role:
		return memberFrom(before), nil
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return Member{}, fmt.Errorf("read membership: %w", err)
	}
	err = put()
	if postgres.Violates(err, "tenant_memberships_user_id_fkey") ||
		postgres.Violates(err, "project_memberships_user_id_fkey") {
		return Member{}, notFound()
	}
	if err != nil {
		return Member{}, fmt.Errorf("write membership: %w", err)
	}
	after, err := read()
	if err != nil {
		return Member{}, fmt.Errorf("read membership: %w", err)
	}
	if before.Role != "" {
		if err := c.rightsChanged(ctx, user); err != nil {
			return Member{}, err
		}
	}
	entry := membershipEntry("membership.change", target, user)
	entry.Metadata = map[string]any{"role": role, "role_before": before.Role}
	return memberFrom(after), c.record(ctx, entry, membershipEvent(eventwire.MembershipChanged, target, user, role))
}

func (c change) recordRemoval(ctx context.Context, target auth.Target, user id.User, before auth.Role) error {
	if err := c.rightsChanged(ctx, user); err != nil {
		return err
	}
	entry := membershipEntry("membership.remove", target, user)
	entry.Metadata = map[string]any{"role_before": before}
	return c.record(ctx, entry, membershipEvent(eventwire.MembershipRemoved, target, user, ""))
}

func membershipEntry(action string, target auth.Target, user id.User) audit.Entry {
	return audit.Entry{
		Action: action, TargetKind: "user", TargetID: user.String(), Org: target.Org,
		Project: target.Project,
	}
}
