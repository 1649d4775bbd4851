package agentrun

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of a run.
type Status string

// The states.
const (
	Waiting          Status = "waiting"
	Delivering       Status = "delivering"
	AwaitingOperator Status = "awaiting_operator"
	Reimaging        Status = "reimaging"
	Verifying        Status = "verifying"
	Parked           Status = "parked"
	Succeeded        Status = "succeeded"
	Cancelled        Status = "cancelled"
)

// Event moves a run from one state to another.
type Event string

// The events.
const (
	Deliver  Event = "deliver"
	HandOver Event = "hand_over"
	Reimage  Event = "reimage"
	Verify   Event = "verify"
	Succeed  Event = "succeed"
	Park     Event = "park"
	Retry    Event = "retry"
	Cancel   Event = "cancel"
)

const (
	byWorkflow = "agent run workflow"
	byOperator = "operator"
)

// Lifecycle is the table of states.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "agent_run", Title: "Agent run lifecycle", Initial: []Status{Waiting, AwaitingOperator},
	States: []lifecycle.State[Status]{
		{
			Name: Waiting, Meaning: "the node is busy; nothing has been done to it", Tone: lifecycle.Idle,
			StuckAfter: 24 * time.Hour,
		},
		{
			Name: Delivering, Meaning: "the agent was told to install the version", Tone: lifecycle.Info,
			StuckAfter: time.Hour,
		},
		{
			Name: AwaitingOperator, Tone: lifecycle.Warn, StuckAfter: 24 * time.Hour,
			Meaning: "somebody must act on the machine; the run goes on when the node reports",
		},
		{
			Name: Reimaging, Tone: lifecycle.Info, StuckAfter: 4 * time.Hour,
			Meaning: "a decommission reinstalls the machine; the run goes on when it is done",
		},
		{Name: Verifying, Meaning: "the node must prove that it is well", Tone: lifecycle.Info, StuckAfter: time.Hour},
		{
			Name: Parked, Meaning: "it cannot go on by itself, and says why; retry or cancel it", Tone: lifecycle.Bad,
			StuckAfter: time.Hour,
		},
		{Name: Succeeded, Meaning: "the node has proven it", Tone: lifecycle.OK, Terminal: true},
		{Name: Cancelled, Meaning: "somebody ended it", Tone: lifecycle.Idle, Terminal: true},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Waiting, Event: Deliver, To: Delivering, Owner: byWorkflow},
		{From: Waiting, Event: HandOver, To: AwaitingOperator, Owner: byWorkflow},
		{From: Waiting, Event: Reimage, To: Reimaging, Owner: byWorkflow},
		{From: Waiting, Event: Park, To: Parked, Owner: byWorkflow},
		{From: Waiting, Event: Cancel, To: Cancelled, Owner: byOperator},
		{From: Delivering, Event: Verify, To: Verifying, Owner: byWorkflow},
		{From: Delivering, Event: Park, To: Parked, Owner: byWorkflow},
		{From: Delivering, Event: Cancel, To: Cancelled, Owner: byOperator},
		{From: AwaitingOperator, Event: Deliver, To: Delivering, Owner: byWorkflow},
		{From: AwaitingOperator, Event: Verify, To: Verifying, Owner: byWorkflow},
		{From: AwaitingOperator, Event: Park, To: Parked, Owner: byWorkflow},
		{From: AwaitingOperator, Event: Cancel, To: Cancelled, Owner: byOperator},
		{From: Reimaging, Event: Deliver, To: Delivering, Owner: byWorkflow},
		{From: Reimaging, Event: Verify, To: Verifying, Owner: byWorkflow},
		{From: Reimaging, Event: Park, To: Parked, Owner: byWorkflow},
		{From: Reimaging, Event: Cancel, To: Cancelled, Owner: byOperator},
		{From: Verifying, Event: Succeed, To: Succeeded, Owner: byWorkflow},
		{From: Verifying, Event: Park, To: Parked, Owner: byWorkflow},
		{From: Verifying, Event: Cancel, To: Cancelled, Owner: byOperator},
		{From: Parked, Event: Retry, To: Waiting, Owner: byOperator},
		{From: Parked, Event: Cancel, To: Cancelled, Owner: byOperator},
	},
}

// Over reports whether nothing happens to a run any more.
func (s Status) Over() bool { return s == Succeeded || s == Cancelled }
