package artifact

import "gpuaas/controlplane/internal/base/lifecycle"

// Status is the state of an artifact.
type Status string

// The states of an artifact.
const (
	Active     Status = "active"
	Deprecated Status = "deprecated"
	Revoked    Status = "revoked"
	Retired    Status = "retired"
)

// Event moves an artifact from one state to another.
type Event string

// The events of an artifact.
const (
	Deprecate Event = "deprecate"
	Revoke    Event = "revoke"
	Retire    Event = "retire"
)

const owner = "its owner"

// Lifecycle is the lifecycle of an artifact.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "artifact", Title: "Artifact lifecycle", Initial: []Status{Active},
	States: []lifecycle.State[Status]{
		{Name: Active, Meaning: "can be fetched; its signature counts if it is verified", Tone: lifecycle.OK},
		{Name: Deprecated, Meaning: "can still be fetched; another should be used", Tone: lifecycle.Warn},
		{
			Name: Revoked, Meaning: "no run fetches its digest any more, from wherever that would be", Terminal: true,
			Tone: lifecycle.Bad,
		},
		{
			Name: Retired, Meaning: "is kept for the record only, as if it had never been registered; it can still be revoked",
			Tone: lifecycle.Idle,
		},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Active, Event: Deprecate, To: Deprecated, Owner: owner},
		{From: Active, Event: Revoke, To: Revoked, Owner: owner},
		{From: Active, Event: Retire, To: Retired, Owner: owner},
		{From: Deprecated, Event: Revoke, To: Revoked, Owner: owner},
		{From: Deprecated, Event: Retire, To: Retired, Owner: owner},
		{From: Retired, Event: Revoke, To: Revoked, Owner: owner},
	},
}
