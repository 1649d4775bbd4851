package allocation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

func requestFrom(r allocationdb.AllocationRequest, position int32) (Request, error) {
	out := Request{
		ID: r.ID, Org: r.OrgID, Project: r.ProjectID, Status: RequestStatus(r.Status), Position: position,
		By:          asker{Kind: auth.Kind(r.RequesterKind), ID: r.RequestedBy, Name: r.RequestedByName},
		Correlation: r.CorrelationID, WaitUntil: r.WaitUntil,
		Failure: Failure{Code: r.Code, Reason: r.Reason, Remedy: r.Remedy}, EndedBy: r.EndedBy,
		CreatedAt: r.CreatedAt, EndedAt: r.EndedAt,
	}
	if err := json.Unmarshal(r.Ask, &out.Ask); err != nil {
		return out, fmt.Errorf("decode request %s: %w", r.ID, err)
	}
	for _, text := range r.AllocationIds {
		a, err := id.Parse[id.Allocation](text)
		if err != nil {
			return out, fmt.Errorf("read allocations of request %s: %w", r.ID, err)
		}
		out.Allocations = append(out.Allocations, a)
	}
	return out, nil
}

// requestIn reads a request through a pool or a transaction.
func requestIn(ctx context.Context, q *allocationdb.Queries, of id.AllocationRequest) (Request, error) {
	row, err := q.GetRequest(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return Request{}, requestNotFound()
	}
	if err != nil {
		return Request{}, fmt.Errorf("read request %s: %w", of, err)
	}
	return requestFrom(row.AllocationRequest, row.Position)
}

func lockRequest(ctx context.Context, q *allocationdb.Queries, of id.AllocationRequest) (Request, error) {
	row, err := q.LockRequest(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return Request{}, requestNotFound()
	}
	if err != nil {
		return Request{}, fmt.Errorf("lock request %s: %w", of, err)
	}
	return requestFrom(row, 0)
}

// GetRequest reads a request, and while it waits, why.
func (s *Service) GetRequest(ctx context.Context, of id.AllocationRequest) (Request, *Capacity, error) {
	q := allocationdb.New(s.db)
	r, err := requestIn(ctx, q, of)
	if err != nil || r.Status != Waiting {
		return r, nil, err
	}
	c, err := s.capacity(ctx, s.db, r.Org, r.Ask, r.ID)
	c = c.seenBy(ctx)
	return r, &c, err
}

// Requests gives requests of a project, or of all (zero), newest first.
func (s *Service) Requests(ctx context.Context, of id.Project, in []RequestStatus,
	page postgres.Slice[id.AllocationRequest],
) ([]Request, error) {
	statuses := make([]string, len(in))
	for i, status := range in {
		statuses[i] = string(status)
	}
	rows, err := allocationdb.New(s.db).ListRequests(ctx, allocationdb.ListRequestsParams{
		Project: textOf(of), Statuses: statuses, Before: textOf(page.After), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list requests that wait: %w", err)
	}
	out := make([]Request, len(rows))
	for i, row := range rows {
		if out[i], err = requestFrom(row.AllocationRequest, row.Position); err != nil {
			return nil, err
		}
	}
	return out, nil
}
