package reconciliation

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// Jobs is one family of jobs, for example onboardings.
type Jobs interface {
	// Under lists the jobs at a site that have not ended.
	Under(ctx context.Context, at id.Site) ([]bringup.Working, error)
	// Notice tells a job what reconciliation saw of its machine.
	Notice(ctx context.Context, w bringup.Working, seen string, details map[string]any) error
	// Reconcile ends a parked job if its goal is proven reached.
	Reconcile(ctx context.Context, w bringup.Working) (reached bool, err error)
}

// Tasks queues tasks for nodes. agenttask.Commands implements it.
type Tasks interface {
	Enqueue(ctx context.Context, tx pgx.Tx, r agenttask.Request) (agenttask.Task, error)
}

// Schedules keeps schedules in Temporal. durable.Client implements it.
type Schedules interface {
	KeepSchedules(ctx context.Context, prefix string, want []durable.Schedule) error
}

// Settings tune reconciliation. Zero values mean the defaults.
type Settings struct {
	Every          time.Duration // between two cycles of a site; 5 min
	SweepWithin    time.Duration // time to read all machines of a site; 1 h
	LookAgainAfter time.Duration // between first and second look; 20 s
	KeepRuns       time.Duration // 7 d
	UnusedAfter    time.Duration // how long a setting may stay unused; 24 h
	// Limits of the quarantines within the time of a sweep, unless an operator
	// confirms more. The larger of the share and the number counts.
	MaxQuarantinePercent int // 5
	MaxQuarantineNodes   int // 3
	DryRun               bool
}

func (s Settings) withDefaults() Settings {
	s.Every = cmp.Or(s.Every, 5*time.Minute)
	s.SweepWithin = cmp.Or(s.SweepWithin, time.Hour)
	s.LookAgainAfter = cmp.Or(s.LookAgainAfter, 20*time.Second)
	s.KeepRuns = cmp.Or(s.KeepRuns, 7*24*time.Hour)
	s.UnusedAfter = cmp.Or(s.UnusedAfter, 24*time.Hour)
	s.MaxQuarantinePercent = cmp.Or(s.MaxQuarantinePercent, 5)
	s.MaxQuarantineNodes = cmp.Or(s.MaxQuarantineNodes, 3)
	return s
}

// Config is what the package needs to work.
type Config struct {
	DB        *postgres.DB
	Sites     *site.Service
	Nodes     *node.Service
	Regions   Regions
	Tasks     Tasks
	Jobs      []Jobs
	Schedules Schedules // nil: nothing is scheduled
	// Reimage asks for a node to be released and redeployed. It returns the
	// job.
	Reimage func(ctx context.Context, n id.Node, reason string) (job string, err error)
	// Tenant says in words which tenant works on a node. It returns an empty
	// text if none does. If it is nil, nothing allocates nodes.
	Tenant   func(ctx context.Context, n id.Node) (string, error)
	Settings Settings
	Clock    func() time.Time // nil: the clock of this machine
	Logger   *slog.Logger     // nil: nothing is logged
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	cfg      Config
	db       *postgres.DB
	reads    *reconciliationdb.Queries
	settings Settings
	now      func() time.Time
	logger   *slog.Logger
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		cfg: cfg, db: cfg.DB, reads: reconciliationdb.New(cfg.DB), settings: cfg.Settings.withDefaults(), now: cfg.Clock,
		logger: cfg.Logger,
	}
	if s.cfg.Tenant == nil {
		s.cfg.Tenant = func(context.Context, id.Node) (string, error) { return "", nil }
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}

// principal is the actor in the audit log when reconciliation acts by itself.
const principal = "reconciliation"
