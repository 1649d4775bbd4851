package agenttask

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of a task.
type Status string

// The states of a task.
const (
	Queued     Status = "queued"
	Dispatched Status = "dispatched"
	Succeeded  Status = "succeeded"
	Failed     Status = "failed"
	Expired    Status = "expired"
	Cancelled  Status = "cancelled"
)

// Event moves a task from one state to another.
type Event string

// The events of a task.
const (
	Claim   Event = "claim"
	Requeue Event = "requeue"
	Succeed Event = "succeed"
	Fail    Event = "fail"
	Expire  Event = "expire"
	Cancel  Event = "cancel"
)

// Lifecycle is the lifecycle of a task. A queued task can end with a result:
// its lease ran out while the agent went on working.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "node_task", Title: "Node task lifecycle", Initial: []Status{Queued},
	States: []lifecycle.State[Status]{
		{Name: Queued, Meaning: "waits for its node to fetch it", Tone: lifecycle.Idle, StuckAfter: 25 * time.Hour},
		{
			Name: Dispatched, Meaning: "its node has it and gives signs of life",
			Tone: lifecycle.Info, StuckAfter: 3 * time.Hour,
		},
		{Name: Succeeded, Meaning: "the node did it", Tone: lifecycle.OK, Terminal: true},
		{Name: Failed, Meaning: "the node could not do it, or refused to; it says why", Tone: lifecycle.Bad, Terminal: true},
		{Name: Expired, Meaning: "the node did not fetch it in time, or fell silent too often", Tone: lifecycle.Warn, Terminal: true},
		{Name: Cancelled, Meaning: "stopped on request, or void because the node was taken over", Tone: lifecycle.Idle, Terminal: true},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Queued, Event: Claim, To: Dispatched, Owner: "poll of the node"},
		{From: Queued, Event: Succeed, To: Succeeded, Owner: "late result of the agent"},
		{From: Queued, Event: Fail, To: Failed, Owner: "late result of the agent"},
		{From: Queued, Event: Expire, To: Expired, Owner: "sweeper"},
		{From: Queued, Event: Cancel, To: Cancelled, Owner: "operator, sweeper"},
		{From: Dispatched, Event: Requeue, To: Queued, Owner: "sweeper, poll that could not hand it over"},
		{From: Dispatched, Event: Succeed, To: Succeeded, Owner: "result of the agent"},
		{From: Dispatched, Event: Fail, To: Failed, Owner: "result of the agent"},
		{From: Dispatched, Event: Expire, To: Expired, Owner: "sweeper, result of the agent"},
		{From: Dispatched, Event: Cancel, To: Cancelled, Owner: "result of the agent, sweeper"},
	},
}

// Ended reports whether a status is final.
func (s Status) Ended() bool {
	state, _ := Lifecycle.State(s)
	return state.Terminal
}
