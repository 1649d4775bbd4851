package webhook

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
)

// record writes a change into the audit log and tells others.
func record(ctx context.Context, tx pgx.Tx, action string, of eventwire.Type, w Webhook) error {
	if err := audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "webhook", TargetID: w.ID.String(), Org: w.Org, Project: w.Project, Result: audit.Success,
		Metadata: map[string]any{"name": w.Name, "kinds": w.Kinds, "status": w.status(), "version": w.Version},
	}); err != nil {
		return err
	}
	return tell(ctx, tx, of, w)
}

func tell(ctx context.Context, tx pgx.Tx, of eventwire.Type, w Webhook) error {
	return outbox.Append(ctx, tx, outbox.Event{
		Type: of, AggregateKind: "webhook", AggregateID: w.ID.String(), Org: w.Org, Project: w.Project, Payload: payload(w),
	})
}

func payload(w Webhook) eventwire.Webhook {
	return eventwire.Webhook{
		WebhookID: w.ID.String(), Name: w.Name, Status: string(w.status()), Reason: w.DisabledReason,
	}
}
