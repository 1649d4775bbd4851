package outbox

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status says how far a message of the outbox has come.
type Status string

// The statuses.
const (
	Pending   Status = "pending"
	Published Status = "published"
	Failed    Status = "failed"
	Discarded Status = "discarded"
)

// Transition moves a message of the outbox from one status to another.
type Transition string

// The transitions.
const (
	Publish Transition = "publish"
	GiveUp  Transition = "give_up"
	Requeue Transition = "requeue"
	Discard Transition = "discard"
)

// Lifecycle is the lifecycle of a message of the outbox.
var Lifecycle = lifecycle.Table[Status, Transition]{
	Noun:    "outbox_event",
	Title:   "Outbox event",
	Initial: []Status{Pending},
	States: []lifecycle.State[Status]{
		{Name: Pending, Meaning: "committed, and not yet accepted by its destination", StuckAfter: 10 * time.Minute},
		{Name: Published, Meaning: "accepted by its destination", Terminal: true},
		{Name: Failed, Meaning: "refused by its destination at every attempt; waits for an operator"},
		{Name: Discarded, Meaning: "an operator decided that it shall not be delivered", Terminal: true},
	},
	Edges: []lifecycle.Edge[Status, Transition]{
		{From: Pending, Event: Publish, To: Published, Owner: "outbox relay"},
		{From: Pending, Event: GiveUp, To: Failed, Owner: "outbox relay"},
		{From: Failed, Event: Requeue, To: Pending, Owner: "operator"},
		{From: Failed, Event: Discard, To: Discarded, Owner: "operator"},
	},
}
