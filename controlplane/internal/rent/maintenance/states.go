package maintenance

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of a maintenance.
type Status string

// The states.
const (
	Announced Status = "announced"
	Consented Status = "consented"
	Declined  Status = "declined"
	UnderWay  Status = "under_way"
	Done      Status = "done"
	Lapsed    Status = "lapsed"
	Cancelled Status = "cancelled"
)

// Event is something that changes the state.
type Event string

// The events.
const (
	Consent Event = "consent"
	Decline Event = "decline"
	Begin   Event = "begin"
	Finish  Event = "finish"
	Lapse   Event = "lapse"
	Cancel  Event = "cancel"
)

const (
	byTenant   = "tenant"
	byOperator = "operator"
	byTime     = "keeper of deadlines"
	byCancel   = "operator, keeper of deadlines (the allocation has ended)"
)

// Lifecycle is the table of states.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "maintenance", Title: "Maintenance lifecycle", Initial: []Status{Announced},
	States: []lifecycle.State[Status]{
		{Name: Announced, Meaning: "the tenant is told, and has not answered", Tone: lifecycle.Info},
		{Name: Consented, Meaning: "the tenant agrees", Tone: lifecycle.OK},
		{Name: Declined, Meaning: "the tenant does not agree, and says why", Tone: lifecycle.Warn},
		{
			Name: UnderWay, Meaning: "it is being done; the tenant keeps the allocation, which is being repaired",
			Tone: lifecycle.Info, StuckAfter: 4 * time.Hour,
		},
		{Name: Done, Meaning: "it was done, or the allocation that it had to end has ended", Tone: lifecycle.OK, Terminal: true},
		{
			Name: Lapsed, Meaning: "its time passed and nothing was done: the tenant did not agree, or nobody began",
			Tone: lifecycle.Warn, Terminal: true,
		},
		{Name: Cancelled, Meaning: "taken back, or the allocation has ended before", Tone: lifecycle.Idle, Terminal: true},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Announced, Event: Consent, To: Consented, Owner: byTenant},
		{From: Announced, Event: Decline, To: Declined, Owner: byTenant},
		{From: Announced, Event: Begin, To: UnderWay, Owner: byOperator},
		{From: Announced, Event: Finish, To: Done, Owner: byTime},
		{From: Announced, Event: Lapse, To: Lapsed, Owner: byTime},
		{From: Announced, Event: Cancel, To: Cancelled, Owner: byCancel},
		{From: Consented, Event: Decline, To: Declined, Owner: byTenant},
		{From: Consented, Event: Begin, To: UnderWay, Owner: byOperator},
		{From: Consented, Event: Finish, To: Done, Owner: byTime + ", tenant (consent to begin now)"},
		{From: Consented, Event: Lapse, To: Lapsed, Owner: byTime},
		{From: Consented, Event: Cancel, To: Cancelled, Owner: byCancel},
		{From: Declined, Event: Consent, To: Consented, Owner: byTenant},
		{From: Declined, Event: Finish, To: Done, Owner: byTime + " (the allocation has ended)"},
		{From: Declined, Event: Lapse, To: Lapsed, Owner: byTime},
		{From: Declined, Event: Cancel, To: Cancelled, Owner: byCancel},
		{From: UnderWay, Event: Finish, To: Done, Owner: byOperator},
	},
}
