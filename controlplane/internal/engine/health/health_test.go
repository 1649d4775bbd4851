package health_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/health"
)

func ready(t *testing.T, m *health.Monitor) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Ready(rec, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return rec.Code, rec.Body.String()
}

func TestReadyNamesWhatIsDownButNotWhereItIs(t *testing.T) {
	m := health.NewMonitor(
		health.Dependency{Name: "postgres", Probe: func(context.Context) error { return nil }},
		health.Dependency{Name: "temporal", Probe: func(context.Context) error {
			return fault.Wrap(errors.New("dial 10.0.0.7"), fault.Unavailable, "temporal_unavailable",
				"Temporal at 10.0.0.7 is down")
		}},
	)
	status, body := ready(t, m)
	if status != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"temporal":{"up":false,"code":"temporal_unavailable"}`) ||
		!strings.Contains(body, `"postgres":{"up":true}`) {
		t.Errorf("got %d %s", status, body)
	}
	if strings.Contains(body, "10.0.0.7") {
		t.Errorf("address shown to everybody: %s", body)
	}
	if s := m.States(t.Context())[1]; !strings.Contains(s.Message, "10.0.0.7") {
		t.Errorf("operators are not told: %+v", s)
	}
}

func TestReadySaysWhatIsInsecure(t *testing.T) {
	m := health.NewMonitor()
	if _, body := ready(t, m); strings.Contains(body, "insecure") {
		t.Error(body)
	}
	m.Insecure = []string{"listen", "temporal"}
	if status, body := ready(t, m); status != http.StatusOK ||
		!strings.Contains(body, `"insecure":["listen","temporal"]`) {
		t.Errorf("%d %s", status, body)
	}
}

func TestADependencyIsNotAskedForEveryCaller(t *testing.T) {
	var asked atomic.Int32
	m := health.NewMonitor(health.Dependency{Name: "x", Probe: func(context.Context) error { asked.Add(1); return nil }})
	for range 100 {
		if status, _ := ready(t, m); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	if n := asked.Load(); n > 5 {
		t.Errorf("asked %d times", n)
	}
}
