package reconciliation

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"gpuaas/controlplane/internal/base/id"
)

// gauges are the metrics that ObserveStats exports.
type gauges struct {
	findings, drifted, unreconciled, stale, breakers metric.Int64ObservableGauge
	unheard                                          metric.Float64ObservableGauge
}

func makeGauges(meter metric.Meter) (g gauges, err error) {
	count := func(into *metric.Int64ObservableGauge, name, describes string) {
		if err == nil {
			*into, err = meter.Int64ObservableGauge("gpuaas.reconciliation."+name, metric.WithDescription(describes))
		}
	}
	count(&g.findings, "findings", "Findings that are not over.")
	count(&g.drifted, "drifted_nodes", "Nodes that are not as they should be.")
	count(&g.unreconciled, "unreconciled_nodes", "Nodes that were never looked at, or not for long.")
	count(&g.stale, "stale_sites", "Active sites whose MAAS has not told all that was asked for long.")
	count(&g.breakers, "breakers_open", "Sites in which too many nodes would have been quarantined; an operator must decide.")
	if err == nil {
		g.unheard, err = meter.Float64ObservableGauge("gpuaas.reconciliation.since_informed", metric.WithUnit("s"),
			metric.WithDescription("Time since MAAS of an active site last told all that was asked."))
	}
	if err != nil {
		return g, fmt.Errorf("make gauges of reconciliation: %w", err)
	}
	return g, nil
}

// ObserveStats exports the state of the sites. It reads them at each
// collection.
func (s *Service) ObserveStats() error {
	meter := otel.Meter("gpuaas/reconciliation")
	g, err := makeGauges(meter)
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error { return s.observe(ctx, o, g) },
		g.findings, g.drifted, g.unreconciled, g.stale, g.breakers, g.unheard)
	if err != nil {
		return fmt.Errorf("observe reconciliation: %w", err)
	}
	return nil
}

func (s *Service) observe(ctx context.Context, o metric.Observer, g gauges) error {
	sites, err := s.sites(ctx, id.Site{})
	if err != nil {
		return err
	}
	var stale, open int64
	for _, site := range sites {
		at := metric.WithAttributes(attribute.String("site", site.Name))
		o.ObserveInt64(g.drifted, site.Drifted, at)
		o.ObserveInt64(g.unreconciled, site.Unreconciled, at)
		if site.LastInformedAt != nil && site.State != SitePaused {
			o.ObserveFloat64(g.unheard, max(s.now().Sub(*site.LastInformedAt), 0).Round(time.Millisecond).Seconds(), at)
		}
		if site.Stale {
			stale++
		}
		if site.Breaker != nil {
			open++
		}
	}
	o.ObserveInt64(g.stale, stale)
	o.ObserveInt64(g.breakers, open)
	return s.observeFindings(ctx, o, g)
}

// observeFindings exports zero for a type without findings, so that an alert
// about it ends.
func (s *Service) observeFindings(ctx context.Context, o metric.Observer, g gauges) error {
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
		o.ObserveInt64(g.findings, n, metric.WithAttributes(attribute.String("type", k.finding), attribute.String("severity", k.severity)))
	}
	return nil
}
