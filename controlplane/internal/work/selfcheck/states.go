package selfcheck

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of a self-check.
type Status string

// The states of a self-check.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Passed    Status = "passed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Event moves a self-check from one state to another.
type Event string

// The events of a self-check.
const (
	Start  Event = "start"
	Pass   Event = "pass"
	Fail   Event = "fail"
	Cancel Event = "cancel"
)

// Lifecycle is the lifecycle of a self-check. A self-check may end as failed,
// because that is an answer and not unfinished work.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "self_check", Title: "Self-check lifecycle", Initial: []Status{Pending},
	States: []lifecycle.State[Status]{
		{Name: Pending, Meaning: "asked for; no worker has taken it up", StuckAfter: time.Minute},
		{Name: Running, Meaning: "a worker is going through the steps", StuckAfter: 10 * time.Minute},
		{Name: Passed, Meaning: "every step worked", Terminal: true},
		{Name: Failed, Meaning: "a step did not work; it says which and what to do", Terminal: true},
		{Name: Cancelled, Meaning: "stopped on request", Terminal: true},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Pending, Event: Start, To: Running, Owner: "self-check workflow"},
		{From: Pending, Event: Cancel, To: Cancelled, Owner: "operator"},
		{From: Running, Event: Pass, To: Passed, Owner: "self-check workflow"},
		{From: Running, Event: Fail, To: Failed, Owner: "self-check workflow"},
		{From: Running, Event: Cancel, To: Cancelled, Owner: "self-check workflow"},
	},
}
