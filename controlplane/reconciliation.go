package controlplane

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// ReconciliationConfig is how MAAS, the agents and the inventory are compared.
type ReconciliationConfig struct {
	Every                time.Duration `koanf:"every" doc:"how often the changes and exceptions of each site are looked at"`
	SweepWithin          time.Duration `koanf:"sweep_within" doc:"within which time every machine of a site is read, whatever points at it"`
	LookAgainAfter       time.Duration `koanf:"look_again_after" doc:"when what one look showed is looked at for the second time, before it is believed"`
	MaxQuarantinePercent int           `koanf:"max_quarantine_percent" doc:"share of a site that may be quarantined by itself within the time of a sweep; more needs an operator"`
	MaxQuarantineNodes   int           `koanf:"max_quarantine_nodes" doc:"number of nodes of a site that may be in any case, where the share is smaller"`
	DryRun               bool          `koanf:"dry_run" doc:"find and report, but do nothing about it"`
}

func defaultReconciliation() ReconciliationConfig {
	return ReconciliationConfig{
		Every: 5 * time.Minute, SweepWithin: time.Hour, LookAgainAfter: 20 * time.Second, MaxQuarantinePercent: 5,
		MaxQuarantineNodes: 3,
	}
}

func (c ReconciliationConfig) check(bad func(string, string, ...any)) {
	if c.Every < time.Second || c.Every%time.Second != 0 {
		bad("reconciliation.every", "%s is not a whole number of seconds", c.Every)
	}
	if c.SweepWithin < 3*c.Every {
		bad("reconciliation.sweep_within", "%s is shorter than three times reconciliation.every", c.SweepWithin)
	}
	if c.LookAgainAfter <= 0 || c.LookAgainAfter > c.Every {
		bad("reconciliation.look_again_after", "%s is not more than 0 and at most reconciliation.every", c.LookAgainAfter)
	}
	if c.MaxQuarantinePercent < 1 || c.MaxQuarantinePercent > 100 {
		bad("reconciliation.max_quarantine_percent", "%d is not between 1 and 100", c.MaxQuarantinePercent)
	}
	if c.MaxQuarantineNodes < 1 {
		bad("reconciliation.max_quarantine_nodes", "%d is less than 1", c.MaxQuarantineNodes)
	}
}

// newReconciliation puts together what compares MAAS, the agents and the
// inventory.
func (p *parts) newReconciliation() {
	c := p.cfg.Reconciliation
	p.reconciliations = reconciliation.New(reconciliation.Config{
		DB: p.db, Sites: p.sites, Nodes: p.fleet.nodes,
		Regions: &reconciliation.RegionsOf{Sites: p.sites, Clients: p.regions},
		Tasks:   p.fleet.tasks, Jobs: p.onMachines(), Schedules: p.temporal,
		Reimage: p.reimage, Tenant: p.decommissions.Tenant, Logger: p.logger,
		Settings: reconciliation.Settings{
			Every: c.Every, SweepWithin: c.SweepWithin, LookAgainAfter: c.LookAgainAfter,
			MaxQuarantinePercent: c.MaxQuarantinePercent, MaxQuarantineNodes: c.MaxQuarantineNodes, DryRun: c.DryRun,
		},
	})
	p.fleet.doubt = p.reconciliations.Suspect
}

// reimage asks for a drifted node to be released and redeployed.
func (p *parts) reimage(ctx context.Context, n id.Node, reason string) (string, error) {
	d, _, err := p.decommissions.Request(ctx, n, decommission.Request{Mode: decommission.Reimage, Reason: reason})
	if err != nil {
		return "", err
	}
	return "decommission " + d.ID.String(), nil
}

// tendReconciliation is how often schedules and suspicions are checked.
const tendReconciliation = 3 * time.Second

// keepReconciling checks schedules and suspicions while the process runs.
func (p *parts) keepReconciling(ctx context.Context) {
	ticker := time.NewTicker(tendReconciliation)
	defer ticker.Stop()
	for {
		if err := p.reconciliations.Tend(ctx); err != nil && ctx.Err() == nil {
			p.logger.WarnContext(ctx, "reconciliation could not be tended", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
