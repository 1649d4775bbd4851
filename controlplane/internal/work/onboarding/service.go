package onboarding

import (
	"context"
	"log/slog"
	"time"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

// Bringup runs the stages; bringup.Bringup implements it.
type Bringup interface {
	Stages() map[string]bringup.Stage
	// Compensate undoes what can be undone and records what is left.
	Compensate(ctx context.Context, w *bringup.Work) error
	// Adopt finds how far the machine has come and names the stage to go on
	// with.
	Adopt(ctx context.Context, w *bringup.Work) (job.Result, error)
	// ProveInstalled checks, without changing anything, whether the machine and
	// its node are as the job was to make them; missing says what is not shown.
	ProveInstalled(ctx context.Context, w *bringup.Work) (p bringup.Proof, missing string, err error)
	// Forget removes the rendered first boot of a job that reached its goal.
	Forget(ctx context.Context, w *bringup.Work) error
}

// Config is what the package needs to work.
type Config struct {
	DB       *postgres.DB
	Bringup  Bringup
	Sites    *site.Service
	Mischief job.Mischief[*bringup.Work]     // nil in production
	Backoff  func(attempt int) time.Duration // delay after the given attempt; if nil, the usual backoff
	Clock    func() time.Time                // if nil, the system clock
	Logger   *slog.Logger                    // if nil, nothing is logged
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	db      *postgres.DB
	reads   *onboardingdb.Queries
	rows    *job.Rows[Onboarding, *bringup.Work]
	bringup Bringup
	sites   *site.Service
	jobs    *job.Runner[Onboarding, *bringup.Work]
	batches *job.Batches[Onboarding, *bringup.Work]
	now     func() time.Time
	logger  *slog.Logger
}

// Described says what onboardings are called and how they live.
func (s *Service) Described() job.Described { return family.Described() }

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, reads: onboardingdb.New(cfg.DB), rows: job.NewRows(cfg.DB, &family, columns), bringup: cfg.Bringup,
		sites: cfg.Sites, now: cfg.Clock,
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger = cfg.Logger; s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	stages := make([]string, len(table))
	for i, stage := range table {
		stages[i] = stage.Name
	}
	s.jobs = job.New(job.Config[Onboarding, *bringup.Work]{
		DB: cfg.DB, Family: &family, Stages: stages, Store: s.rows, Hooks: hooks{s}, Workflow: names,
		BatchWorkflow: wakeBatch,
		Mischief:      cfg.Mischief, Backoff: cfg.Backoff, Clock: s.now, Logger: s.logger,
	})
	s.batches = job.NewBatches(s.rows, s.jobs)
	return s
}
