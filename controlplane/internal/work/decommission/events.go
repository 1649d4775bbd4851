package decommission

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
	"gpuaas/controlplane/internal/work/job"
)

var eventTypes = map[job.Announced]eventwire.Type{
	job.AnnounceStarted: eventwire.NodeDecommissionStarted, job.AnnounceStage: eventwire.NodeDecommissionStage,
	job.AnnounceCompleted: eventwire.NodeDecommissionCompleted, job.AnnounceFailed: eventwire.NodeDecommissionFailed,
	job.AnnounceManual: eventwire.NodeDecommissionManual, job.AnnounceCancelled: eventwire.NodeDecommissionCancelled,
}

// Announce implements job.Hooks.
func (h hooks) Announce(ctx context.Context, tx pgx.Tx, d Decommission, a job.Announcement) error {
	if err := h.follow(ctx, tx, d, a); err != nil {
		return err
	}
	// earlier findings about the node are probably out of date: have it looked
	// at again
	if a.Kind == job.AnnounceCompleted {
		if err := h.nodes.Doubt(ctx, tx, d.Node, fmt.Sprintf("its %s has ended", d.Mode)); err != nil {
			return err
		}
	}
	payload := eventwire.Decommission{
		DecommissionID: d.ID.String(), NodeID: d.Node.String(), Hostname: d.Hostname, Mode: string(d.Mode),
		Status: string(d.Status),
		Stage:  a.Event.Stage, Attempt: a.Event.Attempt, Epoch: d.Epoch, StageStatus: string(a.Event.Status),
		FailureClass: string(d.FailureClass), ErrorCode: d.ErrorCode,
		Message: a.Event.Message, RecommendedAction: string(h.family.Recommended(d)),
	}
	if a.Kind == job.AnnounceCompleted {
		outcome, err := decommissiondb.New(tx).OutcomeOf(ctx, d.ID)
		if err != nil {
			return fmt.Errorf("read outcome: %w", err)
		}
		payload.Outcome = outcome
	}
	if !d.Batch.IsZero() {
		payload.BatchID = d.Batch.String()
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventTypes[a.Kind], AggregateKind: "decommission",
		AggregateID: d.ID.String(), Payload: payload,
	})
}
