package allocation

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/terminal"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// Admission decides whether a project may have more, or wait for more. It runs in the
// transaction that makes the allocations or the request that waits, and refuses with a
// fault that names used, asked and limit.
type Admission interface {
	Admit(ctx context.Context, tx pgx.Tx, r Admitted) error
}

// Admitted is what a request would add to what a project has.
type Admitted struct {
	Org         id.Org
	Project     id.Project
	SKU         string
	GPUs, Nodes int32
	Waits       bool // it begins to wait: what is waited for already counts, too
	Placed      bool // an operator places it for somebody who did not ask for it
}

// Pricing agrees on what an allocation costs, in the transaction that makes it;
// account.Service does.
type Pricing interface {
	// Quote says what an allocation would cost that was made now.
	Quote(ctx context.Context, tx pgx.Tx, of Priced) (Price, error)
	Freeze(ctx context.Context, tx pgx.Tx, of Priced) (Price, error)
}

// Priced is an allocation that is being made.
type Priced struct {
	Allocation id.Allocation
	Org        id.Org
	Project    id.Project
	SKU        string
	GPUs       int32
	Lasts      time.Duration // until it ends by itself; zero: it does not
	Machines   int32         // of a quote: how many are asked for
	Placed     bool          // an operator places it for somebody who did not ask for it
}

// Price is what an allocation costs.
type Price struct {
	Minor    int64    // one GPU for one hour, by the list
	Currency string   // empty: as the SKU says, and nothing is charged
	Hour     int64    // all of it for one hour, less discounts
	Whole    int64    // all of it until it ends by itself
	Refused  *Refusal // of a quote: why it would be refused for want of money; nil: it would not
}

// Refusal is why something would be refused.
type Refusal struct {
	Code    string `json:"code" example:"insufficient_balance"`
	Message string `json:"message" doc:"What is missing."`
	Remedy  string `json:"remedy,omitempty" doc:"What to do about it."`
}

// Cost is what a request costs.
type Cost struct {
	Currency    string   `json:"currency" example:"USD"`
	HourMinor   int64    `json:"hour_minor" doc:"All that was asked for, for one hour, less discounts, in minor units."`
	ExpiryMinor *int64   `json:"until_expiry_minor,omitempty" doc:"All of it until it ends by itself. Left out: it does not."`
	Refused     *Refusal `json:"refused,omitempty" doc:"Only before it is asked for: why it would be refused for want of money. Left out: its first window can be paid."`
}

// with adds the price of an allocation; nil: nothing is charged.
func (c *Cost) with(p Price, lasts time.Duration) *Cost {
	if p.Currency == "" {
		return c
	}
	if c == nil {
		c = &Cost{Currency: p.Currency}
	}
	c.HourMinor += p.Hour
	c.Refused = p.Refused
	if lasts > 0 {
		whole := p.Whole
		if c.ExpiryMinor != nil {
			whole += *c.ExpiryMinor
		}
		c.ExpiryMinor = &whole
	}
	return c
}

// Tasks asks nodes to do things; agenttask.Commands does.
type Tasks interface {
	Enqueue(ctx context.Context, tx pgx.Tx, r agenttask.Request) (agenttask.Task, error)
	Cancel(ctx context.Context, task id.NodeTask, reason string) (agenttask.Task, error)
	Task(ctx context.Context, task id.NodeTask) (agenttask.Task, error)
	TellWhenEnded(ctx context.Context, task id.NodeTask, workflowID string) (agenttask.Task, error)
}

// Cleanups cleans nodes; decommission.Service does.
type Cleanups interface {
	Request(ctx context.Context, of id.Node, r decommission.Request) (d decommission.Decommission, made bool, err error)
	// Ready returns what begins a cleanup in a transaction of the caller; nil: only
	// Request can do so.
	Ready(ctx context.Context, of id.Node, r decommission.Request) (postgres.TxFunc, error)
	Get(ctx context.Context, of id.Decommission) (decommission.Decommission, error)
	Act(ctx context.Context, of id.Decommission, action job.Trigger, reason string) (decommission.Decommission, error)
}

// Terminals opens interactive sessions; terminal.Service does.
type Terminals interface {
	Mint(ctx context.Context, w terminal.Wish, admit postgres.TxFunc) (terminal.Session, redact.Secret, error)
	EndAll(ctx context.Context, tx pgx.Tx, node id.Node) error
}

// Papers reads signed documents; certificate.Service does.
type Papers interface {
	Signed(ctx context.Context, of id.Certificate) ([]byte, error)
}

// Members says who may still do what; identity.Service does.
type Members interface {
	StillMay(ctx context.Context, tx pgx.Tx, who string, what auth.Permission, on auth.Target) (bool, error)
}

// Runs is what operations do on nodes; operation.Runs stops it.
type Runs interface {
	// LeaveNode stops it, in the transaction that takes the node from its tenant.
	LeaveNode(ctx context.Context, tx pgx.Tx, of id.Node, reason string) error
}

// Config is what the package needs.
type Config struct {
	DB        *postgres.DB
	Admission Admission // nil: everybody may have what there is
	Pricing   Pricing   // nil: it costs what the SKU says
	Tasks     Tasks
	Cleanups  Cleanups
	Terminals Terminals
	Papers    Papers
	Members   Members // nil: whoever asked for something may still have it
	Runs      Runs    // nil: nothing is run on nodes
	// Ahead provisions before a workflow starts to; nil: workflows do.
	Ahead *outbox.Ahead
	// HeardWithin is how lately the agent of a node must have called; zero: 90 s.
	HeardWithin time.Duration
	// Patience is how long a task of provisioning may wait for its node to fetch
	// it; zero: two minutes.
	Patience time.Duration
	// WithoutGPUs hands out machines on whose bus there is no GPU, although their
	// SKU has some: virtual ones.
	WithoutGPUs bool
	Mischief    Mischief     // nil in production
	Logger      *slog.Logger // nil: nothing is logged
}

// Service holds the commands and queries of the package. Any number of replicas
// may run side by side.
type Service struct {
	db        *postgres.DB
	admission Admission
	pricing   Pricing
	tasks     Tasks
	cleanups  Cleanups
	terminals Terminals
	papers    Papers
	members   Members
	runs      Runs
	ahead     *outbox.Ahead
	heard     time.Duration
	patience  time.Duration
	gate      gate
	mischief  Mischief
	logger    *slog.Logger

	reviewedAt atomic.Int64 // the hour in which this replica last asked for a review of all keys
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, admission: cfg.Admission, pricing: cfg.Pricing, tasks: cfg.Tasks, cleanups: cfg.Cleanups,
		terminals: cfg.Terminals, papers: cfg.Papers, members: cfg.Members, runs: cfg.Runs, mischief: cfg.Mischief,
		heard: cfg.HeardWithin, patience: cfg.Patience, gate: gate{withoutGPUs: cfg.WithoutGPUs}, logger: cfg.Logger,
	}
	if s.mischief == nil { // otherwise it wants to be around what workflows do
		s.mischief, s.ahead = peace{}, cfg.Ahead
	}
	if s.heard == 0 {
		s.heard = 90 * time.Second
	}
	if s.patience == 0 {
		s.patience = 2 * time.Minute
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}
