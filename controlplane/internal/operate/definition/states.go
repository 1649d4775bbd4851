package definition

import "gpuaas/controlplane/internal/base/lifecycle"

// Status is the state of a version.
type Status string

// The states of a version.
const (
	Draft      Status = "draft"
	Active     Status = "active"
	Deprecated Status = "deprecated"
	Retired    Status = "retired"
)

// Event moves a version from one state to another.
type Event string

// The events of a version.
const (
	Activate  Event = "activate"
	Deprecate Event = "deprecate"
	Retire    Event = "retire"
)

// Lifecycle is the lifecycle of a version of a definition. Runs keep the document
// that they were made of, whatever becomes of the version.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "operation_definition", Title: "Operation definition lifecycle", Initial: []Status{Draft},
	States: []lifecycle.State[Status]{
		{Name: Draft, Meaning: "being written; it can be changed, and nobody can run it", Tone: lifecycle.Idle},
		{Name: Active, Meaning: "can be run; its document never changes again", Tone: lifecycle.OK},
		{Name: Deprecated, Meaning: "can still be run; whoever does is told to use another", Tone: lifecycle.Warn},
		{
			Name: Retired, Meaning: "cannot be run any more; what runs is finished, and can be resumed", Terminal: true,
			Tone: lifecycle.Idle,
		},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Draft, Event: Activate, To: Active, Owner: "platform administrator"},
		{From: Draft, Event: Retire, To: Retired, Owner: "platform administrator"},
		{From: Active, Event: Deprecate, To: Deprecated, Owner: "platform administrator"},
		{From: Active, Event: Retire, To: Retired, Owner: "platform administrator"},
		{From: Deprecated, Event: Retire, To: Retired, Owner: "platform administrator"},
	},
}

// Runs reports whether a version of this state can be run.
func (s Status) Runs() bool { return s == Active || s == Deprecated }
