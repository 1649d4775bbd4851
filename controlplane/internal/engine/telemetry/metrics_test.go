package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/telemetry"
)

var (
	testCounter = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.test.ended", Help: "Ended.",
		Labels: []string{"kind"},
	})
	testSeconds = telemetry.NewHistogram(telemetry.Metric{
		Name: "gpuaas.test.duration", Help: "Took.", Seconds: true, Labels: []string{"kind"}, Buckets: []float64{1, 2},
	})
	testLevel = telemetry.NewLevel(telemetry.Metric{Name: "gpuaas.test.polls", Help: "Waiting."})
	testRows  = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.test.oldest", Help: "Age.", Seconds: true,
		Labels: []string{"kind"},
	})
)

// What a metric says its name in Prometheus is, is what the exporter calls it,
// also after another provider was set.
func TestDeclaredMetricsAreExportedUnderTheirNames(t *testing.T) {
	for range 2 {
		tel, err := telemetry.Start(t.Context(), telemetry.Config{LogLevel: slog.LevelError}, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		testCounter.Add(t.Context(), 3, "a")
		testSeconds.Record(t.Context(), 1.5, "a")
		testLevel.Add(t.Context(), 1)
		stop, err := telemetry.Observe(func(_ context.Context, seen telemetry.Seen) error {
			seen(testRows, 7, "a")
			return nil
		}, testRows)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := tel.WriteMetrics(&out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			testCounter.Exported() + `{kind="a"} 3`, testSeconds.Exported() + `_bucket{kind="a",le="2"} 1`,
			testLevel.Exported() + " 1", testRows.Exported() + `{kind="a"} 7`,
			"gpuaas_test_ended_total", "gpuaas_test_duration_seconds_count", "gpuaas_test_oldest_seconds",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s in:\n%s", want, out.String())
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMetricIsDeclaredOnceAndGivenAllItsLabels(t *testing.T) {
	for name, do := range map[string]func(){
		"twice":          func() { telemetry.NewCounter(testCounter.Metric) },
		"without help":   func() { telemetry.NewCounter(telemetry.Metric{Name: "gpuaas.test.other"}) },
		"label left out": func() { testCounter.Add(t.Context(), 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: nothing is said", name)
				}
			}()
			do()
		}()
	}
}
