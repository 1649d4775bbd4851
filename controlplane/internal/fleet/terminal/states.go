package terminal

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of a session.
type Status string

// The states of a session.
const (
	Issued  Status = "issued"
	Opening Status = "opening"
	Open    Status = "open"
	Closed  Status = "closed"
	Failed  Status = "failed"
)

// Event moves a session from one state to another.
type Event string

// The events of a session.
const (
	Use    Event = "use"
	Expire Event = "expire"
	Revoke Event = "revoke"
	Attach Event = "attach"
	End    Event = "end"
	Lose   Event = "lose"
)

// Lifecycle is the lifecycle of a session. The agent also limits how long it
// may be open: it takes no session of more than a day.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "terminal_session", Title: "Terminal session lifecycle", Initial: []Status{Issued},
	States: []lifecycle.State[Status]{
		{Name: Issued, Meaning: "a token was issued; nobody has used it", StuckAfter: 10 * time.Minute},
		{Name: Opening, Meaning: "the user is connected and waits for the node", StuckAfter: 5 * time.Minute},
		{Name: Open, Meaning: "user and shell are connected", StuckAfter: 25 * time.Hour},
		{Name: Closed, Meaning: "it was open and has ended; the reason says why", Terminal: true},
		{Name: Failed, Meaning: "it never opened; the reason says why", Terminal: true},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Issued, Event: Use, To: Opening, Owner: "terminal gateway"},
		{From: Issued, Event: Expire, To: Failed, Owner: "terminal sweep"},
		{From: Issued, Event: Revoke, To: Failed, Owner: "operator"},
		{From: Opening, Event: Attach, To: Open, Owner: "terminal gateway"},
		{From: Opening, Event: End, To: Failed, Owner: "terminal gateway, operator"},
		{From: Opening, Event: Lose, To: Failed, Owner: "terminal sweep"},
		{From: Open, Event: End, To: Closed, Owner: "terminal gateway, operator"},
		{From: Open, Event: Lose, To: Closed, Owner: "terminal sweep"},
	},
}
