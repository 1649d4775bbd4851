package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/rollout/internal/rolloutdb"
)

func from(row rolloutdb.AgentRollout) (Rollout, error) {
	r := Rollout{
		ID: row.ID, Version: row.Version, Status: Status(row.Status), Waves: row.Waves, Wave: row.Wave,
		PausedBecause: row.PausedBecause, PausedCode: row.PausedCode, Forgiven: row.Forgiven, ApprovedWave: row.ApprovedWave,
		Reason: row.Reason, RequestedBy: row.RequestedBy, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
		FinishedAt: row.FinishedAt, RowVersion: row.RowVersion,
	}
	if err := errors.Join(json.Unmarshal(row.Target, &r.Target), json.Unmarshal(row.Plan, &r.Plan)); err != nil {
		return r, fmt.Errorf("read rollout: %w", err)
	}
	r.Plan = r.Plan.withDefaults() // one of before says nothing about memory
	return r, nil
}

// known is what is stored of a number that is 0 where nobody knows it.
func known(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func memberFrom(r rolloutdb.AgentRolloutTarget) Member {
	m := Member{
		Rollout: r.RolloutID, Node: r.NodeID, Hostname: r.Hostname, Kind: r.Kind, Wave: r.Wave, Outcome: Outcome(r.Status),
		Detail: r.Detail, From: r.FromVersion, WasSchedulable: r.WasSchedulable, Task: r.TaskID, Failures: r.Failures,
		Silent: r.Silent, StartedAt: r.StartedAt, DeadlineAt: r.DeadlineAt, BakeUntil: r.BakeUntil, FinishedAt: r.FinishedAt,
	}
	if r.MemoryBefore != nil {
		m.MemoryBefore = *r.MemoryBefore
	}
	return m
}

func countsOf(ctx context.Context, q *rolloutdb.Queries, of id.Rollout) ([]Count, error) {
	rows, err := q.CountTargets(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("count nodes of rollout: %w", err)
	}
	out := make([]Count, len(rows))
	for i, r := range rows {
		out[i] = Count{r.Wave, Outcome(r.Status), r.Nodes, r.Failures}
	}
	return out, nil
}

func counted(ctx context.Context, q *rolloutdb.Queries, row rolloutdb.AgentRollout) (Rollout, error) {
	r, err := from(row)
	if err != nil {
		return r, err
	}
	r.Counts, err = countsOf(ctx, q, r.ID)
	return r, err
}

// Get reads a rollout.
func (s *Service) Get(ctx context.Context, of id.Rollout) (Rollout, error) {
	q := rolloutdb.New(s.DB)
	row, err := q.Rollout(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return Rollout{}, missing()
	}
	if err != nil {
		return Rollout{}, fmt.Errorf("read rollout: %w", err)
	}
	return counted(ctx, q, row)
}

// position is where the next page begins.
type position struct {
	At time.Time  `json:"at"`
	ID id.Rollout `json:"id"`
}

// List lists rollouts, the newest first.
func (s *Service) List(ctx context.Context, page postgres.Slice[position]) ([]Rollout, error) {
	q := rolloutdb.New(s.DB)
	before := page.After.At
	if before.IsZero() {
		before = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	rows, err := q.ListRollouts(ctx, rolloutdb.ListRolloutsParams{
		Before: before, BeforeID: page.After.ID.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list rollouts: %w", err)
	}
	out := make([]Rollout, len(rows))
	for i, r := range rows {
		if out[i], err = counted(ctx, q, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Members lists the nodes of a rollout.
func (s *Service) Members(ctx context.Context, of id.Rollout, with Outcome, page postgres.Slice[id.Node],
) ([]Member, error) {
	if _, err := s.Get(ctx, of); err != nil {
		return nil, err
	}
	rows, err := rolloutdb.New(s.DB).ListTargets(ctx, rolloutdb.ListTargetsParams{
		RolloutID: of, Status: optional(string(with)), After: page.After.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes of rollout: %w", err)
	}
	out := make([]Member, len(rows))
	for i, r := range rows {
		out[i] = memberFrom(r)
	}
	return out, nil
}
