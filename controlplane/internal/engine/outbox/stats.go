package outbox

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
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

var (
	lag = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.outbox.lag", Seconds: true, Labels: []string{"destination"},
		Help: "Age of the oldest message that waits for delivery.",
	})
	pending = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.outbox.pending", Labels: []string{"destination"}, Help: "Messages that wait for delivery.",
	})
	failed = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.outbox.failed", Labels: []string{"destination"},
		Help: "Messages that failed for good and wait for an operator.",
	})
	published = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.outbox.published", Labels: []string{"destination"}, Help: "Messages accepted by their destination.",
	})
	refused = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.outbox.refused", Labels: []string{"destination"}, Help: "Attempts that a destination refused.",
	})
	deliveryDuration = telemetry.NewHistogram(telemetry.Metric{
		Name: "gpuaas.outbox.delivery.duration", Seconds: true, Labels: []string{"destination"},
		Help:    "Time to hand a wave of messages to their destination.",
		Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 20},
	})
)

// ObserveStats exports the statistics as gauges, and reads them at each
// collection. stop ends that.
func ObserveStats(db *postgres.DB) (stop func() error, err error) {
	return telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		stats, err := Stats(ctx, db)
		if err != nil {
			return err
		}
		for _, s := range stats {
			seen(lag, s.Lag.Seconds(), s.Destination)
			seen(pending, float64(s.Pending), s.Destination)
			seen(failed, float64(s.Failed), s.Destination)
		}
		return nil
	}, lag, pending, failed)
}

// relayMetrics counts what a relay does for one destination, which it is.
type relayMetrics string

func (m relayMetrics) count(ctx context.Context, done outcome) {
	published.Add(ctx, int64(len(done.published)), string(m))
	refused.Add(ctx, int64(len(done.refused)), string(m))
}

func (m relayMetrics) delivered(ctx context.Context, d time.Duration) {
	deliveryDuration.Record(ctx, d.Seconds(), string(m))
}
