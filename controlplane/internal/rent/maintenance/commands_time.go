package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance/internal/maintenancedb"
)

// marks are how long before a maintenance its tenant is reminded.
var marks = []time.Duration{24 * time.Hour, time.Hour, 10 * time.Minute}

// Tend does what the passing of time requires: it reminds tenants, and settles what
// is due. Any number of replicas may run it.
func (s *Service) Tend(ctx context.Context) error {
	ctx = auth.With(ctx, auth.System("maintenance"))
	return errors.Join(s.remind(ctx), s.settleAll(ctx))
}

func (s *Service) settleAll(ctx context.Context) error {
	due, err := maintenancedb.New(s.db).Due(ctx)
	if err != nil {
		return fmt.Errorf("list maintenances that are due: %w", err)
	}
	var failed []error
	for _, of := range due { // one that cannot be settled must not keep the others
		if _, err := s.change(ctx, of, s.settle); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// settle ends a maintenance whose time has come, or begins one that the allocation had
// to end for.
func (s *Service) settle(ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation) (Maintenance, error) {
	if !m.waits() {
		return m, nil
	}
	passed, err := maintenancedb.New(tx).Passed(ctx, m.ID)
	if err != nil {
		return m, fmt.Errorf("look whether maintenance %s is due: %w", m.ID, err)
	}
	switch {
	case !passed:
		return m, nil
	case !m.Kind.stays() && m.agreed():
		return s.endAllocation(ctx, tx, m, a, "its time has come")
	case m.agreed():
		return move(ctx, tx, m, a, Lapse, "its time has passed, and nobody began")
	}
	return move(ctx, tx, m, a, Lapse, "its time has passed without the consent of the tenant")
}

// remind tells tenants of what is near, once per mark. Where several marks passed
// while nobody looked, the latest counts.
func (s *Service) remind(ctx context.Context) error {
	seconds := make([]int64, len(marks))
	for i, m := range marks {
		seconds[i] = int64(m.Seconds())
	}
	near, err := maintenancedb.New(s.db).Near(ctx, seconds)
	if err != nil {
		return fmt.Errorf("list maintenances that are near: %w", err)
	}
	for _, n := range near {
		of, err := id.Parse[id.Maintenance](n.ID)
		if err != nil {
			return fmt.Errorf("read id of maintenance: %w", err)
		}
		if _, err := s.change(ctx, of, reminder(n.Mark)); err != nil {
			return err
		}
	}
	return nil
}

// reminder tells one tenant, unless another replica did.
func reminder(mark int64) func(context.Context, pgx.Tx, Maintenance, allocation.Allocation) (Maintenance, error) {
	return func(ctx context.Context, tx pgx.Tx, m Maintenance, a allocation.Allocation) (Maintenance, error) {
		row, err := maintenancedb.New(tx).SetWarned(ctx, maintenancedb.SetWarnedParams{ID: m.ID, Mark: mark})
		if errors.Is(err, pgx.ErrNoRows) {
			return m, nil
		}
		if err != nil {
			return m, fmt.Errorf("note reminder of maintenance %s: %w", m.ID, err)
		}
		m = from(row)
		return m, tell(ctx, tx, eventwire.MaintenanceDue, m, a, "maintenance is near: "+m.told())
	}
}
