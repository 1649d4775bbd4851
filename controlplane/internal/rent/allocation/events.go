package allocation

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

const aggregate = "allocation"

// told are the events that the world hears of when a state is entered.
var told = map[Status]eventwire.Type{
	Requested: eventwire.AllocationRequested, Active: eventwire.AllocationActive, Failed: eventwire.AllocationFailed,
	Releasing: eventwire.AllocationReleasing, Released: eventwire.AllocationReleased,
	ReleaseFailed: eventwire.AllocationParked,
}

// announce publishes that an allocation has entered its state.
func announce(ctx context.Context, tx pgx.Tx, a Allocation, message string) error {
	typ, known := told[a.Status]
	if !known {
		return nil
	}
	return publish(ctx, tx, typ, a, message)
}

func publish(ctx context.Context, tx pgx.Tx, typ eventwire.Type, a Allocation, message string) error {
	e := outbox.Event{
		Type: typ, AggregateKind: aggregate, AggregateID: a.ID.String(), Org: a.Org, Project: a.Project,
		Payload: eventwire.Allocation{
			AllocationID: a.ID.String(), GroupID: text(a.Group), Name: a.Name, Status: string(a.Status), SKU: a.SKU,
			GPUs:   a.GPUs,
			NodeID: a.Node.String(), RequestedBy: a.AskedBy, ActiveAt: a.Times.Active,
			ReleaseRequestedAt: a.Times.ReleaseRequested, ExpiresAt: a.ExpiresAt,
			Code: a.Failure.Code, Message: message, Remedy: a.Failure.forTenant().Remedy,
		},
	}
	if typ == eventwire.AllocationRequested {
		e.ID = a.Event // the workflow is named after it
	}
	return outbox.Append(ctx, tx, e)
}

func text[noun any](of id.Of[noun]) string {
	if of.IsZero() {
		return ""
	}
	return of.String()
}

// note adds an entry to the timeline of an allocation.
func note(ctx context.Context, tx pgx.Tx, a Allocation, event, message string, details map[string]any) error {
	if details == nil {
		details = map[string]any{}
	}
	raw, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode timeline of allocation %s: %w", a.ID, err)
	}
	who := auth.From(ctx)
	if err := allocationdb.New(tx).AddEvent(ctx, allocationdb.AddEventParams{
		AllocationID: a.ID, Event: event, Status: string(a.Status), ActorKind: string(who.Kind), Actor: nameOf(who),
		Message: message, Details: raw,
	}); err != nil {
		return fmt.Errorf("add to timeline of allocation %s: %w", a.ID, err)
	}
	return nil
}

// nameOf is who did something, as a tenant may know: people of the platform are
// named by what they are.
func nameOf(who *auth.Principal) string {
	switch {
	case who.Platform != "":
		return string(who.Platform)
	case who.Name != "":
		return who.Name
	}
	return who.ID
}

// move takes an edge of the lifecycle, and tells of it.
func move(ctx context.Context, tx pgx.Tx, a Allocation, event Event, waitingFor, message string,
	details map[string]any) (
	Allocation, error,
) {
	next, err := Lifecycle.Next(a.Status, event)
	if err != nil {
		return a, err
	}
	after, err := found(allocationdb.New(tx).Move(ctx, allocationdb.MoveParams{
		ID: a.ID, ToStatus: string(next), WaitingFor: waitingFor,
	}))
	if err != nil {
		return a, err
	}
	if event == Release {
		if _, err := endRepair(ctx, tx, after, "the allocation has ended"); err != nil {
			return after, err
		}
	}
	if event == Fail || event == Release { // no task may let its people in behind the cleaning
		if err := (agenttask.Commands{}).Withdraw(ctx, tx, a.Node, a.tasksOf(),
			"allocation "+a.ID.String()+" has ended"); err != nil {
			return after, err
		}
		if err := makeWay(ctx, tx, after); err != nil {
			return after, err
		}
	}
	if err := note(ctx, tx, after, string(event), message, details); err != nil {
		return after, err
	}
	// What is published reaches the tenant's webhooks.
	said := Moment{Event: string(event), Message: message, Details: details}.forTenant()
	return after, announce(ctx, tx, after, said.Message)
}
