package auth_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
)

var (
	tenantA, tenantB       = id.New[id.Org](), id.New[id.Org]()
	projectA, otherProject = id.New[id.Project](), id.New[id.Project]()
)

// holder makes a principal that holds one role, on tenant A or project A where
// the role is not one of the platform.
func holder(role auth.Role) *auth.Principal {
	p := &auth.Principal{Kind: auth.KindUser, ID: "u"}
	switch role {
	case auth.PlatformAdmin, auth.Operator, auth.Auditor:
		p.Platform = role
	case auth.TenantAdmin:
		p.Tenants = map[id.Org]auth.Role{tenantA: role}
	case auth.ProjectAdmin, auth.ProjectMember, auth.ProjectViewer:
		p.Projects = map[id.Project]auth.ProjectRole{projectA: {Org: tenantA, Role: role}}
	case auth.NoRole:
	}
	return p
}

func TestEveryRoleOnEveryTarget(t *testing.T) {
	platform := auth.Target{}
	ownTenant := auth.Target{Org: tenantA}
	ownProject := auth.Target{Org: tenantA, Project: projectA}
	sibling := auth.Target{Org: tenantA, Project: otherProject}
	foreign := auth.Target{Org: tenantB}
	stolen := auth.Target{Org: tenantB, Project: projectA} // a project under a tenant it does not belong to
	const read, change = auth.ProjectRead, auth.ProjectUpdate
	for _, c := range []struct {
		role   auth.Role
		target auth.Target
		want   auth.Permission
		is     auth.Decision
	}{
		{auth.PlatformAdmin, platform, auth.TenantCreate, auth.Allowed},
		{auth.PlatformAdmin, foreign, change, auth.Allowed},
		{auth.Auditor, foreign, read, auth.Allowed},
		{auth.Auditor, foreign, change, auth.Denied},
		{auth.Auditor, platform, auth.OutboxManage, auth.Denied},
		{auth.Operator, platform, auth.NodeManage, auth.Allowed},
		{auth.Operator, foreign, read, auth.Allowed},
		{auth.Operator, foreign, change, auth.Denied},
		{auth.TenantAdmin, platform, auth.TenantCreate, auth.Denied},
		{auth.TenantAdmin, ownTenant, auth.TenantUpdate, auth.Allowed},
		{auth.TenantAdmin, ownProject, change, auth.Allowed},
		{auth.TenantAdmin, sibling, change, auth.Allowed},
		{auth.TenantAdmin, foreign, read, auth.Hidden},
		{auth.ProjectAdmin, ownProject, change, auth.Allowed},
		{auth.ProjectAdmin, ownTenant, auth.TenantRead, auth.Allowed},
		{auth.ProjectAdmin, ownTenant, auth.ProjectUpdate, auth.Denied},
		{auth.ProjectAdmin, sibling, read, auth.Hidden},
		{auth.ProjectAdmin, stolen, read, auth.Hidden},
		{auth.ProjectMember, ownProject, read, auth.Allowed},
		{auth.ProjectMember, ownProject, change, auth.Denied},
		{auth.ProjectViewer, ownProject, read, auth.Allowed},
		{auth.ProjectViewer, ownProject, auth.ServiceAccountRead, auth.Denied},
		{auth.ProjectViewer, foreign, read, auth.Hidden},
		{auth.NoRole, platform, read, auth.Denied},
		{auth.NoRole, ownProject, read, auth.Hidden},
	} {
		if got := holder(c.role).Decide(c.want, c.target); got != c.is {
			t.Errorf("%s wants %s on %+v: got %d, want %d", c.role, c.want, c.target, got, c.is)
		}
	}
}

func TestScopesOnlyNarrow(t *testing.T) {
	p := holder(auth.Auditor)
	p.Scopes = []auth.Permission{auth.AuditRead, auth.TenantCreate}
	if p.Decide(auth.AuditRead, auth.Target{}) != auth.Allowed {
		t.Error("scope took away what it names")
	}
	if p.Decide(auth.TenantCreate, auth.Target{}) != auth.Denied {
		t.Error("scope gave what the role does not hold")
	}
	if p.Decide(auth.OutboxRead, auth.Target{}) != auth.Denied || p.DecideAnywhere(auth.OutboxRead) != auth.Denied {
		t.Error("permission outside the scopes was allowed")
	}
}

