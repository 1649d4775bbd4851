package node

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the coarse state of a node.
type Status string

// The states of a node.
const (
	BootstrapIssued Status = "bootstrap_issued"
	Enrolling       Status = "enrolling"
	Active          Status = "active"
	Offline         Status = "offline"
	Quarantined     Status = "quarantined"
	Draining        Status = "draining"
	Retired         Status = "retired"
	Removing        Status = "removing"
	Deleted         Status = "deleted"
)

// Event moves a node from one state to another.
type Event string

// The events of a node.
const (
	StartEnrolment  Event = "start_enrolment"
	Enrolled        Event = "enrolled"
	Quarantine      Event = "quarantine"
	LoseContact     Event = "lose_contact"
	RegainContact   Event = "regain_contact"
	ReturnToService Event = "return_to_service"
	Drain           Event = "drain"
	Drained         Event = "drained"
	DrainFailed     Event = "drain_failed"
	Reimage         Event = "reimage"
	Reactivate      Event = "reactivate"
	Remove          Event = "remove"
	UninstallFailed Event = "uninstall_failed"
	Uninstalled     Event = "uninstalled"
	Abandoned       Event = "abandon"
)

// The traits of the states of a node. Queries ask for them with the function
// node_is, which migrations keep equal to the table.
const (
	// Serving: in service, and schedulable unless held as soon as the agent is in
	// contact. It is Active by then: no other state is ever schedulable.
	Serving lifecycle.Trait = "serving"
	// Steady: installed and enrolled, and no operation is under way.
	Steady lifecycle.Trait = "steady"
	// Joining: not in the fleet yet.
	Joining lifecycle.Trait = "joining"
	// Owned: belongs to an operation that is alive or can be resumed.
	Owned lifecycle.Trait = "owned"
	// Attended: its agent is kept up to date, and must be.
	Attended lifecycle.Trait = "attended"
	// Out: out of service for good, or until it is brought back; no agent is
	// expected.
	Out lifecycle.Trait = "out"
	// Fenced: its agent is kept out.
	Fenced lifecycle.Trait = "fenced"
)

// Is reports whether a state has a trait.
func (s Status) Is(trait lifecycle.Trait) bool { return Lifecycle.Is(s, trait) }

type traits = []lifecycle.Trait

// Lifecycle is the lifecycle of a node. A draining or removing node always
// belongs to an operation that is alive or can be resumed.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "node", Title: "Node lifecycle", Initial: []Status{BootstrapIssued, Enrolling},
	States: []lifecycle.State[Status]{
		{
			Name: BootstrapIssued, Meaning: "bootstrap bundle and token issued, the node has not enrolled",
			StuckAfter: 24 * time.Hour, Tone: lifecycle.Info, Traits: traits{Joining},
		},
		{
			Name: Enrolling, Meaning: "onboarding is in progress, not ready for scheduling",
			StuckAfter: 2 * time.Hour, Tone: lifecycle.Info, Traits: traits{Joining, Attended},
		},
		{
			Name: Active, Meaning: "healthy; schedulable unless held",
			Tone: lifecycle.OK, Traits: traits{Serving, Steady, Attended},
		},
		{
			Name: Offline, Meaning: "expected to exist, but its agent does not answer",
			StuckAfter: time.Hour, Tone: lifecycle.Bad, Traits: traits{Serving, Steady, Attended},
		},
		{
			Name: Quarantined, Meaning: "blocked from scheduling: drift, failed cleanup or investigation",
			StuckAfter: 24 * time.Hour, Tone: lifecycle.Warn, Traits: traits{Steady, Attended},
		},
		{
			Name: Draining, Meaning: "being emptied, unschedulable until the drain ends",
			StuckAfter: time.Hour, Tone: lifecycle.Info, Traits: traits{Owned, Attended},
		},
		{
			Name: Retired, Meaning: "out of scheduling on purpose, identity kept",
			Tone: lifecycle.Idle, Traits: traits{Out, Fenced},
		},
		{
			Name: Removing, Meaning: "being uninstalled and removed",
			StuckAfter: time.Hour, Tone: lifecycle.Info, Traits: traits{Owned, Out},
		},
		{
			Name: Deleted, Meaning: "out of the inventory; the identity is never used again", Terminal: true,
			Tone: lifecycle.Idle, Traits: traits{Out, Fenced},
		},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: BootstrapIssued, Event: StartEnrolment, To: Enrolling, Owner: "admin API, onboarding"},
		{From: BootstrapIssued, Event: Abandoned, To: Deleted, Owner: "onboarding, remove"},
		{From: Enrolling, Event: Enrolled, To: Active, Owner: "onboarding, reimage"},
		{From: Enrolling, Event: Quarantine, To: Quarantined, Owner: "onboarding, operator"},
		{From: Enrolling, Event: Abandoned, To: Deleted, Owner: "onboarding, remove"},
		{From: Active, Event: LoseContact, To: Offline, Owner: "agent contact, reconciliation"},
		{From: Offline, Event: RegainContact, To: Active, Owner: "agent contact, reconciliation"},
		{From: Active, Event: Quarantine, To: Quarantined, Owner: "operator, reconciliation, cleanup validation, provisioning (readiness gate)"},
		{From: Offline, Event: Quarantine, To: Quarantined, Owner: "operator, reconciliation, cleanup validation"},
		{From: Quarantined, Event: ReturnToService, To: Active, Owner: "operator, reconciliation"},
		{From: Active, Event: Drain, To: Draining, Owner: "admin API"},
		{From: Offline, Event: Drain, To: Draining, Owner: "admin API"},
		{From: Quarantined, Event: Drain, To: Draining, Owner: "admin API"},
		{From: Draining, Event: Drained, To: Retired, Owner: "drain"},
		{From: Draining, Event: DrainFailed, To: Offline, Owner: "drain, operator"},
		{From: Draining, Event: Reimage, To: Enrolling, Owner: "reimage"},
		{From: Retired, Event: Reactivate, To: Active, Owner: "admin API"},
		{From: Retired, Event: Remove, To: Removing, Owner: "remove"},
		{From: Removing, Event: UninstallFailed, To: Retired, Owner: "remove"},
		{From: Removing, Event: Uninstalled, To: Deleted, Owner: "remove"},
	},
}
