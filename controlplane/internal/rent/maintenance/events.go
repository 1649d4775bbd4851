package maintenance

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance/internal/maintenancedb"
)

// told are the events that the world hears of when a state is entered.
var told = map[Status]eventwire.Type{
	Announced: eventwire.MaintenanceAnnounced, Consented: eventwire.MaintenanceAnswered,
	Declined: eventwire.MaintenanceAnswered, UnderWay: eventwire.MaintenanceBegan, Done: eventwire.MaintenanceEnded,
	Lapsed: eventwire.MaintenanceEnded, Cancelled: eventwire.MaintenanceEnded,
}

// tell adds what happened to a maintenance to the timeline of its allocation, and
// publishes it.
func tell(
	ctx context.Context, tx pgx.Tx, typ eventwire.Type, m Maintenance, a allocation.Allocation, message string,
) error {
	event := strings.TrimPrefix(string(typ), "allocation.")
	if err := allocation.Note(ctx, tx, a, event, message, map[string]any{
		"maintenance_id": m.ID, "kind": m.Kind, "not_before": m.NotBefore, "due_at": m.DueAt,
	}); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: typ, AggregateKind: "allocation", AggregateID: a.ID.String(), Org: m.Org, Project: m.Project,
		Payload: eventwire.Maintenance{
			MaintenanceID: m.ID.String(), AllocationID: m.Allocation.String(), NodeID: m.Node.String(),
			Status: string(m.Status), Kind: string(m.Kind), ConsentAsked: m.ConsentAsked, NotBefore: m.NotBefore,
			DueAt: m.DueAt, Reason: m.Reason, Message: message,
		},
	})
}

// move takes an edge of the lifecycle, and tells of it.
func move(ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation, event Event, message string) (
	Maintenance, error,
) {
	next, err := Lifecycle.Next(m.Status, event)
	if err != nil {
		return m, err
	}
	state, _ := Lifecycle.State(next)
	p := maintenancedb.MoveParams{ID: m.ID, ToStatus: string(next), Ends: state.Terminal}
	if state.Terminal {
		p.EndedBecause = message
	}
	after, err := found(maintenancedb.New(tx).Move(ctx, p))
	if err != nil {
		return m, err
	}
	return after, tell(ctx, tx, told[next], after, a, message)
}

func record(ctx context.Context, tx pgx.Tx, action string, m Maintenance, reason string) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: "maintenance." + action, TargetKind: "maintenance", TargetID: m.ID.String(), Org: m.Org, Project: m.Project,
		Result: audit.Success, Reason: reason,
		Metadata: map[string]any{
			"allocation_id": m.Allocation, "node_id": m.Node, "kind": m.Kind, "consent_asked": m.ConsentAsked,
			"not_before": m.NotBefore, "due_at": m.DueAt, "status": m.Status, "announcement_id": m.Announcement,
		},
	})
}
