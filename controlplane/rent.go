package controlplane

import (
	"gpuaas/controlplane/internal/rent/allocation"
)

// newRent puts together what tenants rent.
func (p *parts) newRent() {
	cfg := allocation.Config{
		DB: p.db, Tasks: p.fleet.tasks, Cleanups: p.decommissions, Terminals: p.fleet.terminals, Logger: p.logger,
		HeardWithin: p.cfg.Nodes.OfflineAfter, WithoutGPUs: p.cfg.Nodes.WithoutGPUs,
	}
	if p.opts.HurryRetries {
		cfg.Patience = hurriedPatience
	}
	p.allocations = allocation.New(cfg)
	p.fleet.expire = p.allocations.Expire
}
