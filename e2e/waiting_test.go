package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// TestStartBeforeEngines starts a control plane before anything it needs.
func TestStartBeforeEngines(t *testing.T) {
	t.Parallel()
	engines := stacktest.Start(t, stack.Options{})
	every := []stack.Engine{stack.Temporal, stack.OpenBao, stack.NATS, stack.Postgres}
	for _, e := range every {
		if err := engines.Kill(e); err != nil {
			t.Fatal(err)
		}
	}
	p := startPlane(t, engines.Endpoints(), planeOptions{waiting: true})
	awaitAlive(t, p)
	want := map[string]string{
		"postgres": "postgres_unavailable", "temporal": "temporal_unavailable",
		"nats": "events_unavailable", "secrets": "secrets_unavailable",
	}
	status, down, err := p.readiness(t.Context())
	if err != nil || status != http.StatusServiceUnavailable || !maps.Equal(down, want) {
		t.Errorf("/readyz: %d, %v, down %v, want 503 and %v", status, err, down, want)
	}
	p.token = "gpuaas_p" + strings.Repeat("A", 43)
	checkStarting(t, p)
	p.do(t, http.MethodGet, "/docs", nil, http.StatusOK, nil) // needs nothing but the process

	for i, e := range slices.Backward(every) {
		if err := engines.Resume(e); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if status, _, err := p.readiness(t.Context()); err != nil || status != http.StatusServiceUnavailable {
				t.Errorf("/readyz: %d, %v while %v are missing", status, err, every[:i])
			}
		}
	}
	p.awaitReady(t)
	p.token = strings.TrimSpace(succeed(t, p.env, "admin", "bootstrap"))
	p.do(t, http.MethodPost, "/api/v1/admin/tenants", naming{"patient", "Patient"}, http.StatusCreated, nil)
	if _, said, code := command(t, p.env, "admin", "bootstrap"); code == 0 ||
		!strings.Contains(said, "administrator already") {
		t.Errorf("a second bootstrap ended with exit code %d and said %q", code, said)
	}
}

// TestWaitForMigration has an operator migrate, not the control plane.
func TestWaitForMigration(t *testing.T) {
	t.Parallel()
	engines := stacktest.Start(t, stack.Options{Only: []stack.Engine{stack.Postgres}})
	e := engines.Endpoints()
	// The API alone needs the database; the others are never asked.
	e.TemporalAddress, e.TemporalNamespace = "127.0.0.1:1", "none"
	e.NATSURL, e.SecretsAddress = "nats://127.0.0.1:1", "http://127.0.0.1:1"
	dir := t.TempDir()
	for _, file := range []*string{&e.NATSTokenFile, &e.SecretsAPI.RoleIDFile, &e.SecretsAPI.SecretIDFile} {
		*file = privateFile(t, dir, "nothing", "nothing")
	}
	p := startPlane(t, e, planeOptions{
		roles: "api", waiting: true,
		env: []string{"GPUAAS_POSTGRES_MIGRATE_ON_START=false"},
	})
	awaitAlive(t, p)
	testkit.Succeeds(t, "/readyz to say what is missing", 30*time.Second, func() error {
		status, down, err := p.readiness(t.Context())
		if err == nil && (status != http.StatusServiceUnavailable || down["postgres"] != "schema_behind") {
			err = fmt.Errorf("%d, down %v, want postgres: schema_behind", status, down)
		}
		return err
	})
	p.token = "gpuaas_p" + strings.Repeat("A", 43)
	checkStarting(t, p)
	if said := succeed(t, p.env, "migrate"); !strings.Contains(said, "applied") {
		t.Errorf("gpuaas migrate says %q, want what it applied", said)
	}
	p.awaitReady(t)
	if said := succeed(t, p.env, "migrate"); !strings.Contains(said, "up to date") {
		t.Errorf("gpuaas migrate says %q, want that there is nothing to do", said)
	}
	p.token = strings.TrimSpace(succeed(t, p.env, "admin", "bootstrap"))
	p.do(t, http.MethodGet, "/api/v1/me", nil, http.StatusOK, nil)
}

// awaitAlive waits until the process answers at all.
func awaitAlive(t *testing.T, p *plane) {
	t.Helper()
	testkit.Succeeds(t, "/healthz", 30*time.Second, func() error {
		a, err := p.call(t.Context(), http.MethodGet, "/healthz", nil)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("%s", a)
		}
		return err
	})
}

// checkStarting expects that the API says to come back.
func checkStarting(t *testing.T, p *plane) {
	t.Helper()
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, "/api/v1/me", nil},
		{http.MethodGet, "/api/v1/auth/methods", nil},
		{http.MethodGet, "/api/v1/events", nil},
		{http.MethodPost, "/api/v1/admin/tenants", naming{"early", "Early"}},
	} {
		if err := p.refused(t.Context(), c.method, c.path, c.body, http.StatusServiceUnavailable, "starting"); err != nil {
			t.Error(err)
		}
	}
}
