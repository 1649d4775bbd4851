package webhook

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
)

// Secrets keeps the secrets of webhooks; the secrets engine does.
type Secrets interface {
	Put(ctx context.Context, path string, values map[string]redact.Secret) error
	Get(ctx context.Context, path string) (map[string]redact.Secret, error)
	Delete(ctx context.Context, path string) error
}

// Courier posts messages to addresses that tenants choose; courier.Courier does.
type Courier interface {
	// Check refuses an address that can never be posted to.
	Check(url string) error
	// Post returns the status of the answer and how it begins, or why there is none.
	Post(ctx context.Context, url string, header map[string]string, body []byte) (status int, begins string, err error)
}

// Config is what the package needs.
type Config struct {
	DB      *postgres.DB
	Secrets Secrets
	Courier Courier
	// DisableAfter is how long a webhook may do nothing but fail; zero: three days.
	DisableAfter time.Duration
	Logger       *slog.Logger // nil: nothing is logged
}

// Service holds the commands and queries of the package. Any number of replicas
// may run side by side.
type Service struct {
	db           *postgres.DB
	secrets      Secrets
	courier      Courier
	disableAfter time.Duration
	logger       *slog.Logger
	backoff      func(attempt int32) (time.Duration, bool)
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, secrets: cfg.Secrets, courier: cfg.Courier, disableAfter: cfg.DisableAfter, logger: cfg.Logger,
		backoff: func(attempt int32) (time.Duration, bool) {
			return backoff(attempt, rand.Float64()) //nolint:gosec // it spreads attempts and hides nothing
		},
	}
	if s.disableAfter == 0 {
		s.disableAfter = 3 * 24 * time.Hour
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}
