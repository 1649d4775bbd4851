package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"

	"gpuaas/controlplane/internal/engine/telemetry"
)

func TestEveryLineCarriesTheCorrelationAndTraceID(t *testing.T) {
	var out bytes.Buffer
	tel, err := telemetry.Start(t.Context(), telemetry.Config{LogFormat: "json", Version: "test"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := otel.Tracer("test").Start(telemetry.WithCorrelation(t.Context(), "corr-1"), "op")
	defer span.End()
	tel.Logger.With("a", 1).WithGroup("g").InfoContext(ctx, "hello")
	tel.Logger.InfoContext(ctx, "plain")
	var line map[string]any
	if err := json.Unmarshal([]byte(strings.Split(out.String(), "\n")[1]), &line); err != nil {
		t.Fatal(err)
	}
	if line["correlation_id"] != "corr-1" || line["trace_id"] != span.SpanContext().TraceID().String() {
		t.Errorf("got %v", line)
	}
	if err := tel.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestTracesReachTheConfiguredCollector(t *testing.T) {
	got := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case got <- r.URL.Path:
		default:
		}
	}))
	defer collector.Close()
	tel, err := telemetry.Start(t.Context(), telemetry.Config{OTLPEndpoint: collector.URL + "/v1/traces"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	_, span := otel.Tracer("test").Start(t.Context(), "op")
	span.End()
	if err := tel.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path := <-got; path != "/v1/traces" {
		t.Errorf("collector was called at %s", path)
	}
}

func TestMetricsAreServed(t *testing.T) {
	tel, err := telemetry.Start(t.Context(), telemetry.Config{LogLevel: slog.LevelError}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	counter, err := otel.Meter("test").Int64Counter("gpuaas.test.things")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3)
	var out bytes.Buffer
	if err := tel.WriteMetrics(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "gpuaas_test_things_total") {
		t.Errorf("counter missing in:\n%s", out.String())
	}
}
