package resolver

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// Delivery gives nodes the configuration.
type Delivery struct {
	Tasks agenttask.Commands
}

// Reported looks at what a node says of itself, and gives it the configuration
// if it is behind. An agent that carries out no steps is left alone.
func (d Delivery) Reported(ctx context.Context, n id.Node, generation int64, c agentwire.Capabilities) error {
	p, err := Embedded()
	if err != nil || len(c.StepKinds) == 0 || c.ResolverVersion >= p.Version {
		return err
	}
	return d.Tasks.DB.InTx(auth.With(ctx, auth.System("resolver")), func(ctx context.Context, tx pgx.Tx) error {
		_, err := d.Tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: n, Type: agentwire.TypeResolverConfig, Params: p, Owner: owner{},
			Reason: fmt.Sprintf("the node has version %d of the resolver configuration", c.ResolverVersion),
			// An installation anew has another generation, and nothing of what was
			// there before.
			IdempotencyKey: fmt.Sprintf("resolver/%d/%d/%.6x", p.Version, generation, sha256.Sum256(file)),
		})
		return err
	})
}

// owner stands behind the task: the file that this control plane was built with.
type owner struct{}

// Owns implements agenttask.Owner.
func (owner) Owns(_ context.Context, _ pgx.Tx, _ id.Node, taskType string) error {
	if taskType != agentwire.TypeResolverConfig {
		return fault.New(fault.Forbidden, "node_task_not_owned", "a resolver configuration is not a reason for %s", taskType)
	}
	return nil
}
