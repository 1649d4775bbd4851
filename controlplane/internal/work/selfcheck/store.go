package selfcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/selfcheck/internal/selfcheckdb"
)

func fromRow(r selfcheckdb.SelfCheck) (Check, error) {
	c := Check{
		ID: r.ID, Status: Status(r.Status), RequestedBy: r.RequestedBy, Correlation: r.CorrelationID,
		WaitingFor: r.WaitingFor, CreatedAt: r.CreatedAt, BegunAt: r.BegunAt, FinishedAt: r.FinishedAt,
	}
	if err := json.Unmarshal(r.Steps, &c.Steps); err != nil {
		return c, fmt.Errorf("decode steps of self-check %s: %w", r.ID, err)
	}
	return c, nil
}

func found(r selfcheckdb.SelfCheck, err error, check id.SelfCheck) (Check, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Check{}, fault.New(fault.NotFound, "self_check_not_found", "there is no self-check %s", check).
			WithRemedy("list them with: gpuaas self-check list")
	}
	if err != nil {
		return Check{}, fmt.Errorf("read self-check %s: %w", check, err)
	}
	return fromRow(r)
}

// Get reads a self-check.
func Get(ctx context.Context, db *postgres.DB, check id.SelfCheck) (Check, error) {
	r, err := selfcheckdb.New(db).Get(ctx, check)
	return found(r, err, check)
}

func lock(ctx context.Context, tx pgx.Tx, check id.SelfCheck) (Check, error) {
	r, err := selfcheckdb.New(tx).Lock(ctx, check)
	return found(r, err, check)
}

// position is where the next page begins; the newest check comes first.
type position struct {
	CreatedAt time.Time    `json:"c"`
	ID        id.SelfCheck `json:"i"`
}

func list(ctx context.Context, db *postgres.DB, status *string, after *position, limit int32) ([]Check, error) {
	p := selfcheckdb.ListParams{Status: status, PageSize: limit}
	if after != nil {
		before := after.ID.String()
		p.CreatedBefore, p.IDBefore = &after.CreatedAt, &before
	}
	rows, err := selfcheckdb.New(db).List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list self-checks: %w", err)
	}
	out := make([]Check, len(rows))
	for i, r := range rows {
		if out[i], err = fromRow(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}
