package operation

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of a run.
type Status string

// The states of a run. Paused and awaiting approval are conditions, not states.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Canceled  Status = "canceled"
)

// Event moves a run from one state to another.
type Event string

// The events of a run.
const (
	Start   Event = "start"
	Succeed Event = "succeed"
	Fail    Event = "fail"
	Cancel  Event = "cancel"
	Resume  Event = "resume"
)

const (
	byWorkflow = "operation workflow"
	byCaller   = "whoever may run it"
)

// Lifecycle is the lifecycle of a run.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "operation", Title: "Operation lifecycle", Initial: []Status{Queued},
	States: []lifecycle.State[Status]{
		{
			Name: Queued, Meaning: "asked for, or to be resumed; no node has begun, or somebody must approve first",
			Tone: lifecycle.Info,
		},
		{
			Name: Running, Meaning: "nodes are working on it, unless it is paused", Tone: lifecycle.Info,
			StuckAfter: 24 * time.Hour,
		},
		{Name: Succeeded, Meaning: "every target that could be worked on succeeded", Tone: lifecycle.OK, Terminal: true},
		{Name: Failed, Meaning: "some targets failed; it says how many, and can be resumed", Tone: lifecycle.Bad},
		{Name: Canceled, Meaning: "stopped before every target was done; it can be resumed", Tone: lifecycle.Idle},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Queued, Event: Start, To: Running, Owner: byWorkflow},
		{From: Queued, Event: Fail, To: Failed, Owner: byWorkflow},
		{From: Queued, Event: Cancel, To: Canceled, Owner: byWorkflow},
		{From: Running, Event: Succeed, To: Succeeded, Owner: byWorkflow},
		{From: Running, Event: Fail, To: Failed, Owner: byWorkflow},
		{From: Running, Event: Cancel, To: Canceled, Owner: byWorkflow},
		{From: Failed, Event: Resume, To: Queued, Owner: byCaller},
		{From: Canceled, Event: Resume, To: Queued, Owner: byCaller},
	},
}

// Ended reports whether nothing happens to a run any more by itself.
func (s Status) Ended() bool { return s == Succeeded || s == Failed || s == Canceled }

// TargetStatus is the state of one target of a run.
type TargetStatus string

// The states of a target.
const (
	TargetWaiting   TargetStatus = "waiting"
	TargetRunning   TargetStatus = "running"
	TargetSucceeded TargetStatus = "succeeded"
	TargetFailed    TargetStatus = "failed"
	TargetCanceled  TargetStatus = "canceled"
	TargetSkipped   TargetStatus = "skipped"
)

// TargetEvent moves a target from one state to another.
type TargetEvent string

// The events of a target.
const (
	HandOut       TargetEvent = "hand_out"
	TargetSucceed TargetEvent = "succeed"
	TargetFail    TargetEvent = "fail"
	TargetCancel  TargetEvent = "cancel"
	TargetSkip    TargetEvent = "skip"
	TargetRevive  TargetEvent = "resume"
	TargetHold    TargetEvent = "hold"
)

// TargetLifecycle is the lifecycle of a target of a run.
var TargetLifecycle = lifecycle.Table[TargetStatus, TargetEvent]{
	Noun: "operation_target", Title: "Operation target lifecycle", Initial: []TargetStatus{TargetWaiting, TargetSkipped},
	States: []lifecycle.State[TargetStatus]{
		{Name: TargetWaiting, Meaning: "its turn has not come, it is to be resumed, or the run was paused in the middle of it", Tone: lifecycle.Idle},
		{Name: TargetRunning, Meaning: "its node has the steps", Tone: lifecycle.Info, StuckAfter: 24 * time.Hour},
		{Name: TargetSucceeded, Meaning: "all steps are done", Tone: lifecycle.OK, Terminal: true},
		{Name: TargetFailed, Meaning: "a step failed; a resume goes on there", Tone: lifecycle.Bad},
		{Name: TargetCanceled, Meaning: "stopped before all steps were done; a resume goes on there", Tone: lifecycle.Idle},
		{Name: TargetSkipped, Meaning: "nothing was done: the node cannot do it, or may not; it says why", Tone: lifecycle.Warn},
	},
	Edges: []lifecycle.Edge[TargetStatus, TargetEvent]{
		{From: TargetWaiting, Event: HandOut, To: TargetRunning, Owner: byWorkflow},
		{From: TargetWaiting, Event: TargetSkip, To: TargetSkipped, Owner: byWorkflow},
		{From: TargetWaiting, Event: TargetFail, To: TargetFailed, Owner: byWorkflow},
		{From: TargetWaiting, Event: TargetCancel, To: TargetCanceled, Owner: byWorkflow},
		{From: TargetRunning, Event: TargetSucceed, To: TargetSucceeded, Owner: byWorkflow},
		{From: TargetRunning, Event: TargetFail, To: TargetFailed, Owner: byWorkflow},
		{From: TargetRunning, Event: TargetCancel, To: TargetCanceled, Owner: byWorkflow},
		{From: TargetRunning, Event: TargetHold, To: TargetWaiting, Owner: byWorkflow},
		{From: TargetFailed, Event: TargetRevive, To: TargetWaiting, Owner: byCaller},
		{From: TargetCanceled, Event: TargetRevive, To: TargetWaiting, Owner: byCaller},
		{From: TargetSkipped, Event: TargetRevive, To: TargetWaiting, Owner: byCaller},
	},
}
