package system_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/health"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/system"
)

// Each answers only after the other was asked: one after the other, both would
// wait in vain.
func TestWorkersAreAskedForBesideTheDependencies(t *testing.T) {
	probed, asked := make(chan struct{}), make(chan struct{})
	meet := func(ctx context.Context, here, there chan struct{}) error {
		close(here)
		select {
		case <-there:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	api := httpapitest.New(nil)
	monitor := health.NewMonitor(health.Dependency{
		Name:  "temporal",
		Probe: func(ctx context.Context) error { return meet(ctx, probed, asked) },
	})
	monitor.Insecure = []string{"listen", "nats"}
	system.Source{
		Monitor: monitor,
		Workers: func(ctx context.Context) ([]durable.Queue, error) {
			return []durable.Queue{{Name: "q", Work: durable.WorkWorkflow}}, meet(ctx, asked, probed)
		},
		Outbox: func(context.Context) ([]outbox.DestinationStats, error) { return nil, nil },
	}.Register(api)
	a := httpapitest.Call(t, api.Handler(), httpapitest.Request{
		As: httpapitest.Root, Method: http.MethodGet, Path: "/api/v1/admin/system",
	})
	if body := string(a.Body); a.Status != http.StatusOK || !strings.Contains(body, `"ready":true`) ||
		!strings.Contains(body, `"task_queue":"q"`) ||
		!strings.Contains(body, `"insecure":["listen","nats"]`) {
		t.Errorf("%d %s", a.Status, body)
	}
}
