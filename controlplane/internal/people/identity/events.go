package identity

import (
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
)

func tenantEvent(t eventwire.Type, tenant Tenant) outbox.Event {
	return outbox.Event{
		Type: t, AggregateKind: "tenant", AggregateID: tenant.ID.String(), Org: tenant.ID,
		Payload: eventwire.Tenant{OrgID: tenant.ID.String(), Slug: tenant.Slug, Name: tenant.Name, Version: tenant.Version},
	}
}

func projectEvent(t eventwire.Type, p Project) outbox.Event {
	return outbox.Event{
		Type: t, AggregateKind: "project", AggregateID: p.ID.String(), Org: p.Org, Project: p.ID,
		Payload: eventwire.Project{
			ProjectID: p.ID.String(), OrgID: p.Org.String(), Slug: p.Slug, Name: p.Name, Version: p.Version,
		},
	}
}

func userEvent(t eventwire.Type, u User) outbox.Event {
	payload := eventwire.User{UserID: u.ID.String(), Name: u.Name, Disabled: u.Disabled, Version: u.Version}
	if u.PlatformRole != auth.NoRole {
		payload.PlatformRole = string(u.PlatformRole)
	}
	return outbox.Event{Type: t, AggregateKind: "user", AggregateID: u.ID.String(), Payload: payload}
}

// membershipEvent uses the aggregate of the tenant or project, so that a change
// and a removal keep their order.
func membershipEvent(t eventwire.Type, target auth.Target, user id.User, role auth.Role) outbox.Event {
	e := outbox.Event{
		Type: t, AggregateKind: "tenant", AggregateID: target.Org.String(), Org: target.Org,
		Project: target.Project,
	}
	payload := eventwire.Membership{UserID: user.String(), OrgID: target.Org.String(), Role: string(role)}
	if !target.Project.IsZero() {
		e.AggregateKind, e.AggregateID = "project", target.Project.String()
		payload.ProjectID = target.Project.String()
	}
	e.Payload = payload
	return e
}

func serviceAccountEvent(t eventwire.Type, org id.Org, a ServiceAccount) outbox.Event {
	return outbox.Event{
		Type: t, AggregateKind: "service_account", AggregateID: a.ID.String(), Org: org, Project: a.Project,
		Payload: eventwire.ServiceAccount{
			ServiceAccountID: a.ID.String(), ProjectID: a.Project.String(), OrgID: org.String(),
			Name: a.Name, Role: string(a.Role), Status: string(a.Status), Version: a.Version,
		},
	}
}

// tokenEvent makes an event about a token. target is the project of a service
// account's token, and zero for a person's.
func tokenEvent(t eventwire.Type, target auth.Target, token Token) outbox.Event {
	payload := eventwire.Token{
		TokenID: token.ID.String(), Kind: string(token.Kind), Name: token.Name,
		Scopes: permissionsColumn(token.Scopes), ExpiresAt: token.ExpiresAt.UTC(),
	}
	if token.User.IsZero() {
		payload.ServiceAccountID = token.ServiceAccount.String()
	} else {
		payload.UserID = token.User.String()
	}
	return outbox.Event{
		Type: t, AggregateKind: "token", AggregateID: token.ID.String(), Org: target.Org, Project: target.Project,
		Payload: payload,
	}
}
