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
	Vacate  Event = "vacate"
	Finish  Event = "finish"
	Lapse   Event = "lapse"
	Cancel  Event = "cancel"
)

const (
	byTenant   = "tenant"
	byOperator = "operator"
	byTime     = "keeper of deadlines"
	byCancel   = "operator, keeper of deadlines (the allocation has ended, or left the node)"
	byVacate   = "keeper of deadlines, tenant (consent to begin now)"
)

// Lifecycle is the table of states.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "maintenance", Title: "Maintenance lifecycle", Initial: []Status{Announced},
	States: []lifecycle.State[Status]{
		{Name: Announced, Meaning: "the tenant is told, and has not answered", Tone: lifecycle.Info},
		{Name: Consented, Meaning: "the tenant agrees", Tone: lifecycle.OK},
		{Name: Declined, Meaning: "the tenant does not agree, and says why", Tone: lifecycle.Warn},
		{
			Name: UnderWay, Tone: lifecycle.Info, StuckAfter: 4 * time.Hour,
			Meaning: "it is being done: the allocation is being repaired, or has ended for it and the node goes to nobody",
		},
		{Name: Done, Meaning: "it was done", Tone: lifecycle.OK, Terminal: true},
		{
			Name: Lapsed, Meaning: "its time passed and nothing was done: the tenant did not agree, or nobody began",
			Tone: lifecycle.Warn, Terminal: true,
		},
		{Name: Cancelled, Meaning: "taken back, or the tenant left the node before", Tone: lifecycle.Idle, Terminal: true},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Announced, Event: Consent, To: Consented, Owner: byTenant},
		{From: Announced, Event: Decline, To: Declined, Owner: byTenant},
		{From: Announced, Event: Begin, To: UnderWay, Owner: byOperator},
		{From: Announced, Event: Vacate, To: UnderWay, Owner: byTime},
		{From: Announced, Event: Lapse, To: Lapsed, Owner: byTime},
		{From: Announced, Event: Cancel, To: Cancelled, Owner: byCancel},
		{From: Consented, Event: Decline, To: Declined, Owner: byTenant},
		{From: Consented, Event: Begin, To: UnderWay, Owner: byOperator},
		{From: Consented, Event: Vacate, To: UnderWay, Owner: byVacate},
		{From: Consented, Event: Lapse, To: Lapsed, Owner: byTime},
		{From: Consented, Event: Cancel, To: Cancelled, Owner: byCancel},
		{From: Declined, Event: Consent, To: Consented, Owner: byTenant},
		{From: Declined, Event: Vacate, To: UnderWay, Owner: byTime + " (the tenant left all the same)"},
		{From: Declined, Event: Lapse, To: Lapsed, Owner: byTime},
		{From: Declined, Event: Cancel, To: Cancelled, Owner: byCancel},
		{From: UnderWay, Event: Finish, To: Done, Owner: byOperator},
	},
}
