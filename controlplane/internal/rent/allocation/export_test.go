package allocation

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// Place records an allocation, and says how long it took to find and claim its node.
func (s *Service) Place(ctx context.Context, ask Ask) (took time.Duration, err error) {
	if ask, err = ask.checked(); err != nil {
		return 0, err
	}
	return took, s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := allocationdb.New(tx)
		org, err := q.OrgOf(ctx, ask.Project)
		if err != nil {
			return err
		}
		of, err := offered(ctx, tx, ask)
		if err != nil {
			return err
		}
		began := time.Now()
		others, err := s.keepUnderLock(ctx, q, ask, id.AllocationRequest{})
		if err != nil {
			return err
		}
		spots, err := s.place(ctx, q, ask, others)
		took = time.Since(began)
		if err != nil {
			return err
		}
		_, err = s.insert(ctx, tx, ask, plot{org: org, sku: of, spot: spots[0]})
		return err
	})
}
