package rollout

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// Tasks gives nodes their update; agenttask.Commands implements it.
type Tasks interface {
	Enqueue(ctx context.Context, tx pgx.Tx, r agenttask.Request) (agenttask.Task, error)
	// Withdraw cancels what an owner told a node.
	Withdraw(ctx context.Context, tx pgx.Tx, node id.Node, owner, reason string) error
}

// Config is what a service is made of.
type Config struct {
	DB    *postgres.DB
	Tasks Tasks
	// Prepare completes the parameters of an update: digest and signature of the
	// package. It refuses a version that no node may be given.
	Prepare func(ctx context.Context, node id.Node, params json.RawMessage) (json.RawMessage, error)
	// Released refuses a version that was never released, or may not be given.
	Released func(ctx context.Context, version string) error
	// Giveable refuses a version that no node may be given, released or not: one that is
	// blocked, withdrawn or below the floor.
	Giveable func(ctx context.Context, version string) error
	// Clock is time.Now except in tests.
	Clock func() time.Time
}

// Service holds the commands and queries of the package.
type Service struct {
	Config
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Service{cfg}
}
