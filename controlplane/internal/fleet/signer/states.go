package signer

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of a signer.
type Status string

// The states of a signer.
const (
	Staged  Status = "staged"
	Active  Status = "active"
	Grace   Status = "grace"
	Retired Status = "retired"
	Revoked Status = "revoked"
)

// Event moves a signer from one status to another.
type Event string

// The events of a signer.
const (
	Promote   Event = "promote"
	Supersede Event = "supersede"
	Rollback  Event = "rollback"
	Retire    Event = "retire"
	Revoke    Event = "revoke"
)

// Lifecycle is the lifecycle of a signer. The very first signer begins as
// active, and so does one that replaces a revoked signer in an emergency.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "signer", Title: "Signer lifecycle", Initial: []Status{Staged, Active},
	States: []lifecycle.State[Status]{
		{Name: Staged, Meaning: "does not sign yet; nodes learn to accept it", StuckAfter: 24 * time.Hour},
		{Name: Active, Meaning: "the one that signs; nodes accept it"},
		{Name: Grace, Meaning: "signs no more; nodes still accept it, and it can be brought back"},
		{Name: Retired, Meaning: "nodes do not accept it any more", Terminal: true},
		{Name: Revoked, Meaning: "must not be believed: nodes refuse it by name", Terminal: true},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Staged, Event: Promote, To: Active, Owner: "signer tending, or an operator by force"},
		{From: Active, Event: Supersede, To: Grace, Owner: "signer tending, or an operator"},
		{From: Grace, Event: Rollback, To: Active, Owner: "operator"},
		{From: Grace, Event: Retire, To: Retired, Owner: "signer tending, or an operator by force"},
		{From: Staged, Event: Revoke, To: Revoked, Owner: "operator"},
		{From: Active, Event: Revoke, To: Revoked, Owner: "operator"},
		{From: Grace, Event: Revoke, To: Revoked, Owner: "operator"},
	},
}
