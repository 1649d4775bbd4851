package operation

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/policy"
)

// Tasks asks nodes to do things; agenttask.Commands does.
type Tasks interface {
	Enqueue(ctx context.Context, tx pgx.Tx, r agenttask.Request) (agenttask.Task, error)
	Cancel(ctx context.Context, task id.NodeTask, reason string) (agenttask.Task, error)
	TellWhenEachEnded(ctx context.Context, tasks []id.NodeTask, workflowID, signal string) (int, error)
}

// Members says who may still do what; identity.Service does.
type Members interface {
	StillMay(ctx context.Context, tx pgx.Tx, who string, what auth.Permission, on auth.Target) (bool, error)
}

// Artifacts says what is known of artifacts; artifact.Service does.
type Artifacts interface {
	// Signed says of everything that is fetched at which level the key is whose signature
	// counts; empty: none does. It refuses what was revoked.
	Signed(ctx context.Context, tx pgx.Tx, owner policy.Owner, what []agentwire.Fetch) ([]policy.Scope, error)
}

// Config is what the package needs.
type Config struct {
	DB      *postgres.DB
	Tasks   Tasks
	Members Members        // nil: whoever asked for a run may still have it
	Decider policy.Decider // nil: the chain of policies alone decides
	// Artifacts says what is known of what runs fetch; nil: nothing is.
	Artifacts Artifacts
	// CheckInputs checks what a caller gave against the schema of a version, and fills
	// in defaults; nil: nothing can be asked for.
	CheckInputs func(v definition.Version, given json.RawMessage) (json.RawMessage, error)
	// Linger is how long a turn looks itself for what nodes report before it asks to
	// be told; zero: two seconds.
	Linger time.Duration
	Ahead  *outbox.Ahead // takes turns with a run before a workflow does; nil: workflows do all
	Logger *slog.Logger  // nil: nothing is logged
}

// Service holds the commands and queries of the package. Any number of replicas may
// run side by side.
type Service struct {
	db      *postgres.DB
	tasks   Tasks
	members Members
	decider policy.Decider
	known   Artifacts
	inputs  func(v definition.Version, given json.RawMessage) (json.RawMessage, error)
	linger  time.Duration
	ahead   *outbox.Ahead
	logger  *slog.Logger

	followers followers
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, tasks: cfg.Tasks, members: cfg.Members, decider: cfg.Decider, known: cfg.Artifacts, linger: cfg.Linger,
		ahead: cfg.Ahead, logger: cfg.Logger,
	}
	if s.inputs = cfg.CheckInputs; s.inputs == nil {
		s.inputs = func(v definition.Version, _ json.RawMessage) (json.RawMessage, error) {
			return nil, fault.New(fault.Unavailable, "operation_inputs_unchecked", "nobody can check the inputs of %s here",
				v.Ref())
		}
	}
	if s.linger == 0 {
		s.linger = 2 * time.Second
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}