func TestAuditorHoldsNoPermissionThatChanges(t *testing.T) {
	reads := map[auth.Permission]bool{}
	for _, p := range auth.Permissions() {
		if auth.Grants(auth.Auditor, p) {
			reads[p] = true
		}
	}
	for p := range reads {
		if s := string(p); len(s) < 5 || s[len(s)-5:] != ":read" {
			t.Errorf("auditor may %s", p)
		}
	}
	for _, p := range auth.Permissions() {
		if s := string(p); s[len(s)-5:] == ":read" && !reads[p] {
			t.Errorf("auditor may not %s", p)
		}
	}
}

// An operator has to do with machines: nothing that is about people, signers or
// secrets is among the permissions.
func TestOperatorHoldsNothingAboutPeopleSignersAndSecrets(t *testing.T) {
	for _, p := range auth.Permissions() {
		area, verb, _ := strings.Cut(string(p), ":")
		switch area {
		case "audit", "budget", "member", "price", "pruning", "quota", "service_account", "signer", "site_bundle", "ssh_key",
			"tenant_quota", "terminal", "user", "webhook":
			if auth.Grants(auth.Operator, p) {
				t.Errorf("an operator may %s", p)
			}
		case "agent_rollout", "certificate", "decommission", "event", "fleet_operation", "lifecycle", "node", "node_task",
			"onboarding",
			"outbox", "reconciliation", "reservation", "self_check", "site_profile", "system":
			if !auth.Grants(auth.Operator, p) {
				t.Errorf("an operator may not %s", p)
			}
		// Credentials lie in sites, prices in SKUs, and what nodes do as root in definitions
		// and releases.
		case "agent_release", "artifact", "artifact_trust", "artifact_source", "billing", "operation", "operation_definition",
			"operation_policy", "project", "site", "sku", "tenant", "usage":
			if auth.Grants(auth.Operator, p) != (verb == "read") {
				t.Errorf("an operator holding %s is %t", p, verb != "read")
			}
		case "allocation": // operators end one for good, and neither ask for one nor use it
			if auth.Grants(auth.Operator, p) != (verb == "read" || verb == "force") {
				t.Errorf("an operator holding %s is %t", p, verb != "read" && verb != "force")
			}
		default:
			t.Errorf("nobody has decided what an operator may do with %s: add the noun to one of the cases", area)
		}
	}
}

// An operator who is tenant_admin of a tenant holds both roles there, and the
// second nowhere else. An auditor changes nothing, whatever else they are.
func TestRolesOfOperatorsAddUp(t *testing.T) {
	own, foreign := auth.Target{Org: tenantA}, auth.Target{Org: tenantB}
	for platform, is := range map[auth.Role]auth.Decision{auth.Operator: auth.Allowed, auth.Auditor: auth.Denied} {
		p := holder(auth.TenantAdmin)
		p.Platform = platform
		if p.Decide(auth.TenantUpdate, own) != is || p.Decide(auth.NodeRead, own) != auth.Allowed {
			t.Errorf("%s who is tenant_admin may change the tenant: %t", platform, is != auth.Allowed)
		}
		if p.Decide(auth.TenantUpdate, foreign) != auth.Denied || p.Decide(auth.TenantUpdate, auth.Target{}) != auth.Denied {
			t.Errorf("%s who is tenant_admin of one tenant holds that role elsewhere", platform)
		}
		if p.DecideAnywhere(auth.MemberManage) != is {
			t.Errorf("%s who is tenant_admin may manage members somewhere: %t", platform, is != auth.Allowed)
		}
		if p.SeesAll(auth.AuditRead) != (platform == auth.Auditor) {
			t.Errorf("%s who is tenant_admin sees the whole audit log: %t", platform, platform != auth.Auditor)
		}
	}
}

func TestAgentsAndWorkflowsActAsWhatTheyAre(t *testing.T) {
	for want, p := range map[string]*auth.Principal{
		"node": auth.Node(id.New[id.Node]()), "system": auth.System("workflow:x"), "operator": holder(auth.Operator),
		"none": auth.Anonymous(),
	} {
		if got := p.ActsAs(auth.Target{}); got != want {
			t.Errorf("%s acts as %s, want %s", p.ID, got, want)
		}
	}
	for _, p := range auth.Permissions() {
		if auth.Node(id.New[id.Node]()).DecideAnywhere(p) == auth.Allowed {
			t.Errorf("the agent of a node may %s", p)
		}
	}
}

func TestAnonymousMayNothing(t *testing.T) {
	for _, p := range auth.Permissions() {
		if auth.Anonymous().Decide(p, auth.Target{}) == auth.Allowed || auth.Anonymous().DecideAnywhere(p) == auth.Allowed {
			t.Errorf("anonymous may %s", p)
		}
	}
}
