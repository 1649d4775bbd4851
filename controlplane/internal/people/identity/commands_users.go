package identity

import (
	"context"
	"fmt"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// CreateUser invites a person. They can act once they have signed in with the
// same verified e-mail address.
func (s *Service) CreateUser(ctx context.Context, n NewUser) (User, error) {
	if n.PlatformRole == "" {
		n.PlatformRole = auth.NoRole
	}
	if err := n.check(); err != nil {
		return User{}, err
	}
	if err := checkGrant(auth.From(ctx), auth.Target{}, n.PlatformRole); err != nil {
		return User{}, err
	}
	var user User
	err := s.inChange(ctx, func(ctx context.Context, c change) (err error) {
		user, err = c.insertUser(ctx, User{Email: n.Email, Name: n.Name, PlatformRole: n.PlatformRole})
		return err
	})
	return user, err
}

var errUserExists = fault.New(fault.Conflict, "user_exists", "there is already a user with this e-mail address").
	WithRemedy("find them in the list of users")

func (c change) insertUser(ctx context.Context, u User) (User, error) {
	row, err := c.InsertUser(ctx, identitydb.InsertUserParams{
		ID: newID[id.User](), Email: u.Email, Name: u.Name, PlatformRole: platformRoleColumn(u.PlatformRole),
		OidcIssuer: orNull(u.Issuer), OidcSubject: orNull(u.Subject),
	})
	if postgres.Violates(err, "users_email") || postgres.Violates(err, "users_oidc_issuer_oidc_subject_key") {
		return User{}, errUserExists
	}
	if err != nil {
		return User{}, fmt.Errorf("insert user: %w", err)
	}
	user := userFrom(row)
	return user, c.record(ctx, userEntry("user.create", user), userEvent(eventwire.UserCreated, user))
}

// UpdateUser changes a person. It fails if the person is no longer at this
// version. Disabling a person revokes all their tokens at once. The last
// administrator of the platform cannot lose that role.
func (s *Service) UpdateUser(ctx context.Context, who id.User, version int64, ch UserChange) (User, error) {
	if err := ch.check(); err != nil {
		return User{}, err
	}
	var after User
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		admins, err := c.LockPlatformAdmins(ctx)
		if err != nil {
			return fmt.Errorf("lock platform admins: %w", err)
		}
		row, err := c.LockUser(ctx, who)
		if err != nil {
			return orNotFound(err)
		}
		before := userFrom(row)
		if err := atVersion(before.Version, version); err != nil {
			return err
		}
		want := ch.applied(before)
		if want == before {
			after = before
			return nil
		}
		if err := c.checkUserGrant(ctx, before, want); err != nil {
			return err
		}
		if before.administers() && !want.administers() && len(admins) == 1 {
			return fault.New(fault.Conflict, "last_platform_admin", "this is the last enabled administrator of the platform").
				WithRemedy("make somebody else platform_admin first")
		}
		return s.keepWayIn(ctx, c, before.administers(), func() (err error) {
			after, err = s.updateUser(ctx, c, before, want)
			return err
		})
	})
	return after, err
}

// checkUserGrant refuses a change by which a person would gain rights that the
// caller cannot give: another role on the platform, or, if it enables them, all
// the roles that they have.
func (c change) checkUserGrant(ctx context.Context, before, want User) error {
	caller, enabled := auth.From(ctx), before.Disabled && !want.Disabled
	if enabled || want.PlatformRole != before.PlatformRole {
		if err := checkGrant(caller, auth.Target{}, want.PlatformRole); err != nil {
			return err
		}
	}
	if !enabled {
		return nil
	}
	roles, err := c.UserRoles(ctx, want.ID)
	if err != nil {
		return fmt.Errorf("read roles of user: %w", err)
	}
	for _, r := range roles {
		if err := checkGrant(caller, auth.Target{Org: r.OrgID}, auth.Role(r.Role)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) updateUser(ctx context.Context, c change, before, want User) (User, error) {
	row, err := c.UpdateUser(ctx, identitydb.UpdateUserParams{
		ID: want.ID, Name: want.Name, PlatformRole: platformRoleColumn(want.PlatformRole), Disabled: want.Disabled,
	})
	if err != nil {
		return User{}, fmt.Errorf("update user: %w", err)
	}
	after := userFrom(row)
	if before.Disabled != after.Disabled || before.PlatformRole != after.PlatformRole {
		if err := c.rightsChanged(ctx, after.ID); err != nil {
			return User{}, err
		}
	}
	entry := userEntry("user.update", after)
	if before.PlatformRole != after.PlatformRole {
		entry.Metadata["platform_role_before"] = before.PlatformRole
	}
	switch {
	case after.Disabled && !before.Disabled:
		entry.Action = "user.disable"
		revoked, err := c.RevokeTokensOf(ctx, identitydb.RevokeTokensOfParams{UserID: after.ID, Now: s.now()})
		if err != nil {
			return User{}, fmt.Errorf("revoke tokens of user: %w", err)
		}
		entry.Metadata["tokens_revoked"] = revoked
	case before.Disabled && !after.Disabled:
		entry.Action = "user.enable"
	}
	return after, c.record(ctx, entry, userEvent(eventwire.UserUpdated, after))
}

// User reads one person.
func (s *Service) User(ctx context.Context, who id.User) (User, error) {
	row, err := s.reads.User(ctx, who)
	return userFrom(row), orNotFound(err)
}

// Users lists people. If email is not empty, it lists only that address.
func (s *Service) Users(ctx context.Context, email string, page postgres.Slice[id.User]) ([]User, error) {
	rows, err := s.reads.ListUsers(ctx, identitydb.ListUsersParams{
		After: page.After.String(), Email: orNull(email), PageSize: page.Limit,
	})
	return converted(rows, err, userFrom)
}

func userEntry(action string, u User) audit.Entry {
	return audit.Entry{
		Action: action, TargetKind: "user", TargetID: u.ID.String(),
		Metadata: map[string]any{
			"email": u.Email, "platform_role": u.PlatformRole, "disabled": u.Disabled,
			"version": u.Version,
		},
	}
}
