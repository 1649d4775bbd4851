package eventwire

import "time"

// The event types.
const (
	TenantCreated         Type = "tenant.created"
	TenantUpdated         Type = "tenant.updated"
	TenantDisabled        Type = "tenant.disabled"
	TenantEnabled         Type = "tenant.enabled"
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
	TokenExpiring         Type = "token.expiring" //nolint:gosec // the name of an event, not a credential

	AllocationRequested   Type = "provisioning.requested"
	AllocationActive      Type = "provisioning.active"
	AllocationFailed      Type = "provisioning.failed"
	AllocationReleasing   Type = "provisioning.releasing.requested"
	AllocationReleased    Type = "provisioning.releasing.completed"
	AllocationParked      Type = "provisioning.release_failed"
	AllocationForced      Type = "provisioning.force_release_requested"
	AllocationExpiring    Type = "allocation.expiring"
	AllocationRepairBegan Type = "allocation.repair_began"
	AllocationRepairEnded Type = "allocation.repair_ended"

	AllocationHostKeysChanged Type = "allocation.host_keys_changed"

	MaintenanceAnnounced Type = "allocation.maintenance_announced"
	MaintenanceAnswered  Type = "allocation.maintenance_answered"
	MaintenanceDue       Type = "allocation.maintenance_due"
	MaintenanceBegan     Type = "allocation.maintenance_began"
	MaintenanceEnded     Type = "allocation.maintenance_ended"

	ReservationCreated   Type = "reservation.created"
	ReservationCancelled Type = "reservation.cancelled"

	AllocationRequestWaiting   Type = "allocation_request.waiting"
	AllocationRequestPlaced    Type = "allocation_request.placed"
	AllocationRequestCancelled Type = "allocation_request.cancelled"
	AllocationRequestExpired   Type = "allocation_request.expired"
	AllocationRequestRefused   Type = "allocation_request.refused"
	WebhookCreated             Type = "webhook.created"
	WebhookUpdated             Type = "webhook.updated"
	WebhookDeleted             Type = "webhook.deleted"
	WebhookDisabled            Type = "webhook.disabled"
	WebhookTest                Type = "webhook.test"
	SelfCheckRequested         Type = "self_check.requested"
	SelfCheckFinished          Type = "self_check.finished"

	SiteCreated            Type = "site.created"
	SiteUpdated            Type = "site.updated"
	SiteDeleted            Type = "site.deleted"
	SiteCredentialsRotated Type = "site.credentials_rotated"

	NodeCreated          Type = "node.created"
	NodeUpdated          Type = "node.updated"
	NodeHostKeysChanged  Type = "node.host_keys_changed"
	NodeStateChanged     Type = "node.state_changed"
	NodeEnrolled         Type = "node.enrolled"
	NodeIdentityConflict Type = "node.identity_conflict"
	NodeIdentityRevoked  Type = "node.identity_revoked"

	NodeTaskQueued   Type = "node_task.queued"
	NodeTaskFinished Type = "node_task.finished"

	NodeOnboardingStarted     Type = "node.onboarding.started"
	NodeOnboardingStage       Type = "node.onboarding.stage"
	NodeOnboardingCompleted   Type = "node.onboarding.completed"
	NodeOnboardingFailed      Type = "node.onboarding.failed"
	NodeOnboardingManual      Type = "node.onboarding.manual_intervention_required"
	NodeOnboardingCancelled   Type = "node.onboarding.cancelled"
	NodeDecommissionStarted   Type = "node.decommission.started"
	NodeDecommissionStage     Type = "node.decommission.stage"
	NodeDecommissionCompleted Type = "node.decommission.completed"
	NodeDecommissionFailed    Type = "node.decommission.failed"
	NodeDecommissionManual    Type = "node.decommission.manual_intervention_required"
	NodeDecommissionCancelled Type = "node.decommission.cancelled"
	NodeCertificateIssued     Type = "node.certificate.issued"

	NodeDriftDetected           Type = "node.drift.detected"
	NodeDriftActed              Type = "node.drift.acted"
	NodeDriftResolved           Type = "node.drift.resolved"
	ReconciliationBreakerOpened Type = "reconciliation.breaker_opened"
	ReconciliationBreakerClosed Type = "reconciliation.breaker_closed"
	ReconciliationSiteUnheard   Type = "reconciliation.site_unheard"
	ReconciliationSiteHeard     Type = "reconciliation.site_heard"

	SignerChanged Type = "signer.changed"

	TerminalSessionOpened Type = "terminal_session.opened"
	TerminalSessionClosed Type = "terminal_session.closed"
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
	PlatformRole string `json:"platform_role,omitempty" words:"platform_role" doc:"absent when the user holds no role on the platform"`
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
	Status           string `json:"status" words:"service_account"`
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

// Reservation is the payload of events about capacity kept for a tenant or a project.
type Reservation struct {
	ReservationID string    `json:"reservation_id"`
	State         string    `json:"state"`
	SKU           string    `json:"sku"`
	Nodes         int32     `json:"nodes"`
	Region        string    `json:"region,omitempty"`
	StartsAt      time.Time `json:"starts_at"`
	EndsAt        time.Time `json:"ends_at"`
}

// AllocationRequest is the payload of events about requests that wait for capacity.
type AllocationRequest struct {
	RequestID     string    `json:"request_id" format:"uuid"`
	Status        string    `json:"status" words:"allocation_request"`
	Name          string    `json:"name,omitempty"`
	SKU           string    `json:"sku"`
	Count         int32     `json:"count" doc:"nodes that it asks for"`
	Region        string    `json:"region,omitempty" doc:"absent: any"`
	RequestedBy   string    `json:"requested_by" doc:"id of who asked"`
	WaitUntil     time.Time `json:"wait_until"`
	AllocationIDs []string  `json:"allocation_ids,omitempty" doc:"what it became; absent: nothing"`
	Code          string    `json:"code,omitempty" doc:"why it ended without"`
	Message       string    `json:"message,omitempty"`
	Remedy        string    `json:"remedy,omitempty"`
}

// Allocation is the payload of events about what tenants rent.
type Allocation struct {
	AllocationID string     `json:"allocation_id" format:"uuid"`
	GroupID      string     `json:"group_id,omitempty" format:"uuid" doc:"the allocations that it was asked for with; absent: none"`
	Name         string     `json:"name,omitempty"`
	Status       string     `json:"status" words:"allocation"`
	SKU          string     `json:"sku"`
	GPUs         int32      `json:"gpus"`
	NodeID       string     `json:"node_id" format:"uuid"`
	RequestedBy  string     `json:"requested_by" doc:"id of the principal who asked for it"`
	ActiveAt     *time.Time `json:"active_at,omitempty" doc:"since when its tenant can use it; absent: never"`
	// ReleaseRequestedAt ends what is charged.
	ReleaseRequestedAt *time.Time `json:"release_requested_at,omitempty" doc:"when its end was first asked for; absent: it was not"`
	ExpiresAt          *time.Time `json:"expires_at,omitempty" doc:"when it ends by itself; absent: never"`
	Code               string     `json:"code,omitempty" doc:"why it failed; absent: it did not"`
	Message            string     `json:"message,omitempty" doc:"what happened, for people"`
	Remedy             string     `json:"remedy,omitempty"`
}

// AllocationRepair is the payload of events about repairs that a tenant keeps its
// node through.
type AllocationRepair struct {
	AllocationID  string     `json:"allocation_id" format:"uuid"`
	Name          string     `json:"name,omitempty" doc:"of the allocation"`
	NodeID        string     `json:"node_id" format:"uuid"`
	MaintenanceID string     `json:"maintenance_id,omitempty" format:"uuid" doc:"the maintenance that announced it; absent: none did"`
	BeganAt       time.Time  `json:"began_at"`
	EndedAt       *time.Time `json:"ended_at,omitempty" doc:"absent: it goes on"`
	Message       string     `json:"message" doc:"what happened, for people"`
}

// Maintenance is the payload of events about announced maintenance.
type Maintenance struct {
	MaintenanceID string    `json:"maintenance_id" format:"uuid"`
	AllocationID  string    `json:"allocation_id" format:"uuid"`
	NodeID        string    `json:"node_id" format:"uuid"`
	Status        string    `json:"status" words:"maintenance"`
	Kind          string    `json:"kind" enum:"release,reboot,pause" doc:"release: the allocation ends at due_at; reboot, pause: the tenant keeps it"`
	ConsentAsked  bool      `json:"consent_asked" doc:"whether nothing happens without the consent of the tenant"`
	NotBefore     time.Time `json:"not_before"`
	DueAt         time.Time `json:"due_at"`
	Reason        string    `json:"reason" doc:"why, for the tenant"`
	Message       string    `json:"message" doc:"what happened, for people"`
}

// Webhook is the payload of events about webhooks. It holds neither the address nor
// the secret.
type Webhook struct {
	WebhookID string `json:"webhook_id" format:"uuid"`
	Name      string `json:"name"`
	Status    string `json:"status" enum:"enabled,disabled"`
	Reason    string `json:"reason,omitempty" doc:"why it is disabled; absent: it is not"`
}

// SelfCheck is the payload of self-check events.
type SelfCheck struct {
	SelfCheckID string `json:"self_check_id" format:"uuid"`
	Status      string `json:"status" words:"self_check"`
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

// SiteCredentials is the payload of the event about new credentials. It holds
// none of them.
type SiteCredentials struct {
	SiteID          string    `json:"site_id" format:"uuid"`
	Credentials     []string  `json:"credentials" doc:"which were written: api_token, power, deploy_password or power_override"`
	PowerOverrideID string    `json:"power_override_id,omitempty" format:"uuid" doc:"the override whose credentials were written"`
	RotatedAt       time.Time `json:"rotated_at"`
}

// Node is the payload of node events.
type Node struct {
	NodeID      string `json:"node_id" format:"uuid"`
	Hostname    string `json:"hostname"`
	RegionCode  string `json:"region_code"`
	SKUID       string `json:"sku_id"`
	Status      string `json:"status" words:"node"`
	PriorStatus string `json:"prior_status,omitempty" doc:"the state before; absent when the state did not change"`
	Schedulable bool   `json:"schedulable"`
	Cause       string `json:"cause" doc:"why it changed, for people"`
	Version     int64  `json:"version" doc:"grows with every change of the node"`
}

// NodeTask is the payload of events about tasks of nodes. It never holds
// parameters or results.
type NodeTask struct {
	TaskID    string `json:"task_id" format:"uuid"`
	NodeID    string `json:"node_id" format:"uuid"`
	TaskType  string `json:"task_type"`
	Status    string `json:"status" words:"node_task"`
	ErrorCode string `json:"error_code,omitempty"`
	Attempt   int    `json:"attempt"`
}

// Onboarding is the payload of events about machines that are becoming nodes.
type Onboarding struct {
	OnboardingID      string `json:"onboarding_id" format:"uuid"`
	BatchID           string `json:"batch_id,omitempty" format:"uuid" doc:"the batch it was asked for with; absent: it is on its own"`
	SiteID            string `json:"site_id" format:"uuid"`
	NodeID            string `json:"node_id" format:"uuid" doc:"id that the node has, or will have once it is made"`
	Hostname          string `json:"hostname"`
	Status            string `json:"status" words:"job"`
	Stage             string `json:"stage" doc:"the stage that the event is about"`
	Attempt           int    `json:"attempt" doc:"which attempt at the stage it is"`
	Epoch             int64  `json:"epoch,omitempty" doc:"grows with every action of an operator; absent in events of earlier versions"`
	StageStatus       string `json:"stage_status,omitempty" enum:"started,succeeded,failed,skipped,compensated,action,note,observed" doc:"how the stage is getting on"`
	FailureClass      string `json:"failure_class,omitempty" doc:"what sort of failure it is; absent when nothing failed"`
	ErrorCode         string `json:"error_code,omitempty"`
	Message           string `json:"message,omitempty" doc:"what happened, for people"`
	RecommendedAction string `json:"recommended_action,omitempty" doc:"what an operator does best now; absent when there is nothing to do"`
}

// Decommission is the payload of events about operations that clean, put aside
// or remove a node.
type Decommission struct {
	DecommissionID    string `json:"decommission_id" format:"uuid"`
	BatchID           string `json:"batch_id,omitempty" format:"uuid" doc:"the batch it was asked for with; absent: it is on its own"`
	NodeID            string `json:"node_id" format:"uuid"`
	Hostname          string `json:"hostname"`
	Mode              string `json:"mode" words:"decommission_mode"`
	Status            string `json:"status" words:"job"`
	Stage             string `json:"stage" doc:"the stage that the event is about"`
	Attempt           int    `json:"attempt" doc:"which attempt at the stage it is"`
	Epoch             int64  `json:"epoch,omitempty" doc:"grows with every action of an operator; absent in events of earlier versions"`
	StageStatus       string `json:"stage_status,omitempty" enum:"started,succeeded,failed,skipped,compensated,action,note,observed" doc:"how the stage is getting on"`
	FailureClass      string `json:"failure_class,omitempty" doc:"what sort of failure it is; absent when nothing failed"`
	ErrorCode         string `json:"error_code,omitempty"`
	Message           string `json:"message,omitempty" doc:"what happened, for people"`
	RecommendedAction string `json:"recommended_action,omitempty" doc:"what an operator does best now; absent when there is nothing to do"`
	Outcome           string `json:"outcome,omitempty" enum:"clean,with_gaps" doc:"of one that reached its goal: with_gaps says that less was done than was asked for; absent before that and in events of earlier versions"`
}

// Certificate is the payload of events about certificates and handover receipts.
type Certificate struct {
	CertificateID  string `json:"certificate_id" format:"uuid"`
	NodeID         string `json:"node_id" format:"uuid"`
	DecommissionID string `json:"decommission_id" format:"uuid"`
	Kind           string `json:"kind" enum:"certificate,handover_receipt"`
	Seq            int    `json:"seq" doc:"which one of the node it is, from 1"`
	Digest         string `json:"digest" doc:"of the signed document; the next one of the node names it"`
}

// Drift is the payload of events about findings of reconciliation: where MAAS,
// the agents and the inventory disagree. A finding need not be about a node.
type Drift struct {
	FindingID     string `json:"finding_id" format:"uuid"`
	Finding       string `json:"finding" doc:"what kind of finding it is"`
	Severity      string `json:"severity" enum:"debug,info,warning,critical"`
	Status        string `json:"status" words:"finding"`
	SiteID        string `json:"site_id" format:"uuid"`
	NodeID        string `json:"node_id,omitempty" format:"uuid" doc:"absent: it is not about a node"`
	Hostname      string `json:"hostname,omitempty"`
	MAASSystemID  string `json:"maas_system_id,omitempty" doc:"the machine of MAAS; absent: it is not about a machine"`
	Expected      string `json:"expected"`
	Observed      string `json:"observed"`
	Message       string `json:"message" doc:"what happened, for people"`
	Action        string `json:"action,omitempty" doc:"what reconciliation does about it by itself; absent: nothing"`
	Withheld      string `json:"withheld,omitempty" doc:"why it does not; absent: nothing is in the way"`
	Occurrence    int    `json:"occurrence" doc:"the how manieth of its kind this is for its subject, within a month"`
	ClosedBecause string `json:"closed_because,omitempty" doc:"why it is over; absent: it is not"`
	Remedy        string `json:"remedy,omitempty" doc:"the command that an operator does best now; absent when there is nothing to do"`
}

// SiteReconciliation is the payload of events about the reconciliation of a whole
// site.
type SiteReconciliation struct {
	SiteID   string    `json:"site_id" format:"uuid"`
	Name     string    `json:"name"`
	Severity string    `json:"severity" enum:"debug,info,warning,critical"`
	Since    time.Time `json:"since" doc:"since when it is so, or was"`
	NodeIDs  []string  `json:"node_ids,omitempty" doc:"the nodes that would have been quarantined; absent: it is not about that"`
	Message  string    `json:"message" doc:"what happened, for people"`
	Remedy   string    `json:"remedy,omitempty" doc:"the command that an operator does best now; absent when there is nothing to do"`
}

// Signer is the payload of events about the keys that sign tasks.
type Signer struct {
	SignerVersionID string `json:"signer_version_id"`
	Status          string `json:"status" words:"signer"`
	VerifierVersion int64  `json:"verifier_version" doc:"version of the set of verifiers that nodes are to use now"`
}

// TerminalSession is the payload of events about interactive sessions.
type TerminalSession struct {
	SessionID   string `json:"session_id" format:"uuid"`
	NodeID      string `json:"node_id" format:"uuid"`
	Username    string `json:"username"`
	RequestedBy string `json:"requested_by" doc:"id of the principal who asked for it"`
	Reason      string `json:"reason,omitempty" doc:"why it ended"`
}

// Events lists every event of the contract. The AsyncAPI document is generated
// from it, and the outbox refuses to append what is not in it.
func Events() []Definition {
	return append(append(operationEvents(), agentEvents()...), []Definition{
		{TenantCreated, ToTenant, "A tenant was created.", Tenant{}},
		{TenantUpdated, ToTenant, "A tenant was changed.", Tenant{}},
		{TenantDisabled, ToTenant, "A tenant gets nothing new from now on.", Tenant{}},
		{TenantEnabled, ToTenant, "A tenant may ask for something new again.", Tenant{}},
		{ProjectCreated, ToProject, "A project was created.", Project{}},
		{ProjectUpdated, ToProject, "A project was changed.", Project{}},
		{UserCreated, ToPlatform, "A person became known: invited, or signed in for the first time.", User{}},
		{UserUpdated, ToPlatform, "A person's name, role on the platform or ability to sign in was changed.", User{}},
		{MembershipChanged, ToProject, "A person was given a role in a tenant or project, or another one than before.", Membership{}},
		{MembershipRemoved, ToProject, "A person lost the role in a tenant or project.", Membership{}},
		{ServiceAccountCreated, ToProject, "A service account was created.", ServiceAccount{}},
		{ServiceAccountUpdated, ToProject, "A service account was changed, enabled or disabled.", ServiceAccount{}},
		{ServiceAccountDeleted, ToProject, "A service account was deleted.", ServiceAccount{}},
		{TokenCreated, ToProject, "A token was issued.", Token{}},
		{TokenRevoked, ToProject, "A token was revoked before its expiry.", Token{}},
		{TokenExpiring, ToPlatform, "The last token by which somebody can administer the platform ends soon; told daily.", Token{}},
		{AllocationRequested, ToProject, "Somebody asked for an allocation, and a node is reserved for it.", Allocation{}},
		{AllocationActive, ToProject, "The tenant of an allocation can use it.", Allocation{}},
		{AllocationFailed, ToProject, "An allocation could not be provided, or was cancelled before it was; nothing is charged.", Allocation{}},
		{AllocationReleasing, ToProject, "An allocation ends: its tenant does not pay any more, and its node is cleaned.", Allocation{}},
		{AllocationReleased, ToProject, "The node of an allocation is proven clean, or left the fleet.", Allocation{}},
		{AllocationParked, ToProject, "Cleaning the node of an allocation stopped and waits for somebody.", Allocation{}},
		{AllocationForced, ToProject, "An administrator ended an allocation, or its tenant cannot pay it any more.", Allocation{}},
		{AllocationExpiring, ToProject, "An allocation ends by itself soon: 24 hours, 1 hour or 10 minutes from now.", Allocation{}},
		{AllocationRepairBegan, ToProject, "The node of an allocation is being repaired; its tenant keeps it.", AllocationRepair{}},
		{AllocationHostKeysChanged, ToProject, "The node of an allocation shows other SSH host keys than its tenant was told.", Allocation{}},
		{AllocationRepairEnded, ToProject, "The node of an allocation is repaired, or its tenant has left meanwhile.", AllocationRepair{}},
		{MaintenanceAnnounced, ToProject, "Maintenance of the node of an allocation is announced to its tenant.", Maintenance{}},
		{MaintenanceAnswered, ToProject, "The tenant of an allocation agreed to announced maintenance, or declined it.", Maintenance{}},
		{MaintenanceDue, ToProject, "Announced maintenance is near: 24 hours, 1 hour or 10 minutes from now.", Maintenance{}},
		{MaintenanceBegan, ToProject, "Announced maintenance has begun; of kind release the allocation has ended.", Maintenance{}},
		{MaintenanceEnded, ToProject, "Announced maintenance is done, was cancelled, or its time has passed.", Maintenance{}},
		{ReservationCreated, ToProject, "Nodes are kept for a tenant or a project in a time window.", Reservation{}},
		{ReservationCancelled, ToProject, "A reservation was ended before its time.", Reservation{}},
		{AllocationRequestWaiting, ToProject, "A request for nodes found no capacity and waits for it.", AllocationRequest{}},
		{AllocationRequestPlaced, ToProject, "A request that waited has its nodes: the allocations exist.", AllocationRequest{}},
		{AllocationRequestCancelled, ToProject, "Somebody took a request back that waited.", AllocationRequest{}},
		{AllocationRequestExpired, ToProject, "There was no capacity for as long as a request waited.", AllocationRequest{}},
		{AllocationRequestRefused, ToProject, "A request that waited may not be placed any more, for another reason than capacity.", AllocationRequest{}},
		{WebhookCreated, ToProject, "A project wants to be told its events at an address.", Webhook{}},
		{WebhookUpdated, ToProject, "A webhook was changed, disabled or enabled, or has another secret.", Webhook{}},
		{WebhookDeleted, ToProject, "A webhook was deleted.", Webhook{}},
		{WebhookDisabled, ToProject, "A webhook is told nothing any more, because its receiver only failed or asked for it.", Webhook{}},
		{WebhookTest, ToProject, "Somebody tries a webhook. Only that webhook is told; it is in no stream.", Webhook{}},
		{SelfCheckRequested, ToPlatform, "An operator asked for a round trip through the control plane.", SelfCheck{}},
		{SelfCheckFinished, ToPlatform, "A self-check came to its end.", SelfCheck{}},
		{SiteCreated, ToPlatform, "A MAAS site was created.", Site{}},
		{SiteUpdated, ToPlatform, "A MAAS site, or what belongs to it, was changed.", Site{}},
		{SiteDeleted, ToPlatform, "A MAAS site was deleted.", Site{}},
		{SiteCredentialsRotated, ToPlatform, "Credentials of a MAAS site were written; the next use takes them.", SiteCredentials{}},
		{SKUChanged, ToPlatform, "The catalog of what can be rented was changed.", SKU{}},
		{PriceChanged, ToPlatform, "A price of a SKU was set, or withdrawn before it began.", Price{}},
		{BalanceCredited, ToTenant, "A tenant was given money.", Credit{}},
		{LedgerCorrected, ToTenant, "An entry of the ledger of a tenant was taken back, a credit or a charge.", LedgerCorrection{}},
		{BalanceLow, ToTenant, "What a tenant has left is below its threshold; told once until it was above again.", Balance{}},
		{BalanceEnding, ToTenant, "What a tenant has left ends soon: its allocations will be released.", Balance{}},
		{BalanceDepleted, ToTenant, "A tenant has nothing left: nothing new is let to it, and its allocations are released after its grace period.", Balance{}},
		{BudgetReached, ToProject, "A project has spent a percentage of its budget; told once in a period.", Budget{}},
		{NodeCreated, ToPlatform, "A node was added to the inventory.", Node{}},
		{NodeUpdated, ToPlatform, "Facts of a node were changed; its state was not.", Node{}},
		{NodeHostKeysChanged, ToPlatform, "The SSH server of a node that a tenant has access to shows other host keys, although the node was not reinstalled.", Node{}},
		{NodeStateChanged, ToPlatform, "A node moved to another state.", Node{}},
		{NodeEnrolled, ToPlatform, "The agent of a node was given a certificate.", Node{}},
		{NodeIdentityConflict, ToPlatform, "Two machines or processes use the identity of one node; the second was refused.", Node{}},
		{NodeIdentityRevoked, ToPlatform, "The certificates of a node were revoked.", Node{}},
		{NodeTaskQueued, ToPlatform, "A node is to do something.", NodeTask{}},
		{NodeTaskFinished, ToPlatform, "A task of a node came to its end.", NodeTask{}},
		{NodeOnboardingStarted, ToPlatform, "A machine is being onboarded.", Onboarding{}},
		{NodeOnboardingStage, ToPlatform, "A stage of an onboarding began, ended or has something to say.", Onboarding{}},
		{NodeOnboardingCompleted, ToPlatform, "A machine was onboarded: its node is active.", Onboarding{}},
		{NodeOnboardingFailed, ToPlatform, "An onboarding is parked; a safe way to go on exists.", Onboarding{}},
		{NodeOnboardingManual, ToPlatform, "An onboarding is parked; an operator must decide.", Onboarding{}},
		{NodeOnboardingCancelled, ToPlatform, "An onboarding was stopped on request.", Onboarding{}},
		{NodeDecommissionStarted, ToPlatform, "A node is being cleaned, put aside or removed.", Decommission{}},
		{NodeDecommissionStage, ToPlatform, "A stage of a decommission began, ended or has something to say.", Decommission{}},
		{NodeDecommissionCompleted, ToPlatform, "A decommission reached its goal.", Decommission{}},
		{NodeDecommissionFailed, ToPlatform, "A decommission is parked; a safe way to go on exists.", Decommission{}},
		{NodeDecommissionManual, ToPlatform, "A decommission is parked; an operator must decide.", Decommission{}},
		{NodeDecommissionCancelled, ToPlatform, "A decommission was stopped on request.", Decommission{}},
		{NodeCertificateIssued, ToPlatform, "The evidence of a cleaning was signed and issued.", Certificate{}},
		{
			NodeDriftDetected, ToPlatform,
			"MAAS, the agents and the inventory disagree about a node, a machine or a setting, and that is believed.",
			Drift{},
		},
		{NodeDriftActed, ToPlatform, "Reconciliation did what it does by itself about a disagreement.", Drift{}},
		{NodeDriftResolved, ToPlatform, "A disagreement is over: a look did not show it any more, or somebody settled it.", Drift{}},
		{ReconciliationBreakerOpened, ToPlatform, "Too many nodes of a site would have been quarantined; none was, and an operator " +
			"must decide.", SiteReconciliation{}},
		{
			ReconciliationBreakerClosed, ToPlatform, "Nodes of a site are quarantined again where that is due.",
			SiteReconciliation{},
		},
		{
			ReconciliationSiteUnheard, ToPlatform, "MAAS of a site has not answered for long; what happens there is not known.",
			SiteReconciliation{},
		},
		{ReconciliationSiteHeard, ToPlatform, "MAAS of a site answers again.", SiteReconciliation{}},
		{SignerChanged, ToPlatform, "A key that tasks are signed with moved to another state.", Signer{}},
		{TerminalSessionOpened, ToPlatform, "An interactive session on a node began.", TerminalSession{}},
		{TerminalSessionClosed, ToPlatform, "An interactive session on a node ended.", TerminalSession{}},
	}...)
}
