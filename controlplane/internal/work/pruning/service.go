package pruning

import (
	"log/slog"
	"time"

	"gpuaas/controlplane/internal/engine/postgres"
)

// Config is what the service is made of. Clock may be nil.
type Config struct {
	DB     *postgres.DB
	Policy Policy
	Logger *slog.Logger
	Clock  func() time.Time
}

// Service deletes what grew old.
type Service struct {
	db     *postgres.DB
	policy Policy
	logger *slog.Logger
	now    func() time.Time
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{db: cfg.DB, policy: cfg.Policy, logger: cfg.Logger, now: cfg.Clock}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}
