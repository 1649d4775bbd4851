package outbox_test

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
)

func TestMetrics(t *testing.T) {
	reader := sdk.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(before) })

	db := postgrestest.New(t)
	stopGauges, err := outbox.ObserveStats(db)
	if err != nil {
		t.Fatal(err)
	}
	to := newScript(func(m outbox.Message) error {
		if m.AggregateID == "sick" {
			return errRefused
		}
		return nil
	})
	appendEvents(t, db, tenantEvent("a", 1), tenantEvent("b", 1), tenantEvent("sick", 1))
	stop := runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(to), MaxAttempts: 1})
	awaitRows(t, db, 0, "status = 'pending'")
	stop()
	appendEvents(t, db, tenantEvent("late", 1))

	got := collect(t, reader)
	for name, want := range map[string]string{
		"gpuaas.outbox.published": "2", "gpuaas.outbox.refused": "1", "gpuaas.outbox.pending": "1",
		"gpuaas.outbox.failed": "1",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %s", name, got[name], want)
		}
	}
	for _, name := range []string{"gpuaas.outbox.lag", "gpuaas.outbox.delivery.duration"} {
		if got[name] == "" || got[name] == "0" {
			t.Errorf("%s = %q, want something", name, got[name])
		}
	}
	if err := stopGauges(); err != nil {
		t.Fatal(err)
	}
}

// collect reads the metrics of destination nats.
func collect(t *testing.T, reader *sdk.ManualReader) map[string]string {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	note := func(name string, at attribute.Set, value any) {
		if v, _ := at.Value("destination"); v.AsString() == "nats" {
			out[name] = fmt.Sprint(value)
		}
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					note(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					note(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					note(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					note(m.Name, p.Attributes, p.Count)
				}
			}
		}
	}
	return out
}
