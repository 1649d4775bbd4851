package agentrun

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
)

// Tasks tells nodes what to do; agenttask.Commands implements it.
type Tasks interface {
	Enqueue(ctx context.Context, tx pgx.Tx, r agenttask.Request) (agenttask.Task, error)
	// Withdraw cancels what an owner told a node.
	Withdraw(ctx context.Context, tx pgx.Tx, node id.Node, owner, reason string) error
}

// Nodes shows agents and makes bootstraps; node.Service implements it.
type Nodes interface {
	AgentOf(ctx context.Context, of id.Node) (node.AgentView, error)
	IssueBootstrap(ctx context.Context, of id.Node, purpose node.Purpose) (node.BootstrapView, error)
}

// Package is what a version is made of, for whoever installs it by hand.
type Package struct {
	Version  string            `json:"version"`
	Digest   string            `json:"digest" doc:"Of the archive, as sha256:…"`
	Size     int64             `json:"size_bytes"`
	Signer   string            `json:"signer_version" doc:"Whose signature it bears."`
	Programs map[string]string `json:"programs" nullable:"false" doc:"Digests of the programs in it by their names."`
}

// Config is what a service is made of.
type Config struct {
	DB    *postgres.DB
	Tasks Tasks
	Nodes Nodes
	// Prepare completes the parameters of an update: digest and signature of the package.
	// It refuses a version that no node may be given.
	Prepare func(ctx context.Context, node id.Node, params json.RawMessage) (json.RawMessage, error)
	// Programs returns the digests of the programs of a version.
	Programs func(ctx context.Context, version string) (map[string]string, error)
	// Reinstall asks for the decommission that reinstalls a node. Asking again returns the
	// one that is under way.
	Reinstall func(ctx context.Context, of id.Node, reason string) (id.Decommission, error)
	// Clock is time.Now except in tests.
	Clock func() time.Time
}

// Service holds the commands and queries of the package.
type Service struct {
	Config

	asking chan struct{} // who asks for a decommission
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Service{cfg, make(chan struct{}, 1)}
}
