package system_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/health"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/system"
)

type admin struct{}

func (admin) Authenticate(context.Context, redact.Secret) (*auth.Principal, error) {
	return &auth.Principal{Kind: auth.KindUser, ID: "root", Platform: auth.PlatformAdmin}, nil
}

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
	api := httpapi.New(httpapi.Config{Title: "test", Version: "1", Auth: admin{}})
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
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/admin/system", nil)
	r.Header.Set("Authorization", "Bearer x")
	w := httptest.NewRecorder()
	api.Handler().ServeHTTP(w, r)
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, `"ready":true`) ||
		!strings.Contains(body, `"task_queue":"q"`) ||
		!strings.Contains(body, `"insecure":["listen","nats"]`) {
		t.Errorf("%d %s", w.Code, body)
	}
}
