package controlplane

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/adapter/courier"
	"gpuaas/controlplane/internal/operate/operation"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance"
	"gpuaas/controlplane/internal/rent/quota"
	"gpuaas/controlplane/internal/rent/webhook"
)

// admission holds those who rent to their quotas.
type admission struct{ quotas *quota.Service }

// Admit refuses what would exceed a quota.
func (a admission) Admit(ctx context.Context, tx pgx.Tx, r allocation.Admitted) error {
	return a.quotas.Admit(ctx, tx, quota.Ask(r))
}

// heardWithin is how lately an agent must have polled before its node is let. It is
// shorter than the patience with a task that nobody fetches, so that one request
// does not try nodes that have fallen silent.
const heardWithin = 90 * time.Second

func (p *parts) heardWithin() time.Duration { return min(p.cfg.Nodes.OfflineAfter, heardWithin) }

// newRent puts together what tenants rent.
func (p *parts) newRent() {
	p.quotas = quota.New(p.db, allocation.Holdings{})
	allowed, _ := networks(p.cfg.Webhooks.AllowedNetworks) // validated
	forbidden, _ := networks(p.cfg.Webhooks.ForbiddenNetworks)
	p.webhooks = webhook.New(webhook.Config{
		DB: p.db, Secrets: p.secrets, Logger: p.logger, DisableAfter: p.cfg.Webhooks.DisableAfter,
		Courier: courier.New(courier.Config{
			Allowed: allowed, Forbidden: forbidden, ForbiddenHosts: p.cfg.Webhooks.ForbiddenHosts,
			PlainHTTP: p.cfg.Webhooks.PlainHTTP,
		}),
	})
	cfg := allocation.Config{
		DB: p.db, Tasks: p.fleet.tasks, Cleanups: p.decommissions, Terminals: p.fleet.terminals, Papers: p.certificates,
		Logger:      p.logger,
		HeardWithin: p.heardWithin(), WithoutGPUs: p.cfg.Nodes.WithoutGPUs,
		Admission: admission{p.quotas}, Members: p.identity, Runs: operation.Runs{},
	}
	if p.opts.HurryRetries {
		cfg.Patience = hurriedPatience
	}
	if p.opts.Mischief != nil {
		cfg.Mischief = rentMischief{mischief{p.opts.Mischief}}
	}
	p.allocations = allocation.New(cfg)
	p.fleet.hostKeys = p.allocations.HostKeysChanged
	p.maintenances = maintenance.New(p.db, p.allocations)
	p.fleet.rent = func(ctx context.Context) error {
		return errors.Join(p.allocations.Tend(ctx), p.maintenances.Tend(ctx), p.operations.Tend(ctx))
	}
}
