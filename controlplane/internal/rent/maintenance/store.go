package maintenance

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance/internal/maintenancedb"
)

func from(r maintenancedb.Maintenance) Maintenance {
	return Maintenance{
		ID: r.ID, Announcement: r.AnnouncementID, Allocation: r.AllocationID, Node: r.NodeID, Hostname: r.Hostname,
		Org: r.OrgID, Project: r.ProjectID, Status: Status(r.Status), Kind: Kind(r.Kind), ConsentAsked: r.ConsentAsked,
		NotBefore: r.NotBefore, DueAt: r.DueAt, Reason: r.Reason, By: r.AnnouncedBy, ByName: r.AnnouncedByName,
		BeginsNow: r.BeginsNow, EndedBecause: r.EndedBecause, CreatedAt: r.CreatedAt, ChangedAt: r.StatusChangedAt,
		EndedAt: r.EndedAt, Version: r.Version,
		Answer: Answer{At: r.AnsweredAt, By: r.AnsweredBy, Name: r.AnsweredByName, Text: r.Answer},
	}
}

func found(r maintenancedb.Maintenance, err error) (Maintenance, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Maintenance{}, notFound()
	}
	if err != nil {
		return Maintenance{}, fmt.Errorf("read maintenance: %w", err)
	}
	return from(r), nil
}

// Get reads a maintenance through a pool or a transaction.
func Get(ctx context.Context, db maintenancedb.DBTX, of id.Maintenance) (Maintenance, error) {
	return found(maintenancedb.New(db).Get(ctx, of))
}

// hold locks the node and the allocation of a maintenance, and then the maintenance.
func hold(ctx context.Context, tx pgx.Tx, of id.Maintenance) (Maintenance, allocation.Allocation, error) {
	seen, err := Get(ctx, tx, of)
	if err != nil {
		return seen, allocation.Allocation{}, err
	}
	a, err := allocation.Hold(ctx, tx, seen.Allocation)
	if err != nil {
		return seen, a, err
	}
	m, err := found(maintenancedb.New(tx).Lock(ctx, of))
	return m, a, err
}

// Selection chooses maintenances; zero fields choose all.
type Selection struct {
	Project      id.Project
	Node         id.Node
	Announcement id.Announcement
	Statuses     []Status
}

// List gives maintenances, newest first.
func (s *Service) List(ctx context.Context, of Selection, page postgres.Slice[id.Maintenance]) ([]Maintenance, error) {
	statuses := make([]string, len(of.Statuses))
	for i, status := range of.Statuses {
		statuses[i] = string(status)
	}
	rows, err := maintenancedb.New(s.db).List(ctx, maintenancedb.ListParams{
		Project: textOf(of.Project), Node: textOf(of.Node), Announcement: textOf(of.Announcement), Statuses: statuses,
		Before: textOf(page.After), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list maintenances: %w", err)
	}
	out := make([]Maintenance, len(rows))
	for i, r := range rows {
		out[i] = from(r)
	}
	return out, nil
}

func textOf[noun any](of id.Of[noun]) *string {
	if of.IsZero() {
		return nil
	}
	text := of.String()
	return &text
}
