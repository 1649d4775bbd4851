package operation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
)

const aggregate = "operation"

// payload is what every event of a run carries.
func (o Operation) payload(message string) eventwire.Operation {
	p := eventwire.Operation{
		OperationID: o.ID.String(), OperationType: o.Ref.Type, Version: o.Ref.Version, ResourceName: o.ResourceName,
		CorrelationID: o.Correlation, TraceID: o.TraceID, Status: string(o.Status), TriggerSource: string(o.Trigger),
		RequestedBy: o.By, TotalSteps: int(o.TotalSteps), ErrorCode: o.ErrorCode, Message: message,
	}
	if !o.Allocation.IsZero() {
		p.AllocationID = o.Allocation.String()
	}
	if !o.Node.IsZero() {
		p.NodeID = o.Node.String()
	}
	for status, n := range o.Counts {
		switch status {
		case TargetSucceeded:
			p.Succeeded = int(n)
		case TargetFailed:
			p.Failed = int(n)
		case TargetSkipped:
			p.Skipped = int(n)
		case TargetCanceled:
			p.Canceled = int(n)
		case TargetWaiting, TargetRunning:
		}
		p.Targets += int(n)
	}
	return p
}

// publish tells the world of a run.
func publish(ctx context.Context, tx pgx.Tx, typ eventwire.Type, o Operation, message string) error {
	return outbox.Append(ctx, tx, outbox.Event{
		Type: typ, AggregateKind: aggregate, AggregateID: o.ID.String(), Org: o.Owner.Org, Project: o.Owner.Project,
		Payload: o.payload(message),
	})
}

// progress tells how far targets have come: of each its last step.
func progress(ctx context.Context, tx pgx.Tx, o Operation, settled []settlement) error {
	events := make([]outbox.Event, 0, len(settled))
	for _, s := range settled {
		p := eventwire.OperationProgress{
			OperationID: o.ID.String(), OperationType: o.Ref.Type, ResourceName: o.ResourceName,
			CorrelationID: o.Correlation, TargetID: s.target.ID.String(), NodeID: s.target.Node.String(),
			TargetStatus: string(s.status), CurrentStepIndex: int(s.index), TotalSteps: int(o.TotalSteps),
			StepStatus: string(s.status), ErrorCode: s.trouble.Code,
		}
		if n := len(s.steps); n > 0 {
			last := s.steps[s.last()]
			p.CurrentStepName, p.StepStatus, p.CurrentStepIndex = last.StepID, last.Status, int(last.StepIndex)
			p.StepStartedAt = last.StartedAt
		}
		events = append(events, outbox.Event{
			Type: eventwire.OperationProgressed, AggregateKind: aggregate, AggregateID: o.ID.String(), Org: o.Owner.Org,
			Project: o.Owner.Project, Payload: p,
		})
	}
	return outbox.Append(ctx, tx, events...)
}

func record(ctx context.Context, tx pgx.Tx, action string, o Operation, reason string, metadata map[string]any) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: aggregate, TargetID: o.ID.String(), Org: o.Owner.Org, Project: o.Owner.Project,
		Result: audit.Success, Reason: reason, Metadata: metadata,
	})
}
