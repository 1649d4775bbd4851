package statement

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/statement/internal/statementdb"
)

// Schedules keeps schedules in Temporal. durable.Client implements it.
type Schedules interface {
	KeepSchedules(ctx context.Context, prefix string, want []durable.Schedule) error
}

// Config is what the package needs.
type Config struct {
	DB         *postgres.DB
	Schedules  Schedules // nil: nothing is scheduled
	Issuer     string    // who issues statements
	CloseAfter time.Duration
	Every      time.Duration    // how often months are closed and the ledger is compared
	Clock      func() time.Time // nil: that of the database
	Here       func() time.Time // the clock of this process, which must agree; nil: Clock if given, else the real one
}

// Service holds the commands and queries of the package. Any number of replicas may run
// side by side.
type Service struct {
	db         *postgres.DB
	schedules  Schedules
	issuer     string
	closeAfter time.Duration
	every      time.Duration
	clock      func(context.Context, *statementdb.Queries) (time.Time, error)
	here       func() time.Time
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, schedules: cfg.Schedules, issuer: cfg.Issuer, closeAfter: cfg.CloseAfter, every: cfg.Every,
	}
	s.clock = func(ctx context.Context, q *statementdb.Queries) (time.Time, error) {
		if cfg.Clock != nil {
			return cfg.Clock(), nil
		}
		return q.Now(ctx)
	}
	switch s.here = time.Now; {
	case cfg.Here != nil:
		s.here = cfg.Here
	case cfg.Clock != nil:
		s.here = cfg.Clock
	}
	return s
}

// closing is the time by which months are closed, if this process agrees to it: what is
// closed too early stays closed.
func (s *Service) closing(ctx context.Context, q *statementdb.Queries) (time.Time, error) {
	now, err := s.clock(ctx, q)
	if err != nil {
		return now, fmt.Errorf("read clock: %w", err)
	}
	return now, postgres.ClocksAgree(now, s.here())
}

// Tend keeps the schedule by which months are closed and the ledger is compared.
func (s *Service) Tend(ctx context.Context) error {
	if s.schedules == nil {
		return nil
	}
	return s.schedules.KeepSchedules(ctx, schedulePrefix, []durable.Schedule{{
		ID: schedulePrefix + "hourly", Every: s.every, Offset: (s.every / 8).Truncate(time.Second),
		Jitter: s.every / 60, Workflow: WorkflowType, WorkflowID: "billing-statements",
	}})
}

const schedulePrefix = "statements/"
