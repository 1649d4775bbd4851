package metering

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/metering/internal/meteringdb"
	"gpuaas/controlplane/internal/money/rating"
)

// read locks a meter and reads what it is about; false: it is closed, or somebody else
// has it.
func (s *Service) read(ctx context.Context, q *meteringdb.Queries, of id.Allocation) (reading, bool, error) {
	row, err := q.Lock(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return reading{}, false, nil
	}
	if err != nil {
		return reading{}, false, fmt.Errorf("lock meter: %w", err)
	}
	r := reading{
		Allocation: row.AllocationID, Org: row.OrgID, Terms: rating.Fixed(row.Units, row.PriceMinor, row.PaidShare),
		Active: row.ActiveAt, Ended: row.ReleaseRequestedAt, Live: row.Live, Until: row.ChargedUntil,
	}
	if row.Currency != nil {
		r.Currency = *row.Currency
	}
	// Asked after the lock: whoever held it before may have charged until a later moment.
	if r.Now, err = s.clock(ctx, q); err != nil {
		return reading{}, false, fmt.Errorf("read clock: %w", err)
	}
	return r, true, nil
}
