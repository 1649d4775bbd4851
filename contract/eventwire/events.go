package eventwire

import "time"

// The event types.
const (
	TenantCreated         Type = "tenant.created"
	TenantUpdated         Type = "tenant.updated"
	ProjectCreated        Type = "project.created"
	ProjectUpdated        Type = "project.updated"
	UserCreated           Type = "user.created"
	UserUpdated           Type = "user.updated"
	MembershipChanged     Type = "membership.changed"
	MembershipRemoved     Type = "membership.removed"
	ServiceAccountCreated Type = "service_account.created"
	ServiceAccountUpdated Type = "service_account.updated"
	ServiceAccountDeleted Type = "service_account.deleted"
	TokenCreated          Type = "token.created"
	TokenRevoked          Type = "token.revoked"
	SelfCheckRequested    Type = "self_check.requested"
	SelfCheckFinished     Type = "self_check.finished"

	SiteCreated            Type = "site.created"
	SiteUpdated            Type = "site.updated"
	SiteDeleted            Type = "site.deleted"
	SiteCredentialsRotated Type = "site.credentials_rotated"
)

// Tenant is the payload of tenant events.
type Tenant struct {
	OrgID   string `json:"org_id" format:"uuid"`
	Slug    string `json:"slug"`
	Name    string `json:"name"`
	Version int64  `json:"version" doc:"grows with every change of the tenant"`
}

// Project is the payload of project events.
type Project struct {
	ProjectID string `json:"project_id" format:"uuid"`
	OrgID     string `json:"org_id" format:"uuid"`
	Slug      string `json:"slug"`
	Name      string `json:"name"`
	Version   int64  `json:"version" doc:"grows with every change of the project"`
}

// User is the payload of user events.
type User struct {
	UserID       string `json:"user_id" format:"uuid"`
	Name         string `json:"name"`
	PlatformRole string `json:"platform_role,omitempty" enum:"platform_admin,auditor" doc:"absent when the user holds no role on the platform"`
	Disabled     bool   `json:"disabled"`
	Version      int64  `json:"version" doc:"grows with every change of the user"`
}

// Membership is the payload of membership events.
type Membership struct {
	UserID    string `json:"user_id" format:"uuid"`
	OrgID     string `json:"org_id" format:"uuid"`
	ProjectID string `json:"project_id,omitempty" format:"uuid" doc:"absent when the membership is one of the tenant itself"`
	Role      string `json:"role,omitempty" enum:"tenant_admin,project_admin,project_member,project_viewer" doc:"absent when the membership was removed"`
}

// ServiceAccount is the payload of service account events.
type ServiceAccount struct {
	ServiceAccountID string `json:"service_account_id" format:"uuid"`
	ProjectID        string `json:"project_id" format:"uuid"`
	OrgID            string `json:"org_id" format:"uuid"`
	Name             string `json:"name"`
	Role             string `json:"role" enum:"project_admin,project_member,project_viewer"`
	Status           string `json:"status" enum:"active,disabled,deleted"`
	Version          int64  `json:"version" doc:"grows with every change of the service account"`
}

// Token is the payload of token events. It never holds the token itself, nor
// its hash.
type Token struct {
	TokenID          string    `json:"token_id" format:"uuid"`
	Kind             string    `json:"kind" enum:"api,session"`
	Name             string    `json:"name"`
	UserID           string    `json:"user_id,omitempty" format:"uuid" doc:"the owner, when it is a person"`
	ServiceAccountID string    `json:"service_account_id,omitempty" format:"uuid" doc:"the owner, when it is a service account"`
	Scopes           []string  `json:"scopes,omitempty" doc:"permissions that the token is narrowed to; absent means all of its owner"`
	ExpiresAt        time.Time `json:"expires_at"`
}

// SelfCheck is the payload of self-check events.
type SelfCheck struct {
	SelfCheckID string `json:"self_check_id" format:"uuid"`
	Status      string `json:"status" enum:"pending,running,passed,failed,cancelled"`
	RequestedBy string `json:"requested_by" doc:"id of the principal who asked for it"`
}

// Site is the payload of site events.
type Site struct {
	SiteID     string `json:"site_id" format:"uuid"`
	Name       string `json:"name"`
	RegionCode string `json:"region_code"`
	Status     string `json:"status" enum:"active,disabled" doc:"a disabled site takes no new work"`
	Changed    string `json:"changed" enum:"site,profile,power_override,roce_assignments" doc:"which part of the site the event is about"`
	Version    int64  `json:"version" doc:"grows with every change of the site itself"`
}

// SiteCredentials is the payload of the event about new credentials. It never
// holds one of them.
type SiteCredentials struct {
	SiteID          string    `json:"site_id" format:"uuid"`
	Credentials     []string  `json:"credentials" doc:"which were written: api_token, power, deploy_password or power_override"`
	PowerOverrideID string    `json:"power_override_id,omitempty" format:"uuid" doc:"the override whose credentials were written"`
	RotatedAt       time.Time `json:"rotated_at"`
}

// Definition is one event of the contract.
type Definition struct {
	Type        Type
	Description string
	Payload     any // a zero value of the payload's struct
}

// Events lists every event of the contract. The AsyncAPI document is made from
// it, and the outbox refuses to append what is not in it.
func Events() []Definition {
	return []Definition{
		{TenantCreated, "A tenant was created.", Tenant{}},
		{TenantUpdated, "A tenant was changed.", Tenant{}},
		{ProjectCreated, "A project was created.", Project{}},
		{ProjectUpdated, "A project was changed.", Project{}},
		{UserCreated, "A person became known: invited, or signed in for the first time.", User{}},
		{UserUpdated, "A person's name, role on the platform or ability to sign in was changed.", User{}},
		{MembershipChanged, "A person was given a role in a tenant or project, or another one than before.", Membership{}},
		{MembershipRemoved, "A person lost the role in a tenant or project.", Membership{}},
		{ServiceAccountCreated, "A service account was created.", ServiceAccount{}},
		{ServiceAccountUpdated, "A service account was changed, enabled or disabled.", ServiceAccount{}},
		{ServiceAccountDeleted, "A service account was deleted.", ServiceAccount{}},
		{TokenCreated, "A token was issued.", Token{}},
		{TokenRevoked, "A token was revoked before its expiry.", Token{}},
		{SelfCheckRequested, "An operator asked for a round trip through the control plane.", SelfCheck{}},
		{SelfCheckFinished, "A self-check came to its end.", SelfCheck{}},
		{SiteCreated, "A MAAS site was created.", Site{}},
		{SiteUpdated, "A MAAS site, or what belongs to it, was changed.", Site{}},
		{SiteDeleted, "A MAAS site was deleted.", Site{}},
		{SiteCredentialsRotated, "Credentials of a MAAS site were written; the next use takes them.", SiteCredentials{}},
	}
}
