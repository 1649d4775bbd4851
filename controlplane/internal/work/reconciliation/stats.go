package reconciliation

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/telemetry"
)

var (
	findingsOpen = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.reconciliation.findings", Labels: []string{"type", "severity"}, Help: "Findings that are not over.",
	})
	driftedNodes = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.reconciliation.drifted_nodes", Labels: []string{"site"}, Help: "Nodes that are not as they should be.",
	})
	unreconciledNodes = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.reconciliation.unreconciled_nodes", Labels: []string{"site"},
		Help: "Nodes that were never looked at, or not for long.",
	})
	staleSites = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.reconciliation.stale_sites", Help: "Active sites whose MAAS has not told all that was asked for long.",
	})
	breakersOpen = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.reconciliation.breakers_open",
		Help: "Sites in which too many nodes would have been quarantined; an operator must decide.",
	})
	sinceInformed = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.reconciliation.since_informed", Seconds: true, Labels: []string{"site"},
		Help: "Time since MAAS of an active site last told all that was asked.",
	})
)

// ObserveStats exports the state of the sites. It reads them at each
// collection.
func (s *Service) ObserveStats() error {
	_, err := telemetry.Observe(s.observe, findingsOpen, driftedNodes, unreconciledNodes, staleSites, breakersOpen,
		sinceInformed)
	return err
}

func (s *Service) observe(ctx context.Context, seen telemetry.Seen) error {
	sites, err := s.sites(ctx, id.Site{})
	if err != nil {
		return err
	}
	var stale, open float64
	for _, site := range sites {
		seen(driftedNodes, float64(site.Drifted), site.Name)
		seen(unreconciledNodes, float64(site.Unreconciled), site.Name)
		if site.LastInformedAt != nil && site.State != SitePaused {
			seen(sinceInformed, max(s.now().Sub(*site.LastInformedAt), 0).Round(time.Millisecond).Seconds(), site.Name)
		}
		if site.Stale {
			stale++
		}
		if site.Breaker != nil {
			open++
		}
	}
	seen(staleSites, stale)
	seen(breakersOpen, open)
	return s.observeFindings(ctx, seen)
}

// observeFindings exports zero for a type without findings, so that an alert
// about it ends.
func (s *Service) observeFindings(ctx context.Context, seen telemetry.Seen) error {
	rows, err := s.reads.ShowPresent(ctx, nil)
	if err != nil {
		return fmt.Errorf("count findings: %w", err)
	}
	type kind struct{ finding, severity string }
	count := map[kind]int64{}
	for _, r := range Rules {
		count[kind{string(r.Type), string(r.Severity)}] = 0
	}
	for _, r := range rows {
		count[kind{r.Type, r.Severity}] += r.Findings
	}
	for k, n := range count {
		seen(findingsOpen, float64(n), k.finding, k.severity)
	}
	return nil
}
