package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metric declares a metric of the product. A package declares its metrics as
// variables, once; docs/metrics.md is made from the declarations, and alerts and
// dashboards are checked against them.
type Metric struct {
	// Name is the name in OpenTelemetry, such as gpuaas.job.moves.
	Name string
	// Help says in one sentence what is counted or measured.
	Help string
	// Seconds says that the values are seconds.
	Seconds bool
	// Labels are the names of the labels. Their values come from closed lists:
	// never an id, a host name or an address.
	Labels []string
	// Buckets are the upper bounds of a histogram.
	Buckets []float64

	kind Kind
}

// Kind says what a metric does.
type Kind string

// The kinds of metrics. A gauge of rows says what the database says, in every
// process that exports it.
const (
	KindCounter   Kind = "counter"
	KindGauge     Kind = "gauge"
	KindRows      Kind = "gauge of rows"
	KindHistogram Kind = "histogram"
)

const instrumentedBy = "gpuaas"

// Kind is what the metric was declared as.
func (m Metric) Kind() Kind { return m.kind }

// Exported is the name of the metric in Prometheus. A histogram has the series
// _bucket, _sum and _count of it.
func (m Metric) Exported() string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Seconds {
		name += "_seconds"
	}
	if m.kind == KindCounter {
		name += "_total"
	}
	return name
}

func (m Metric) unit() string {
	if m.Seconds {
		return "s"
	}
	return ""
}

func (m Metric) with(values []string) metric.MeasurementOption {
	if len(values) != len(m.Labels) {
		panic(fmt.Sprintf("telemetry: %s has the labels %v and was given %v", m.Name, m.Labels, values))
	}
	labels := make([]attribute.KeyValue, len(values))
	for i, value := range values {
		labels[i] = attribute.String(m.Labels[i], value)
	}
	return metric.WithAttributeSet(attribute.NewSet(labels...))
}

// declared are all metrics of the packages that are linked. It changes only
// while packages are initialised.
var declared []Metric

func declare(m Metric, kind Kind) Metric {
	m.kind = kind
	if m.Name == "" || m.Help == "" || slices.ContainsFunc(declared, func(d Metric) bool { return d.Name == m.Name }) {
		panic(fmt.Sprintf("telemetry: metric %q has no name or help, or is declared twice", m.Name))
	}
	declared = append(declared, m)
	return m
}

// Declared lists the metrics of all packages that are linked, by name.
func Declared() []Metric {
	out := slices.Clone(declared)
	slices.SortFunc(out, func(a, b Metric) int { return cmp.Compare(a.Exported(), b.Exported()) })
	return out
}

// instrument makes what measures when it is first used, and again when another
// meter provider has been set since, as tests do.
type instrument[I any] struct {
	make   func(metric.Meter) (I, error)
	latest atomic.Pointer[madeBy[I]]
}

type madeBy[I any] struct {
	provider metric.MeterProvider
	it       I
}

func (i *instrument[I]) get() I {
	provider := otel.GetMeterProvider()
	if m := i.latest.Load(); m != nil && m.provider == provider {
		return m.it
	}
	it, err := i.make(provider.Meter(instrumentedBy))
	if err != nil {
		panic(fmt.Sprintf("telemetry: make instrument: %v", err)) // its name and buckets are constants
	}
	i.latest.Store(&madeBy[I]{provider, it})
	return it
}

// Counter counts what happens.
type Counter struct {
	Metric
	instrument[metric.Int64Counter]
}

// NewCounter declares a counter.
func NewCounter(m Metric) *Counter {
	c := &Counter{Metric: declare(m, KindCounter)}
	c.make = func(meter metric.Meter) (metric.Int64Counter, error) {
		return meter.Int64Counter(m.Name, metric.WithUnit(m.unit()), metric.WithDescription(m.Help))
	}
	return c
}

// Add counts n, with a value for every label.
func (c *Counter) Add(ctx context.Context, n int64, values ...string) {
	c.get().Add(ctx, n, c.with(values))
}

// Histogram measures how long things take.
type Histogram struct {
	Metric
	instrument[metric.Float64Histogram]
}

// NewHistogram declares a histogram.
func NewHistogram(m Metric) *Histogram {
	h := &Histogram{Metric: declare(m, KindHistogram)}
	h.make = func(meter metric.Meter) (metric.Float64Histogram, error) {
		return meter.Float64Histogram(m.Name, metric.WithUnit(m.unit()), metric.WithDescription(m.Help),
			metric.WithExplicitBucketBoundaries(m.Buckets...))
	}
	return h
}

// Record measures one value, with a value for every label.
func (h *Histogram) Record(ctx context.Context, v float64, values ...string) {
	h.get().Record(ctx, v, h.with(values))
}

// Level is a gauge that the process itself counts up and down.
type Level struct {
	Metric
	instrument[metric.Int64UpDownCounter]
}

// NewLevel declares a level.
func NewLevel(m Metric) *Level {
	l := &Level{Metric: declare(m, KindGauge)}
	l.make = func(meter metric.Meter) (metric.Int64UpDownCounter, error) {
		return meter.Int64UpDownCounter(m.Name, metric.WithUnit(m.unit()), metric.WithDescription(m.Help))
	}
	return l
}

// Add changes the level by n, with a value for every label.
func (l *Level) Add(ctx context.Context, n int64, values ...string) {
	l.get().Add(ctx, n, l.with(values))
}

// Rows is a gauge whose values are read from the database when somebody scrapes.
// Every process that exports it says the same, so that its values must be
// aggregated with max and never with sum.
type Rows struct {
	Metric
	instrument[metric.Float64ObservableGauge]
}

// NewRows declares a gauge of rows.
func NewRows(m Metric) *Rows {
	r := &Rows{Metric: declare(m, KindRows)}
	r.make = func(meter metric.Meter) (metric.Float64ObservableGauge, error) {
		return meter.Float64ObservableGauge(m.Name, metric.WithUnit(m.unit()), metric.WithDescription(m.Help))
	}
	return r
}

// Seen takes a value of a gauge in, with a value for every label.
type Seen func(r *Rows, v float64, values ...string)

// Observe has gauges read when somebody scrapes: read is called once for all of
// them. The function it returns ends that.
func Observe(read func(ctx context.Context, seen Seen) error, gauges ...*Rows) (stop func() error, err error) {
	observed, of := make([]metric.Observable, len(gauges)), map[*Rows]metric.Float64Observable{}
	for i, g := range gauges {
		made := g.get()
		observed[i], of[g] = made, made
	}
	registration, err := otel.Meter(instrumentedBy).RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		return read(ctx, func(r *Rows, v float64, values ...string) { o.ObserveFloat64(of[r], v, r.with(values)) })
	}, observed...)
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", gauges[0].Name, err)
	}
	return registration.Unregister, nil
}
