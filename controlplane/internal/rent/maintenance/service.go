package maintenance

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/allocation"
)

// Allocations is what tenants have; allocation.Service does.
type Allocations interface {
	// Mine reads an allocation of a project that the caller may change.
	Mine(ctx context.Context, which id.Allocation, project id.Project) (allocation.Allocation, error)
	// ReleaseIn, BeginRepairIn and EndRepairIn change one that the transaction holds.
	ReleaseIn(ctx context.Context, tx pgx.Tx, a allocation.Allocation, l allocation.Leaving) (allocation.Allocation, error)
	BeginRepairIn(ctx context.Context, tx pgx.Tx, a allocation.Allocation, of id.Maintenance, reason string) error
	EndRepairIn(ctx context.Context, tx pgx.Tx, a allocation.Allocation, reason string) error
}

// Service holds the commands and queries of the package. Any number of replicas
// may run side by side.
type Service struct {
	db          *postgres.DB
	allocations Allocations
}

// New makes the service. It connects to nothing.
func New(db *postgres.DB, allocations Allocations) *Service {
	return &Service{db: db, allocations: allocations}
}
