package webhook

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/webhook/internal/webhookdb"
)

func from(r webhookdb.Webhook) Webhook {
	return Webhook{
		ID: r.ID, Org: r.OrgID, Project: r.ProjectID, Name: r.Name, URL: r.Url, Kinds: r.Kinds, DisabledAt: r.DisabledAt,
		DisabledReason: r.DisabledReason, FailingSince: r.FailingSince, LastDeliveredAt: r.LastDeliveredAt,
		SecretRotatedAt: r.SecretRotatedAt, Version: r.Version, CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy,
	}
}

func deliveryFrom(r webhookdb.WebhookDelivery) Delivery {
	return Delivery{
		ID: r.ID, Seq: r.Seq, Event: r.EventID, EventType: r.EventType, Attempts: r.Attempts, NextAt: r.NextAt,
		CreatedAt: r.CreatedAt, AttemptedAt: r.AttemptedAt, FinishedAt: r.FinishedAt, Delivered: r.Delivered,
		AnswerCode: r.AnswerCode, AnswerMS: r.AnswerMs, AnswerText: r.AnswerText, Failure: r.Failure,
	}
}

func notFound() error {
	return fault.New(fault.NotFound, "webhook_not_found", "the project has no such webhook").
		WithRemedy("see which it has: gpuaas webhook list --project PROJECT")
}

// Get reads a webhook of a project.
func (s *Service) Get(ctx context.Context, project id.Project, of id.Webhook) (Webhook, error) {
	row, err := webhookdb.New(s.db).Get(ctx, webhookdb.GetParams{ID: of, ProjectID: project})
	if errors.Is(err, pgx.ErrNoRows) {
		return Webhook{}, notFound()
	}
	if err != nil {
		return Webhook{}, fmt.Errorf("read webhook: %w", err)
	}
	return from(row), nil
}

// List lists the webhooks of a project.
func (s *Service) List(ctx context.Context, project id.Project, page postgres.Slice[id.Webhook]) ([]Webhook, error) {
	rows, err := webhookdb.New(s.db).List(ctx, webhookdb.ListParams{
		ProjectID: project, After: page.After.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	out := make([]Webhook, len(rows))
	for i, r := range rows {
		out[i] = from(r)
	}
	return out, nil
}

// Deliveries lists what a webhook was told, the newest first. An empty progress
// means all.
func (s *Service) Deliveries(
	ctx context.Context, project id.Project, of id.Webhook, progress Progress, page postgres.Slice[int64],
) ([]Delivery, error) {
	if _, err := s.Get(ctx, project, of); err != nil {
		return nil, err
	}
	rows, err := webhookdb.New(s.db).ListDeliveries(ctx, webhookdb.ListDeliveriesParams{
		WebhookID: of, Before: page.After, Status: string(progress), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list deliveries of webhook: %w", err)
	}
	out := make([]Delivery, len(rows))
	for i, r := range rows {
		out[i] = deliveryFrom(r)
	}
	return out, nil
}
