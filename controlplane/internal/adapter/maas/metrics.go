package maas

import (
	"context"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/telemetry"
)

var requestDuration = telemetry.NewHistogram(telemetry.Metric{
	Name: "gpuaas.maas.request.duration", Seconds: true, Labels: []string{"operation", "outcome"},
	Help: "How long MAAS took to answer a request, repetitions included and the wait for a slot not; " +
		"outcome is ok or the kind of the failure.",
	Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
})

// operation is the call without the ids in its path, which alternate with the
// names of collections: machines/abc123/ is machines/{id}/.
func (k call) operation() string {
	parts := strings.Split(k.path, "/")
	for i := 1; i < len(parts); i += 2 {
		if parts[i] != "" {
			parts[i] = "{id}"
		}
	}
	k.path = strings.Join(parts, "/")
	return k.String()
}

func (k call) measure(ctx context.Context, began time.Time, err error) {
	outcome := "ok"
	if err != nil {
		outcome = string(fault.KindOf(err))
	}
	requestDuration.Record(ctx, time.Since(began).Seconds(), k.operation(), outcome)
}
