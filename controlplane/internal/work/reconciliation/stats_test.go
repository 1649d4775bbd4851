package reconciliation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"gpuaas/controlplane/internal/work/reconciliation"
)

func TestMetricsSayHowSitesStand(t *testing.T) {
	reader := sdk.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(before) })

	o := newOffice(t)
	if err := o.service.ObserveStats(); err != nil {
		t.Fatal(err)
	}
	dc1, dc2 := o.site(t, "dc1", ago(time.Minute)), o.site(t, "dc2", ago(time.Hour))
	n := o.node(t, "c07u43", dc1, ago(time.Minute))
	o.node(t, "c07u44", dc1, nil)
	o.find(t, finding{site: dc1, node: n})
	o.find(t, finding{site: dc1, kind: "of_a_newer_release", severity: reconciliation.Debug})
	o.exec(t, `UPDATE reconciliation_sites SET tripped_at = $2 WHERE site_id = $1`, dc2, noon)

	got := metrics(t, reader)
	for name, want := range map[string]string{
		"findings released critical": "1", "findings powered_off warning": "0", "findings of_a_newer_release debug": "1",
		"drifted_nodes dc1": "1", "drifted_nodes dc2": "0", "unreconciled_nodes dc1": "1", "stale_sites": "1", "breakers_open": "1",
		"since_informed dc1": "60", "since_informed dc2": "3600",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %s", name, got[name], want)
		}
	}
	o.exec(t, `UPDATE maas_sites SET status = 'disabled' WHERE id = $1`, dc2)
	if got := metrics(t, reader); got["since_informed dc2"] != "" || got["stale_sites"] != "0" {
		t.Errorf("a paused site counts: %v", got)
	}
	o.exec(t, `UPDATE maas_sites SET deleted_at = now() WHERE id = $1`, dc1)
	if got := metrics(t, reader); got["findings released critical"] != "0" {
		t.Errorf("a deleted site counts: %v", got)
	}
}

// metrics reads the gauges of reconciliation by name and attributes.
func metrics(t *testing.T, reader *sdk.ManualReader) map[string]string {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	note := func(name string, at attribute.Set, value any) {
		words := []string{strings.TrimPrefix(name, "gpuaas.reconciliation.")}
		for _, key := range []attribute.Key{"site", "type", "severity"} {
			if v, ok := at.Value(key); ok {
				words = append(words, v.AsString())
			}
		}
		out[strings.Join(words, " ")] = fmt.Sprint(value)
	}
	for _, scope := range data.ScopeMetrics {
		if scope.Scope.Name != "gpuaas/reconciliation" {
			continue
		}
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					note(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					note(m.Name, p.Attributes, p.Value)
				}
			}
		}
	}
	return out
}
