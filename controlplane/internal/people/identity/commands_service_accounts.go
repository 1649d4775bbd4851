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

// CreateServiceAccount makes a service account with a role no higher than the caller's.
func (s *Service) CreateServiceAccount(ctx context.Context, project id.Project, n NewServiceAccount) (
	ServiceAccount, error,
) {
	if err := n.check(); err != nil {
		return ServiceAccount{}, err
	}
	var account ServiceAccount
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		org, err := c.grantable(ctx, project, n.Role)
		if err != nil {
			return err
		}
		row, err := c.InsertServiceAccount(ctx, identitydb.InsertServiceAccountParams{
			ID: newID[id.ServiceAccount](), ProjectID: project, Name: n.Name, Role: string(n.Role),
		})
		if postgres.Violates(err, "service_accounts_name") {
			return fault.New(fault.Conflict, "service_account_exists", "the project already has a service account of this name").
				WithRemedy("choose another name")
		}
		if err != nil {
			return fmt.Errorf("insert service account: %w", err)
		}
		account = serviceAccountFrom(row)
		return c.record(ctx, serviceAccountEntry("service_account.create", org, account),
			serviceAccountEvent(eventwire.ServiceAccountCreated, org, account))
	})
	return account, err
}

// UpdateServiceAccount changes the role or status of an account. It fails if
// the account is no longer at this version.
func (s *Service) UpdateServiceAccount(ctx context.Context, project id.Project, which id.ServiceAccount, version int64,
	ch ServiceAccountChange,
) (ServiceAccount, error) {
	if err := ch.check(); err != nil {
		return ServiceAccount{}, err
	}
	var after ServiceAccount
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		before, err := c.lockServiceAccount(ctx, project, which)
		if err != nil {
			return err
		}
		if err := atVersion(before.Version, version); err != nil {
			return err
		}
		want, err := ch.applied(before)
		if err != nil || want == before {
			after = before
			return err
		}
		if caller := auth.From(ctx); caller.Kind == auth.KindServiceAccount && caller.ID == which.String() {
			return fault.New(fault.Forbidden, "service_account_self", "a service account cannot change itself").
				WithRemedy("ask a project_admin")
		}
		org, err := c.ProjectOrg(ctx, project)
		if err != nil {
			return fmt.Errorf("read tenant of project: %w", err)
		}
		// A change that only takes rights away needs no right to grant.
		if want.Role != before.Role || want.Status == ServiceAccountActive {
			if err := checkGrant(auth.From(ctx), auth.Target{Org: org, Project: project}, want.Role); err != nil {
				return err
			}
		}
		after, err = c.updateServiceAccount(ctx, want)
		if err != nil {
			return err
		}
		entry := serviceAccountEntry("service_account.update", org, after)
		entry.Metadata["role_before"], entry.Metadata["status_before"] = before.Role, before.Status
		return c.record(ctx, entry, serviceAccountEvent(eventwire.ServiceAccountUpdated, org, after))
	})
	return after, err
}

// DeleteServiceAccount deletes an account and revokes its tokens.
func (s *Service) DeleteServiceAccount(ctx context.Context, project id.Project, which id.ServiceAccount) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		account, err := c.lockServiceAccount(ctx, project, which)
		if err != nil {
			return err
		}
		if account.Status, err = ServiceAccountLifecycle.Next(account.Status, ServiceAccountDelete); err != nil {
			return err
		}
		if account, err = c.updateServiceAccount(ctx, account); err != nil {
			return err
		}
		revoked, err := c.RevokeTokensOf(ctx, identitydb.RevokeTokensOfParams{ServiceAccountID: which, Now: s.now()})
		if err != nil {
			return fmt.Errorf("revoke tokens of service account: %w", err)
		}
		org, err := c.ProjectOrg(ctx, project)
		if err != nil {
			return fmt.Errorf("read tenant of project: %w", err)
		}
		entry := serviceAccountEntry("service_account.delete", org, account)
		entry.Metadata["tokens_revoked"] = revoked
		return c.record(ctx, entry, serviceAccountEvent(eventwire.ServiceAccountDeleted, org, account))
	})
}

// ServiceAccount reads one account of a project.
func (s *Service) ServiceAccount(ctx context.Context, project id.Project, which id.ServiceAccount) (
	ServiceAccount, error,
) {
	row, err := s.reads.ServiceAccount(ctx, identitydb.ServiceAccountParams{ProjectID: project, ID: which})
	return serviceAccountFrom(row), orNotFound(err)
}

// ServiceAccounts lists the accounts of a project.
func (s *Service) ServiceAccounts(ctx context.Context, project id.Project, page postgres.Slice[id.ServiceAccount]) (
	[]ServiceAccount, error,
) {
	rows, err := s.reads.ListServiceAccounts(ctx, identitydb.ListServiceAccountsParams{
		ProjectID: project, After: page.After.String(), PageSize: page.Limit,
	})
	return converted(rows, err, serviceAccountFrom)
}

// grantable refuses a role in a project that the caller cannot give. It returns
// the tenant of the project.
func (c change) grantable(ctx context.Context, project id.Project, role auth.Role) (id.Org, error) {
	org, err := c.ProjectOrg(ctx, project)
	if err != nil {
		return org, orNotFound(err)
	}
	return org, checkGrant(auth.From(ctx), auth.Target{Org: org, Project: project}, role)
}

func (c change) lockServiceAccount(ctx context.Context, project id.Project, which id.ServiceAccount) (
	ServiceAccount, error,
) {
	row, err := c.LockServiceAccount(ctx, identitydb.LockServiceAccountParams{ProjectID: project, ID: which})
	return serviceAccountFrom(row), orNotFound(err)
}

func (c change) updateServiceAccount(ctx context.Context, want ServiceAccount) (ServiceAccount, error) {
	row, err := c.UpdateServiceAccount(ctx, identitydb.UpdateServiceAccountParams{
		ID: want.ID, Role: string(want.Role), Status: string(want.Status),
	})
	if err != nil {
		return ServiceAccount{}, fmt.Errorf("update service account: %w", err)
	}
	return serviceAccountFrom(row), nil
}

func serviceAccountEntry(action string, org id.Org, a ServiceAccount) audit.Entry {
	return audit.Entry{
		Action: action, TargetKind: "service_account", TargetID: a.ID.String(), Org: org, Project: a.Project,
		Metadata: map[string]any{"name": a.Name, "role": a.Role, "status": a.Status, "version": a.Version},
	}
}
