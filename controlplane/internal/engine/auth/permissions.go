package auth

import "slices"

// Permission is the right to do one kind of thing. Every operation of the API
// declares the one it needs.
type Permission string

// The permissions. Reading and changing are always separate.
const (
	AgentReleaseRead          Permission = "agent_release:read"
	AgentReleaseManage        Permission = "agent_release:manage" // what nodes may be given as their agent
	AgentRolloutRead          Permission = "agent_rollout:read"
	AgentRolloutManage        Permission = "agent_rollout:manage" // bring a release to nodes, and take it back
	AllocationRead            Permission = "allocation:read"
	AllocationUse             Permission = "allocation:use"    // ask for some, and use and release one's own
	AllocationManage          Permission = "allocation:manage" // those of others in the project, too
	AllocationForce           Permission = "allocation:force"  // end them whatever their tenant thinks
	ArtifactRead              Permission = "artifact:read"
	ArtifactManage            Permission = "artifact:manage"        // what nodes may fetch, and no longer
	ArtifactTrustManage       Permission = "artifact_trust:manage"  // whose signatures count
	ArtifactSourceManage      Permission = "artifact_source:manage" // logins that artifacts are read with
	AuditRead                 Permission = "audit:read"
	BillingRead               Permission = "billing:read"
	BillingManage             Permission = "billing:manage" // accounts, credits and corrections of tenants
	BudgetManage              Permission = "budget:manage"  // of projects
	CertificateRead           Permission = "certificate:read"
	DecommissionRead          Permission = "decommission:read"
	DecommissionManage        Permission = "decommission:manage"
	EventRead                 Permission = "event:read"
	LifecycleRead             Permission = "lifecycle:read"
	MemberRead                Permission = "member:read"
	MemberManage              Permission = "member:manage"
	NodeRead                  Permission = "node:read"
	NodeManage                Permission = "node:manage"
	NodeTaskRun               Permission = "node_task:run"
	OnboardingRead            Permission = "onboarding:read"
	OnboardingManage          Permission = "onboarding:manage"
	OperationDefinitionRead   Permission = "operation_definition:read"
	OperationDefinitionManage Permission = "operation_definition:manage" // what nodes can be made to do as root
	OperationPolicyRead       Permission = "operation_policy:read"
	OperationPolicyManage     Permission = "operation_policy:manage"
	OperationRead             Permission = "operation:read"
	OperationRun              Permission = "operation:run"    // on what one rents, and steer one's own runs
	OperationManage           Permission = "operation:manage" // runs of others in the project, too
	OperationRunOnFleet       Permission = "fleet_operation:run"
	OutboxRead                Permission = "outbox:read"
	OutboxManage              Permission = "outbox:manage"
	PriceManage               Permission = "price:manage"
	ProjectCreate             Permission = "project:create"
	ProjectRead               Permission = "project:read"
	ProjectUpdate             Permission = "project:update"
	PruningRead               Permission = "pruning:read"
	PruningRun                Permission = "pruning:run"
	QuotaRead                 Permission = "quota:read"
	ReservationRead           Permission = "reservation:read"
	ReservationManage         Permission = "reservation:manage"
	QuotaManage               Permission = "quota:manage" // of projects
	ReconciliationRead        Permission = "reconciliation:read"
	ReconciliationManage      Permission = "reconciliation:manage"
	SelfCheckRead             Permission = "self_check:read"
	SelfCheckRun              Permission = "self_check:run"
	ServiceAccountRead        Permission = "service_account:read"
	ServiceAccountManage      Permission = "service_account:manage"
	SignerRead                Permission = "signer:read"
	SignerManage              Permission = "signer:manage"
	SiteRead                  Permission = "site:read"
	SiteManage                Permission = "site:manage"
	SiteBundleManage          Permission = "site_bundle:manage"  // what machines run as root at their first boot
	SiteProfileManage         Permission = "site_profile:manage" // profiles and RoCE addresses, without credentials
	SKURead                   Permission = "sku:read"
	SKUManage                 Permission = "sku:manage"
	SSHKeyRead                Permission = "ssh_key:read"
	SSHKeyManage              Permission = "ssh_key:manage"
	SystemRead                Permission = "system:read"
	TenantCreate              Permission = "tenant:create"
	TenantRead                Permission = "tenant:read"
	TenantUpdate              Permission = "tenant:update"
	TenantQuotaManage         Permission = "tenant_quota:manage" // of tenants
	TerminalOpen              Permission = "terminal:open"
	UsageRead                 Permission = "usage:read" // what a project used and what that costs
	UserRead                  Permission = "user:read"
	UserManage                Permission = "user:manage"
	WebhookRead               Permission = "webhook:read" // not for viewers: addresses may hold secrets of receivers
	WebhookManage             Permission = "webhook:manage"
)

