package pruning

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/work/pruning/internal/pruningdb"
)

// Due is what a run would delete now, and when there was one.
type Due struct {
	LastRun *time.Time
	Kinds   []Pruned
}

// Survey counts what a run would delete, and deletes nothing.
func (s *Service) Survey(ctx context.Context) (Due, error) {
	last, err := pruningdb.New(s.db).LastRun(ctx)
	if err != nil {
		return Due{}, fmt.Errorf("read when old rows were last deleted: %w", err)
	}
	due, now := Due{LastRun: last}, s.now()
	for _, k := range s.policy.Kinds {
		p := k.pruned(now)
		if p.Before != nil {
			if p.Rows, err = k.Rows.CountPrunable(ctx, *p.Before, s.policy.KeepNewest); err != nil {
				return Due{}, err
			}
		}
		due.Kinds = append(due.Kinds, p)
	}
	return due, nil
}
