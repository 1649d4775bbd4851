package outbox

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
	"gpuaas/controlplane/internal/engine/postgres"
)

// DestinationStats says how far behind a destination is.
type DestinationStats struct {
	Destination string        `json:"destination"`
	Pending     int64         `json:"pending"`
	Failed      int64         `json:"failed"`
	Lag         time.Duration `json:"-"` // age of the oldest pending message
}

// Stats reads how far behind each destination is.
func Stats(ctx context.Context, db *postgres.DB) ([]DestinationStats, error) {
	rows, err := outboxdb.New(db).Stats(ctx)
	if err != nil {
		return nil, fmt.Errorf("read outbox statistics: %w", err)
	}
	stats := make([]DestinationStats, len(rows))
	for i, r := range rows {
		stats[i] = DestinationStats{
			Destination: r.Destination, Pending: r.Pending, Failed: r.Failed,
			Lag: time.Duration(r.OldestPendingSeconds * float64(time.Second)),
		}
	}
	return stats, nil
}

const meterName = "gpuaas/outbox"

// ObserveStats exports the statistics as gauges, and reads them at each
// collection. stop ends that.
func ObserveStats(db *postgres.DB) (stop func() error, err error) {
	meter := otel.Meter(meterName)
	lag, lagErr := meter.Float64ObservableGauge("gpuaas.outbox.lag", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest message that waits for delivery."))
	pending, pendingErr := meter.Int64ObservableGauge("gpuaas.outbox.pending",
		metric.WithDescription("Messages that wait for delivery."))
	failed, failedErr := meter.Int64ObservableGauge("gpuaas.outbox.failed",
		metric.WithDescription("Messages that failed for good and wait for an operator."))
	for _, err := range []error{lagErr, pendingErr, failedErr} {
		if err != nil {
			return nil, fmt.Errorf("make outbox gauges: %w", err)
		}
	}
	registration, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		stats, err := Stats(ctx, db)
		if err != nil {
			return err
		}
		for _, s := range stats {
			to := metric.WithAttributes(attribute.String("destination", s.Destination))
			o.ObserveFloat64(lag, s.Lag.Seconds(), to)
			o.ObserveInt64(pending, s.Pending, to)
			o.ObserveInt64(failed, s.Failed, to)
		}
		return nil
	}, lag, pending, failed)
	if err != nil {
		return nil, fmt.Errorf("observe outbox statistics: %w", err)
	}
	return registration.Unregister, nil
}

// relayMetrics counts what a relay does for one destination.
type relayMetrics struct {
	published metric.Int64Counter
	refused   metric.Int64Counter
	duration  metric.Float64Histogram
	to        metric.MeasurementOption
}

func newRelayMetrics(destination string) relayMetrics {
	meter := otel.Meter(meterName)
	// The names are constants that the API accepts. On error it returns
	// instruments that do nothing.
	published, _ := meter.Int64Counter("gpuaas.outbox.published", metric.WithDescription("Messages accepted by their destination."))
	refused, _ := meter.Int64Counter("gpuaas.outbox.refused", metric.WithDescription("Attempts that a destination refused."))
	duration, _ := meter.Float64Histogram("gpuaas.outbox.delivery.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to hand a wave of messages to their destination."),
		metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 20))
	return relayMetrics{published, refused, duration, metric.WithAttributes(attribute.String("destination", destination))}
}

func (m relayMetrics) count(ctx context.Context, done outcome) {
	m.published.Add(ctx, int64(len(done.published)), m.to)
	m.refused.Add(ctx, int64(len(done.refused)), m.to)
}

func (m relayMetrics) delivered(ctx context.Context, d time.Duration) {
	m.duration.Record(ctx, d.Seconds(), m.to)
}
