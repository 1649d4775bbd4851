package agentgateway

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const instrumentation = "gpuaas/controlplane/internal/fleet/agentgateway"

// metrics are the figures of the listener. How long polls and terminals last is
// no latency, so they are left out of the durations.
type metrics struct {
	duration metric.Float64Histogram
	polls    metric.Int64UpDownCounter
	answered metric.Int64Counter
}

func newMetrics() metrics {
	meter := otel.Meter(instrumentation)
	duration, err1 := meter.Float64Histogram("gpuaas.gateway.request.duration", metric.WithUnit("s"),
		metric.WithDescription("How long requests of nodes took, polls and terminals excepted."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10))
	polls, err2 := meter.Int64UpDownCounter("gpuaas.gateway.polls", metric.WithDescription("Agents that wait for a task here."))
	answered, err3 := meter.Int64Counter("gpuaas.gateway.requests", metric.WithDescription("Requests of nodes, by operation and status."))
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			panic(fmt.Sprintf("agentgateway: make metrics: %v", err)) // their names and buckets are constants
		}
	}
	return metrics{duration: duration, polls: polls, answered: answered}
}

func (m metrics) request(ctx context.Context, operation string, status int, took time.Duration) {
	attributes := metric.WithAttributeSet(attribute.NewSet(attribute.String("operation", operation), attribute.Int("status", status)))
	m.answered.Add(ctx, 1, attributes)
	if operation != operationWait && operation != operationTerminal {
		m.duration.Record(ctx, took.Seconds(), attributes)
	}
}
