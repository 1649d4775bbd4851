package decommission

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/certificate"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
	"gpuaas/controlplane/internal/work/job"
)

// Bringup runs the stages on machines of MAAS; bringup.Bringup implements it.
type Bringup interface {
	Stages() map[string]bringup.Stage
	Adopt(ctx context.Context, w *bringup.Work) (job.Result, error)
	Compensate(ctx context.Context, w *bringup.Work) error
	// ProveInstalled checks, without changing anything, whether the machine and
	// its node are as the job was to make them; missing says what is not shown.
	ProveInstalled(ctx context.Context, w *bringup.Work) (p bringup.Proof, missing string, err error)
	// ProveVacant checks, without changing anything, whether the machine is
	// free and off, or no longer known.
	ProveVacant(ctx context.Context, w *bringup.Work) (missing string, err error)
	// PowerCycle switches the machine off and on again for a stage.
	PowerCycle(ctx context.Context, w *bringup.Work, stage string) error
	// Forget removes the rendered first boot of a job that no longer needs it.
	Forget(ctx context.Context, w *bringup.Work) error
}

// Tasks gives tasks to nodes; agenttask.Commands implements it.
type Tasks interface {
	Enqueue(ctx context.Context, tx pgx.Tx, r agenttask.Request) (agenttask.Task, error)
	Cancel(ctx context.Context, task id.NodeTask, reason string) (agenttask.Task, error)
	CancelOf(ctx context.Context, node id.Node, workflowID, reason string) error
	Task(ctx context.Context, task id.NodeTask) (agenttask.Task, error)
	TellWhenEnded(ctx context.Context, task id.NodeTask, workflowID string) (agenttask.Task, error)
}

// Terminals ends the interactive sessions of a node; terminal.Service
// implements it.
type Terminals interface {
	EndAll(ctx context.Context, tx pgx.Tx, node id.Node) error
}

// Secrets deletes what the secrets engine keeps about a node; secrets.Engine
// implements it.
type Secrets interface {
	Delete(ctx context.Context, path string) error
}

// Certificates signs evidence; certificate.Service implements it.
type Certificates interface {
	Issue(ctx context.Context, d certificate.Draft) (certificate.Issued, error)
}

// Config is what the package needs to work.
type Config struct {
	DB           *postgres.DB
	Nodes        *node.Service
	Sites        *site.Service
	Bringup      Bringup
	Tasks        Tasks
	Terminals    Terminals
	Secrets      Secrets
	Certificates Certificates
	Allocations  Allocations // nil: nothing allocates nodes
	// Delivered returns the digests of the programs of an agent version, by
	// name, or nil if they are not known here.
	Delivered func(version string) map[string]string
	// WithoutGPUs: machines that were added by hand, and on which no GPU was ever
	// seen, have none, although their SKU does: virtual ones. Their cleaning ends
	// with gaps.
	WithoutGPUs bool
	// AgentPatience is how long a task may wait until the agent fetches it. If
	// zero, the profile of the node decides.
	AgentPatience time.Duration
	// Linger is how long a stage itself waits for a task that it has just
	// created. If zero, one second; if negative, not at all.
	Linger   time.Duration
	Ahead    *outbox.Ahead                   // nil: workflows do all
	Mischief job.Mischief[*bringup.Work]     // nil in production
	Backoff  func(attempt int) time.Duration // if nil, the usual backoff
	Clock    func() time.Time                // if nil, the system clock
	Logger   *slog.Logger                    // if nil, nothing is logged
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	db           *postgres.DB
	reads        *decommissiondb.Queries
	rows         *job.Rows[Decommission, *bringup.Work]
	nodes        *node.Service
	sites        *site.Service
	bringup      Bringup
	tasks        Tasks
	terminals    Terminals
	secrets      Secrets
	certificates Certificates
	allocations  Allocations
	delivered    func(version string) map[string]string
	patience     time.Duration
	lingers      time.Duration
	withoutGPUs  bool
	now          func() time.Time
	logger       *slog.Logger
	runner       *job.Runner[Decommission, *bringup.Work]
	batches      *job.Batches[Decommission, *bringup.Work]
	family       *job.Family[Decommission]
}

// Described says what decommissions are called and how they live.
func (s *Service) Described() job.Described { return s.family.Described() }

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, reads: decommissiondb.New(cfg.DB), nodes: cfg.Nodes, sites: cfg.Sites, bringup: cfg.Bringup,
		tasks: cfg.Tasks, terminals: cfg.Terminals,
		secrets: cfg.Secrets, certificates: cfg.Certificates, allocations: cfg.Allocations, delivered: cfg.Delivered,
		patience: cfg.AgentPatience, withoutGPUs: cfg.WithoutGPUs, now: cfg.Clock,
		logger: cfg.Logger, family: family(),
	}
	if s.allocations == nil {
		s.allocations = vacancy{}
	}
	s.rows = job.NewRows(cfg.DB, s.family, columns)
	if s.lingers = cfg.Linger; s.lingers == 0 {
		s.lingers = time.Second
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.runner = job.New(job.Config[Decommission, *bringup.Work]{
		DB: cfg.DB, Family: s.family, Stages: AllStages(), Store: s.rows, Hooks: hooks{s}, Workflow: workflowNames,
		Mischief: cfg.Mischief, Backoff: cfg.Backoff, Clock: cfg.Clock, Logger: cfg.Logger,
	})
	if cfg.Mischief == nil { // it wants to be around what workflows do
		s.rows.LeadBy(cfg.Ahead, s.runner)
	}
	s.batches = job.NewBatches(s.rows, s.runner)
	return s
}