var (
	viewerMay = []Permission{
		TenantRead, ProjectRead, MemberRead, EventRead, LifecycleRead, QuotaRead, SKURead, SSHKeyRead,
		AllocationRead, CertificateRead, ReservationRead, OperationDefinitionRead, OperationPolicyRead, OperationRead,
		UsageRead, ArtifactRead,
	}
	memberMay = slices.Concat(viewerMay, []Permission{ServiceAccountRead, AllocationUse, OperationRun})
	adminMay  = slices.Concat(memberMay, []Permission{
		ProjectUpdate, MemberManage, ServiceAccountManage, SSHKeyManage,
		AllocationManage, OperationManage, WebhookRead, WebhookManage, ArtifactManage,
	})
	tenantMay = slices.Concat(adminMay, []Permission{
		TenantUpdate, ProjectCreate, QuotaManage, AuditRead, BillingRead, BudgetManage, OperationPolicyManage,
		ArtifactTrustManage, ArtifactSourceManage,
	})
	auditMay = []Permission{
		AgentReleaseRead, AgentRolloutRead, AllocationRead, ArtifactRead, AuditRead, BillingRead, CertificateRead,
		DecommissionRead,
		EventRead,
		LifecycleRead, MemberRead,
		NodeRead,
		OnboardingRead, OperationDefinitionRead, OperationPolicyRead, OperationRead, OutboxRead, ProjectRead, PruningRead,
		QuotaRead,
		ReservationRead,
		ReconciliationRead, SelfCheckRead, ServiceAccountRead, SignerRead, SiteRead, SKURead, SSHKeyRead, SystemRead,
		TenantRead, UsageRead, UserRead, WebhookRead,
	}
	// operateMay is everything about machines, and nothing about people, signers
	// and secrets. Whoever may change a site can send its credentials elsewhere.
	// Operators name the BMCs of machines, where MAAS then uses the password of the
	// site, and issue the tokens that machines enrol with.
	operateMay = []Permission{
		AgentReleaseRead, AgentRolloutRead, AgentRolloutManage, AllocationRead, AllocationForce, ArtifactRead, BillingRead,
		CertificateRead, DecommissionRead,
		DecommissionManage, EventRead,
		LifecycleRead, NodeRead, NodeManage, NodeTaskRun,
		OnboardingRead, OnboardingManage, OperationDefinitionRead, OperationPolicyRead, OperationRead,
		OperationRunOnFleet, OutboxRead, OutboxManage,
		ProjectRead, ReconciliationRead, ReconciliationManage, ReservationRead, ReservationManage,
		SelfCheckRead, SelfCheckRun, SiteRead, SiteProfileManage, SKURead, SystemRead, TenantRead, UsageRead,
	}
	platformMay = slices.Concat(tenantMay, auditMay, operateMay, []Permission{
		AgentReleaseManage, BillingManage, OperationDefinitionManage, PriceManage, PruningRun, SignerManage, SiteManage,
		SiteBundleManage,
		SKUManage, TenantCreate, TenantQuotaManage, TerminalOpen, UserManage,
	})
)

var grants = map[Role]map[Permission]bool{
	PlatformAdmin: set(platformMay),
	Operator:      set(operateMay),
	Auditor:       set(auditMay),
	TenantAdmin:   set(tenantMay),
	ProjectAdmin:  set(adminMay),
	ProjectMember: set(memberMay),
	ProjectViewer: set(viewerMay),
}

func set(list []Permission) map[Permission]bool {
	m := make(map[Permission]bool, len(list))
	for _, p := range list {
		m[p] = true
	}
	return m
}

// Grants reports whether a role includes a permission.
func Grants(role Role, p Permission) bool { return grants[role][p] }

// Permissions lists every permission anybody can hold, sorted.
func Permissions() []Permission {
	out := slices.Clone(platformMay)
	slices.Sort(out)
	return slices.Compact(out)
}
