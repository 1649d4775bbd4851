package allocation

import (
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
)

// Request is a request for allocations that found no capacity and waits for it.
type Request struct {
	ID       id.AllocationRequest
	Org      id.Org
	Project  id.Project
	Status   RequestStatus
	Ask      Ask
	Position int32 // in the queue of the SKU, from 1; zero: it does not wait any more
	By       asker
	// Correlation is that of the request to the API.
	Correlation string
	WaitUntil   time.Time
	Allocations []id.Allocation // what it became; none: nothing yet
	Failure     Failure         // why it ended without; zero: it did not
	EndedBy     string          // id of who took it back
	CreatedAt   time.Time
	EndedAt     *time.Time
}

// asker is who asked for an allocation.
type asker struct {
	Kind     auth.Kind
	ID, Name string
}

func askerOf(who *auth.Principal) asker { return asker{Kind: who.Kind, ID: who.ID, Name: who.Name} }

// Outcome is what became of a request: allocations, or a request that waits.
type Outcome struct {
	Allocations []Allocation
	Request     *Request // nil: it does not wait
	Cost        *Cost    // nil: it waits, or nothing is charged
}

// maxWaiting limits how many requests of a project wait at a time.
const maxWaiting = 100

func requestNotFound() error {
	return fault.New(fault.NotFound, "allocation_request_not_found", "there is no such request").
		WithRemedy("see which there are: gpuaas allocation request list")
}

func tooManyWaiting() error {
	return fault.New(fault.Conflict, "too_many_waiting_requests", "%d requests of the project wait already", maxWaiting).
		WithRemedy("cancel some that are not needed: gpuaas allocation request list")
}
