// Package telemetry sets up logs, metrics and traces, and carries the
// correlation id that connects them.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Config says where telemetry goes.
type Config struct {
	LogFormat    string // json or text
	LogLevel     slog.Level
	OTLPEndpoint string // URL of an OTLP/HTTP collector; empty: traces are not sent
	Version      string
}

// Telemetry holds the logger, metrics and traces of a running process.
type Telemetry struct {
	Logger   *slog.Logger
	registry *prometheus.Registry
	stop     []func(context.Context) error
}

// Start sets up logging to out, and the process-wide tracer and meter.
func Start(ctx context.Context, cfg Config, out io.Writer) (*Telemetry, error) {
	t := &Telemetry{Logger: NewLogger(cfg.LogFormat, cfg.LogLevel, out), registry: prometheus.NewRegistry()}
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	res := resource.NewSchemaless(
		attribute.String("service.name", "gpuaas"), attribute.String("service.version", cfg.Version))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(t.registry), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("start metrics: %w", err)
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(res))
	otel.SetMeterProvider(meters)
	t.stop = append(t.stop, meters.Shutdown)

	traceOpts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	if cfg.OTLPEndpoint == "" {
		// Spans are still made, so that trace ids appear in logs and envelopes.
		traceOpts = append(traceOpts, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	} else {
		sender, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(cfg.OTLPEndpoint))
		if err != nil {
			return nil, fmt.Errorf("start traces to %s: %w", cfg.OTLPEndpoint, err)
		}
		traceOpts = append(traceOpts, sdktrace.WithBatcher(sender))
	}
	traces := sdktrace.NewTracerProvider(traceOpts...)
	otel.SetTracerProvider(traces)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		t.Logger.Warn("telemetry could not be sent", "error", err)
	}))
	t.stop = append(t.stop, traces.Shutdown)
	return t, nil
}

// MetricsType is the content type of what WriteMetrics writes.
const MetricsType = string(expfmt.FmtText)

// WriteMetrics writes all metrics in the text format of Prometheus.
func (t *Telemetry) WriteMetrics(w io.Writer) error {
	families, err := t.registry.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	return nil
}

// Stop sends what is still buffered.
func (t *Telemetry) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var errs []error
	for _, stop := range t.stop {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}
