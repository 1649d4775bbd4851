package controlplane

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/pruning"
)

// PruneConfig is what is deleted when it is old.
type PruneConfig struct {
	Every               time.Duration `koanf:"every" doc:"how often old rows are deleted; 0: only when somebody runs gpuaas admin prune"`
	KeepNewest          int           `koanf:"keep_newest" doc:"how many of the newest rows of each node stay, whatever their age"`
	OutboxEvents        time.Duration `koanf:"outbox_events" doc:"how long messages of the outbox are kept that were published or discarded; 0: for ever"`
	NodeCertificates    time.Duration `koanf:"node_certificates" doc:"how long certificates of nodes are kept after they expired and were replaced; 0: for ever"`
	NodeTasks           time.Duration `koanf:"node_tasks" doc:"how long tasks are kept that ended; those that evidence names stay; 0: for ever"`
	CertificateRenewals time.Duration `koanf:"certificate_renewals" doc:"how long the history of a node shows that its agent renewed its certificate; 0: for ever"`
	WebhookDeliveries   time.Duration `koanf:"webhook_deliveries" doc:"how long the log of webhooks shows what was delivered or given up; 0: for ever"`
	OperationLogs       time.Duration `koanf:"operation_logs" doc:"how long what the steps of operations printed is kept after the run has ended; 0: for ever"`
	JobLedgers          time.Duration `koanf:"job_ledgers" doc:"how long the ledgers of jobs are kept that are over; those with evidence or a certificate stay; 0: for ever"`
}

func defaultPrune() PruneConfig {
	const day = 24 * time.Hour
	return PruneConfig{
		Every: day, KeepNewest: 20, OutboxEvents: 7 * day, NodeCertificates: 30 * day, NodeTasks: 90 * day,
		CertificateRenewals: 90 * day, WebhookDeliveries: 14 * day, OperationLogs: 90 * day,
	}
}

// shortestKept is how long rows are kept at least: what is younger may still be
// needed by whoever wrote it.
const shortestKept = time.Hour

func (c PruneConfig) check(bad func(string, string, ...any)) {
	if c.Every != 0 && c.Every < time.Minute {
		bad("prune.every", "%s is shorter than a minute; 0 turns it off", c.Every)
	}
	if c.KeepNewest < 1 || c.KeepNewest > 10000 {
		bad("prune.keep_newest", "%d is not between 1 and 10000", c.KeepNewest)
	}
	for key, keep := range map[string]time.Duration{
		"prune.outbox_events": c.OutboxEvents, "prune.node_certificates": c.NodeCertificates, "prune.node_tasks": c.NodeTasks,
		"prune.certificate_renewals": c.CertificateRenewals, "prune.job_ledgers": c.JobLedgers,
		"prune.webhook_deliveries": c.WebhookDeliveries, "prune.operation_logs": c.OperationLogs,
	} {
		if keep != 0 && keep < shortestKept {
			bad(key, "%s is shorter than %s; 0 keeps them for ever", keep, shortestKept)
		}
	}
}

// newPruning lists every kind of rows that may be deleted when it is old. The slice
// that owns the rows says which, and deletes them.
func (p *parts) newPruning() *pruning.Service {
	c := p.cfg.Prune
	return pruning.New(pruning.Config{DB: p.db, Logger: p.logger, Policy: pruning.Policy{
		Every: c.Every, KeepNewest: int32(c.KeepNewest), //nolint:gosec // validated
		Kinds: []pruning.Kind{
			{
				Name: "outbox_events", What: "messages of the outbox that were published or discarded",
				Keep: c.OutboxEvents, Rows: outbox.Finished{DB: p.db},
			},
			{
				Name: "node_certificates", What: "certificates of nodes that expired and were replaced",
				Keep: c.NodeCertificates, Rows: node.Certificates{Service: p.fleet.nodes},
			},
			{
				Name: "node_tasks", What: "tasks of nodes that ended and that no evidence names",
				Keep: c.NodeTasks, Rows: p.fleet.tasks,
			},
			{
				Name: "certificate_renewals", What: "entries in the history of nodes that say that a certificate was renewed",
				Keep: c.CertificateRenewals, Rows: node.Renewals{Service: p.fleet.nodes},
			},
			{
				Name: "job_ledgers", What: "entries in ledgers of jobs that are over and left no evidence, but for the last",
				Keep: c.JobLedgers, Rows: job.Ledgers{DB: p.db},
			},
			{
				Name: "webhook_deliveries", What: "what webhooks were told, or what was given up",
				Keep: c.WebhookDeliveries, Rows: p.webhooks,
			},
			{
				Name: "operation_logs", What: "what the steps of operations printed that have ended",
				Keep: c.OperationLogs, Rows: p.operations,
			},
		},
	}})
}

// lookForOld is how often a worker looks whether a run is due.
const lookForOld = time.Minute

// keepPruning deletes old rows while the process runs.
func (p *parts) keepPruning(ctx context.Context) {
	ticker := time.NewTicker(lookForOld)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := p.pruning.Tend(telemetry.WithCorrelation(ctx, id.NewString())); err != nil && ctx.Err() == nil {
			p.logger.WarnContext(ctx, "old rows could not be deleted", "error", err)
		}
	}
}
