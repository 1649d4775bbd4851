package allocation

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// Status is the state of an allocation.
type Status string

// The states.
const (
	Requested     Status = "requested"
	Provisioning  Status = "provisioning"
	Active        Status = "active"
	Releasing     Status = "releasing"
	Released      Status = "released"
	Failed        Status = "failed"
	ReleaseFailed Status = "release_failed"
)

// Event is something that changes the state.
type Event string

// The events.
const (
	Begin   Event = "begin"
	Ready   Event = "ready"
	Fail    Event = "fail"
	Release Event = "release"
	Cleaned Event = "cleaned"
	Park    Event = "park"
)

// Live is the trait of states in which the tenant has the node, or is about to.
const Live lifecycle.Trait = "live"

const (
	byWorker = "provisioning workflow"
	byClean  = "cleanup of the node"
)

// Lifecycle is the table of states, the same for both shapes of capacity.
var Lifecycle = lifecycle.Table[Status, Event]{
	Noun: "allocation", Title: "Allocation lifecycle", Initial: []Status{Requested},
	States: []lifecycle.State[Status]{
		{
			Name: Requested, Meaning: "a node is reserved; no worker has taken it up", Tone: lifecycle.Info,
			StuckAfter: time.Minute, Traits: []lifecycle.Trait{Live},
		},
		{
			Name: Provisioning, Meaning: "the node is checked and the account is being made", Tone: lifecycle.Info,
			StuckAfter: 20 * time.Minute, Traits: []lifecycle.Trait{Live},
		},
		{
			Name: Active, Meaning: "the tenant can use the node, and pays for it", Tone: lifecycle.OK,
			Traits: []lifecycle.Trait{Live},
		},
		{
			Name: Releasing, Meaning: "the tenant has left and does not pay; the node is being cleaned", Tone: lifecycle.Info,
			StuckAfter: 2 * time.Hour,
		},
		{Name: Released, Meaning: "the node is proven clean, or left the fleet", Tone: lifecycle.Idle, Terminal: true},
		{
			Name: Failed, Meaning: "it never became usable; nothing is charged, and the node is cleaned before others get it",
			Tone: lifecycle.Bad, Terminal: true,
		},
		{
			Name: ReleaseFailed, Meaning: "cleaning stopped and waits for somebody; nothing is charged", Tone: lifecycle.Warn,
			StuckAfter: time.Hour,
		},
	},
	Edges: []lifecycle.Edge[Status, Event]{
		{From: Requested, Event: Begin, To: Provisioning, Owner: byWorker},
		{From: Requested, Event: Fail, To: Failed, Owner: "administrator (force-cleanup), operation that takes the node"},
		{From: Provisioning, Event: Ready, To: Active, Owner: byWorker},
		{
			From: Provisioning, Event: Fail, To: Failed,
			Owner: byWorker + ", administrator (force-cleanup), operation that takes the node",
		},
		{
			From: Active, Event: Release, To: Releasing,
			Owner: "tenant, expiry, billing, administrator, operation that takes the node",
		},
		{From: Releasing, Event: Cleaned, To: Released, Owner: byClean},
		{From: Releasing, Event: Park, To: ReleaseFailed, Owner: byClean},
		{From: ReleaseFailed, Event: Release, To: Releasing, Owner: "tenant, administrator, " + byClean},
	},
}

// live says whether the tenant has the node in a state, or is about to.
func (s Status) live() bool { return Lifecycle.Is(s, Live) }

// RequestStatus is the state of a request that waits for capacity.
type RequestStatus string

// The states of a request.
const (
	Waiting          RequestStatus = "waiting"
	Placed           RequestStatus = "placed"
	RequestCancelled RequestStatus = "cancelled"
	RequestExpired   RequestStatus = "expired"
	Refused          RequestStatus = "refused"
)

// RequestEvent is something that changes the state of a request.
type RequestEvent string

// The events of a request.
const (
	PlaceRequest  RequestEvent = "place"
	CancelRequest RequestEvent = "cancel"
	ExpireRequest RequestEvent = "expire"
	RefuseRequest RequestEvent = "refuse"
)

const byQueue = "queue of the SKU"

// RequestLifecycle is the table of states of requests that wait for capacity.
var RequestLifecycle = lifecycle.Table[RequestStatus, RequestEvent]{
	Noun: "allocation_request", Title: "Allocation request lifecycle", Initial: []RequestStatus{Waiting},
	States: []lifecycle.State[RequestStatus]{
		{Name: Waiting, Meaning: "it waits for nodes, in the queue of its SKU", Tone: lifecycle.Info},
		{Name: Placed, Meaning: "its allocations exist", Tone: lifecycle.OK, Terminal: true},
		{Name: RequestCancelled, Meaning: "somebody of the project took it back", Tone: lifecycle.Idle, Terminal: true},
		{
			Name: RequestExpired, Meaning: "there was no capacity for as long as it waited", Tone: lifecycle.Warn,
			Terminal: true,
		},
		{
			Name: Refused, Meaning: "it may not be placed any more, for another reason than capacity", Tone: lifecycle.Bad,
			Terminal: true,
		},
	},
	Edges: []lifecycle.Edge[RequestStatus, RequestEvent]{
		{From: Waiting, Event: PlaceRequest, To: Placed, Owner: byQueue},
		{From: Waiting, Event: CancelRequest, To: RequestCancelled, Owner: "whoever asked, administrator of the project"},
		{From: Waiting, Event: ExpireRequest, To: RequestExpired, Owner: byQueue},
		{From: Waiting, Event: RefuseRequest, To: Refused, Owner: byQueue},
	},
}
