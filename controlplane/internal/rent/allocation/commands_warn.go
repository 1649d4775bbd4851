package allocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// marks are how long before its end the tenant of an allocation is warned.
var marks = []time.Duration{24 * time.Hour, time.Hour, 10 * time.Minute}

// Warn tells tenants that allocations end soon, once per mark and end, and says how
// many it told of. Where several marks passed while nobody looked, the latest counts.
// Any number of replicas may run it.
func (s *Service) Warn(ctx context.Context) (warned int, err error) {
	ctx = auth.With(ctx, auth.System("allocation-expiry"))
	seconds := make([]int64, len(marks))
	for i, m := range marks {
		seconds[i] = int64(m.Seconds())
	}
	due, err := allocationdb.New(s.db).Expiring(ctx, seconds)
	if err != nil {
		return 0, fmt.Errorf("list allocations that end soon: %w", err)
	}
	for _, d := range due {
		of, err := id.Parse[id.Allocation](d.ID)
		if err != nil {
			return warned, fmt.Errorf("read id of allocation: %w", err)
		}
		told, err := s.warn(ctx, of, d.Mark)
		if err != nil {
			return warned, err
		}
		if told {
			warned++
		}
	}
	return warned, nil
}

// warn tells of one allocation, unless another replica did or its end was moved.
func (s *Service) warn(ctx context.Context, of id.Allocation, mark int64) (told bool, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := allocationdb.New(tx).SetWarned(ctx, allocationdb.SetWarnedParams{ID: of, Mark: mark})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("note warning of allocation %s: %w", of, err)
		}
		a, err := from(row)
		if err != nil {
			return err
		}
		told = true
		message := fmt.Sprintf("it ends at %s, in %s: extend it, or save what is on the node",
			a.ExpiresAt.UTC().Format(time.RFC3339), max(0, time.Until(*a.ExpiresAt)).Round(time.Minute))
		if err := note(ctx, tx, a, "expiring", message, map[string]any{
			"expires_at": a.ExpiresAt, "seconds_before": mark,
		}); err != nil {
			return err
		}
		return publish(ctx, tx, eventwire.AllocationExpiring, a, message)
	})
	return told, err
}
