package identity

import "gpuaas/controlplane/internal/base/lifecycle"

// ServiceAccountStatus says whether a service account may act.
type ServiceAccountStatus string

// The states of a service account.
const (
	ServiceAccountActive   ServiceAccountStatus = "active"
	ServiceAccountDisabled ServiceAccountStatus = "disabled"
	ServiceAccountDeleted  ServiceAccountStatus = "deleted"
)

// ServiceAccountEvent moves a service account from one state to another.
type ServiceAccountEvent string

// The events of a service account.
const (
	ServiceAccountDisable ServiceAccountEvent = "disable"
	ServiceAccountEnable  ServiceAccountEvent = "enable"
	ServiceAccountDelete  ServiceAccountEvent = "delete"
)

// ServiceAccountLifecycle is the lifecycle of a service account. A deleted one
// stays in the database, because the audit log refers to it.
var ServiceAccountLifecycle = lifecycle.Table[ServiceAccountStatus, ServiceAccountEvent]{
	Noun:    "service_account",
	Title:   "Service account lifecycle",
	Initial: []ServiceAccountStatus{ServiceAccountActive},
	States: []lifecycle.State[ServiceAccountStatus]{
		{Name: ServiceAccountActive, Meaning: "its tokens are accepted"},
		{Name: ServiceAccountDisabled, Meaning: "its tokens are refused until it is enabled again"},
		{Name: ServiceAccountDeleted, Meaning: "its tokens are revoked and its name is free again", Terminal: true},
	},
	Edges: []lifecycle.Edge[ServiceAccountStatus, ServiceAccountEvent]{
		{From: ServiceAccountActive, Event: ServiceAccountDisable, To: ServiceAccountDisabled, Owner: "identity"},
		{From: ServiceAccountDisabled, Event: ServiceAccountEnable, To: ServiceAccountActive, Owner: "identity"},
		{From: ServiceAccountActive, Event: ServiceAccountDelete, To: ServiceAccountDeleted, Owner: "identity"},
		{From: ServiceAccountDisabled, Event: ServiceAccountDelete, To: ServiceAccountDeleted, Owner: "identity"},
	},
}
