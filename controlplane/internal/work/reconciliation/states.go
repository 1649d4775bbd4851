package reconciliation

import (
	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of a finding.
type Status string

// The states of a finding.
const (
	Open      Status = "open"
	Confirmed Status = "confirmed"
	Acted     Status = "acted"
	Closed    Status = "closed"
)

// Event moves a finding from one state to another.
type Event string

// The events of a finding.
const (
	Confirm Event = "confirm"
	Act     Event = "act"
	Heal    Event = "heal"
	Resolve Event = "resolve"
)

// Lifecycle is the lifecycle of a finding. Only a confirmed finding acts, and
// no finding becomes confirmed twice, so an action happens at most once.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "finding", Title: "Finding lifecycle", Initial: []Status{Open, Confirmed},
	States: []lifecycle.State[Status]{
		{Name: Open, Meaning: "one look has shown it; a second one is due"},
		{Name: Confirmed, Meaning: "confirmed by as many checks as its kind needs; reconciliation acts unless something withholds that"},
		{Name: Acted, Meaning: "reconciliation did what it does about it; it is not over yet"},
		{Name: Closed, Meaning: "over: a look did not show it any more, or somebody settled it", Terminal: true},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Open, Event: Confirm, To: Confirmed, Owner: "reconciliation"},
		{From: Open, Event: Heal, To: Closed, Owner: "reconciliation"},
		{From: Open, Event: Resolve, To: Closed, Owner: "operator"},
		{From: Confirmed, Event: Act, To: Acted, Owner: "reconciliation"},
		{From: Confirmed, Event: Heal, To: Closed, Owner: "reconciliation"},
		{From: Confirmed, Event: Resolve, To: Closed, Owner: "operator"},
		{From: Acted, Event: Heal, To: Closed, Owner: "reconciliation"},
		{From: Acted, Event: Resolve, To: Closed, Owner: "operator"},
	},
}
