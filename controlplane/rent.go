package controlplane

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/quota"
)

// admission holds those who rent to their quotas.
type admission struct{ quotas *quota.Service }

// Admit refuses what would exceed a quota.
func (a admission) Admit(ctx context.Context, tx pgx.Tx, r allocation.Admitted) error {
	return a.quotas.Admit(ctx, tx, quota.Ask(r), allocation.Holdings{})
}

// newRent puts together what tenants rent.
func (p *parts) newRent() {
	p.quotas = quota.New(p.db)
	cfg := allocation.Config{
		DB: p.db, Tasks: p.fleet.tasks, Cleanups: p.decommissions, Terminals: p.fleet.terminals, Papers: p.certificates,
		Logger:      p.logger,
		HeardWithin: p.cfg.Nodes.OfflineAfter, WithoutGPUs: p.cfg.Nodes.WithoutGPUs, Admission: admission{p.quotas},
	}
	if p.opts.HurryRetries {
		cfg.Patience = hurriedPatience
	}
	p.allocations = allocation.New(cfg)
	p.fleet.expire = p.allocations.Expire
}
