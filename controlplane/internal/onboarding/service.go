package onboarding

import (
	"context"
	"log/slog"
	"time"

	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/onboarding/internal/onboardingdb"
	"gpuaas/controlplane/internal/postgres"
	"gpuaas/controlplane/internal/site"
)

// Bringup carries stages out; bringup.Bringup does.
type Bringup interface {
	Stages() map[string]bringup.Stage
	// Compensate undoes what may be undone and notes what is left.
	Compensate(ctx context.Context, w *bringup.Work) error
	// Adopt looks how far the machine has come and names the stage to go on with.
	Adopt(ctx context.Context, w *bringup.Work) (bringup.Result, error)
}

// Mischief is what goes wrong around stages, for simulations of faults.
type Mischief interface {
	// Before runs before a stage; its error is the outcome, and the stage is not run.
	Before(ctx context.Context, call durable.StageCall) error
	// After runs when a stage has ended; its error replaces the outcome.
	After(ctx context.Context, call durable.StageCall, outcome error) error
}

// Config is what the package needs to work.
type Config struct {
	DB       *postgres.DB
	Bringup  Bringup
	Sites    *site.Service
	Mischief Mischief                        // nil: none
	Backoff  func(attempt int) time.Duration // before the attempt after this one; nil: as usual
	Clock    func() time.Time                // nil: the clock of the machine
	Logger   *slog.Logger                    // nil: nothing is logged
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	db       *postgres.DB
	reads    *onboardingdb.Queries
	bringup  Bringup
	sites    *site.Service
	mischief Mischief
	backoff  func(attempt int) time.Duration
	now      func() time.Time
	logger   *slog.Logger
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, reads: onboardingdb.New(cfg.DB), bringup: cfg.Bringup, sites: cfg.Sites,
		mischief: cfg.Mischief, backoff: cfg.Backoff, now: cfg.Clock, logger: cfg.Logger,
	}
	if s.mischief == nil {
		s.mischief = peace{}
	}
	if s.backoff == nil {
		s.backoff = patience
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}

type peace struct{}

func (peace) Before(context.Context, durable.StageCall) error { return nil }

func (peace) After(context.Context, durable.StageCall, error) error { return nil }

// patience is how long to wait after a failed attempt: long enough in all for
// a provider that is being restarted.
func patience(attempt int) time.Duration {
	switch attempt {
	case 1:
		return 10 * time.Second
	case 2:
		return 50 * time.Second
	}
	return 2 * time.Minute
}
