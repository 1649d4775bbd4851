package balance

import "gpuaas/controlplane/internal/base/lifecycle"

// Status is how near a tenant is to the end of what it has.
type Status string

// The states.
const (
	Healthy  Status = "healthy"
	Low      Status = "low"
	Pending  Status = "auto_release_pending"
	Depleted Status = "depleted"
)

// Event is something that changes the state.
type Event string

// The events.
const (
	FallLow  Event = "fall_low"
	NearEnd  Event = "near_end"
	Deplete  Event = "deplete"
	Recover  Event = "recover"
	Ease     Event = "ease"
	Reprieve Event = "reprieve"
)

const (
	byLook  = "evaluation of balances"
	byTopUp = "evaluation of balances (money came in, or less is used)"
)

// Lifecycle is the table of states.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "balance", Title: "Balance lifecycle", Initial: []Status{Healthy},
	States: []lifecycle.State[Status]{
		{Name: Healthy, Meaning: "what the tenant has left lasts for long, or is not limited", Tone: lifecycle.OK},
		{Name: Low, Meaning: "what it has left is below its threshold; it was warned", Tone: lifecycle.Warn},
		{
			Name: Pending, Meaning: "what it has left ends soon; it was told that its allocations will be released",
			Tone: lifecycle.Warn,
		},
		{
			Name: Depleted, Tone: lifecycle.Bad,
			Meaning: "nothing is left: nothing new is let to it, and after its grace period its allocations are released",
		},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Healthy, Event: FallLow, To: Low, Owner: byLook},
		{From: Healthy, Event: NearEnd, To: Pending, Owner: byLook},
		{From: Healthy, Event: Deplete, To: Depleted, Owner: byLook},
		{From: Low, Event: NearEnd, To: Pending, Owner: byLook},
		{From: Low, Event: Deplete, To: Depleted, Owner: byLook},
		{From: Low, Event: Recover, To: Healthy, Owner: byTopUp},
		{From: Pending, Event: Deplete, To: Depleted, Owner: byLook},
		{From: Pending, Event: Ease, To: Low, Owner: byTopUp},
		{From: Pending, Event: Recover, To: Healthy, Owner: byTopUp},
		{From: Depleted, Event: Reprieve, To: Pending, Owner: byTopUp},
		{From: Depleted, Event: Ease, To: Low, Owner: byTopUp},
		{From: Depleted, Event: Recover, To: Healthy, Owner: byTopUp},
	},
}

// eventTo is what leads from a state to another one.
func eventTo(from, to Status) Event {
	switch {
	case to == Healthy:
		return Recover
	case to == Depleted:
		return Deplete
	case to == Pending && from == Depleted:
		return Reprieve
	case to == Pending:
		return NearEnd
	case from == Healthy:
		return FallLow
	}
	return Ease
}
