package terminal

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// Tasks asks nodes to do things.
type Tasks interface {
	Enqueue(ctx context.Context, tx pgx.Tx, r agenttask.Request) (agenttask.Task, error)
}

// Holders says who stands behind a token at this moment. It fails as
// httpapi.Authenticator does.
type Holders interface {
	Reauthenticate(ctx context.Context, token id.Token) (*auth.Principal, error)
}

// Visits says whether somebody may stay on what a tenant rents. It fails with a refusal.
type Visits interface {
	MayStay(ctx context.Context, of id.Allocation, who *auth.Principal) error
}

// Config is what terminals need.
type Config struct {
	DB       *postgres.DB
	Tasks    Tasks
	Holders  Holders
	Visits   Visits // nil: nobody asks for terminals on what tenants rent
	Settings Settings
	Logger   *slog.Logger
	// Clock is time.Now except in tests.
	Clock func() time.Time
}

// Service issues tokens and holds the sessions of this replica.
type Service struct {
	db      *postgres.DB
	tasks   Tasks
	holders Holders
	visits  Visits
	// attend has a session watched like any stream. Register sets it.
	attend   attendance
	settings Settings
	logger   *slog.Logger
	clock    func() time.Time
	// name tells this replica, and this start of it, from all others.
	name   string
	broker *broker
}

// New makes the service of a replica.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, tasks: cfg.Tasks, holders: cfg.Holders, visits: cfg.Visits,
		settings: cfg.Settings.withDefaults(), logger: cfg.Logger,
		clock: cfg.Clock, broker: newBroker(),
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	s.name = s.settings.GatewayURL + " " + id.NewString()
	return s
}

// shutdownGrace is how long sessions may take to end when the replica stops.
const shutdownGrace = 10 * time.Second

// Run records which sessions this replica holds and ends abandoned ones, until
// the context ends. Then it takes no more sessions, ends the present ones and
// tells both ends why.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		s.tend(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.broker.shutdown(shutdownGrace)
			return
		}
	}
}

func (s *Service) tend(ctx context.Context) {
	ctx = auth.With(telemetry.WithCorrelation(ctx, id.NewString()),
		&auth.Principal{Kind: auth.KindSystem, ID: "terminal", Name: "terminal"})
	if err := s.beat(ctx); err != nil && ctx.Err() == nil {
		s.logger.ErrorContext(ctx, "terminal sessions of this replica not noted", "error", err)
	}
	if n, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
		s.logger.ErrorContext(ctx, "abandoned terminal sessions not ended", "error", err)
	} else if n > 0 {
		s.logger.InfoContext(ctx, "abandoned terminal sessions ended", "count", n)
	}
}
