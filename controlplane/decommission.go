package controlplane

import (
	"gpuaas/controlplane/internal/operate/operation"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/work/decommission"
)

// newDecommission puts together what cleans nodes and takes them out.
func (p *parts) newDecommission() (kind, error) {
	cfg := decommission.Config{
		DB: p.db, Nodes: p.fleet.nodes, Sites: p.sites, Bringup: p.bringup, Tasks: p.fleet.tasks,
		Terminals: p.fleet.terminals, Secrets: p.secrets, Ahead: p.ahead,
		Allocations:  allocation.Tenancies{Runs: operation.Runs{}},
		WithoutGPUs:  p.cfg.Nodes.WithoutGPUs,
		Certificates: p.certificates, Delivered: p.fleet.delivered, Mischief: p.mischief(), Logger: p.logger,
	}
	if p.opts.HurryRetries {
		cfg.Backoff, cfg.AgentPatience = hurried, hurriedPatience
	}
	p.decommissions = decommission.New(cfg) // drift asks it for reimages
	return p.decommissions, nil
}
