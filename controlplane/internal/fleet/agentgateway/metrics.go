package agentgateway

import (
	"context"
	"strconv"
	"time"

	"gpuaas/controlplane/internal/engine/telemetry"
)

const instrumentation = "gpuaas/controlplane/internal/fleet/agentgateway"

// How long polls and terminals last is no latency, so they are left out of the
// durations.
var (
	requestDuration = telemetry.NewHistogram(telemetry.Metric{
		Name: "gpuaas.gateway.request.duration", Seconds: true, Labels: []string{"operation", "status"},
		Help:    "How long requests of nodes took, polls and terminals excepted.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})
	heldPolls = telemetry.NewLevel(telemetry.Metric{
		Name: "gpuaas.gateway.polls",
		Help: "Agents that wait for a task at this replica.",
	})
	answered = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.gateway.requests", Labels: []string{"operation", "status"},
		Help: "Requests of nodes, by operation and status.",
	})
)

func measure(ctx context.Context, operation string, status int, took time.Duration) {
	answered.Add(ctx, 1, operation, strconv.Itoa(status))
	if operation != operationWait && operation != operationTerminal {
		requestDuration.Record(ctx, took.Seconds(), operation, strconv.Itoa(status))
	}
}
