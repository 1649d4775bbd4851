package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// TestOutages takes each engine away under load and gives it back. One control
// plane lives through all of it.
func TestOutages(t *testing.T) {
	t.Parallel()
	engines := stacktest.Start(t, stack.Options{})
	p := startPlane(t, engines.Endpoints(), planeOptions{env: []string{
		"GPUAAS_LIMITS_REQUEST_TIMEOUT=5s", // a request whose database died holds its key for longer than that
	}})
	for _, o := range []outage{
		{stack.NATS, "nats", "events_unavailable", withoutNATS},
		{stack.OpenBao, "secrets", "secrets_unavailable", withoutSecrets},
		{stack.Temporal, "temporal", "temporal_unavailable", nil},
		{stack.Postgres, "postgres", "postgres_unavailable", withoutPostgres},
	} {
		t.Run(o.dependency, func(t *testing.T) { o.run(t, engines, p) })
	}
	t.Run("cancel without temporal", func(t *testing.T) { cancelWithoutTemporal(t, engines, p) })
}

// outage is what the control plane does without one engine.
type outage struct {
	engine     stack.Engine
	dependency string
	code       string
	during     func(*testing.T, *plane)
}

func (o outage) run(t *testing.T, engines *stack.Stack, p *plane) {
	l := startLoad(t, func() *plane { return p }, func(a answer, err error) bool {
		return err == nil && o.engine == stack.Postgres && a.problem.Code == o.code
	})
	for range 2 { // each death may meet a request at another moment
		l.awaitMore(t)
		o.once(t, engines, p, l)
	}
	l.awaitMore(t)
	l.stop(t)
	l.verify(t, p)
}

func (o outage) once(t *testing.T, engines *stack.Stack, p *plane, l *load) {
	t.Helper()
	if err := engines.Kill(o.engine); err != nil {
		t.Fatal(err)
	}
	o.awaitNoticed(t, p)
	if o.engine != stack.Postgres {
		l.awaitMore(t) // recording what is wanted needs the database alone
	}
	if o.during != nil {
		o.during(t, p)
	}
	if err := engines.Resume(o.engine); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.awaitReady(t)
	t.Logf("ready again %s after %s was", time.Since(began).Round(time.Millisecond), o.engine)
}

// awaitNoticed waits until the plane names the engine as down.
func (o outage) awaitNoticed(t *testing.T, p *plane) {
	t.Helper()
	testkit.Succeeds(t, "/readyz to name "+o.dependency, 30*time.Second, func() error {
		status, down, err := p.readiness(t.Context())
		if err != nil {
			t.Fatalf("/readyz does not answer: %v", err)
		}
		if status != http.StatusServiceUnavailable || down[o.dependency] != o.code {
			return fmt.Errorf("%d, down: %v, want %s: %s", status, down, o.dependency, o.code)
		}
		return nil
	})
	if a := p.do(t, http.MethodGet, "/healthz", nil, http.StatusOK, nil); len(a.body) == 0 {
		t.Error("/healthz says nothing")
	}
}

func withoutPostgres(t *testing.T, p *plane) {
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, "/api/v1/me", nil},
		{http.MethodGet, "/api/v1/tenants", nil},
		{http.MethodPost, "/api/v1/admin/tenants", naming{"nowhere", "Nowhere"}},
		{http.MethodPost, "/api/v1/admin/self-checks", nil},
		{http.MethodGet, "/api/v1/admin/audit-logs", nil},
		{http.MethodGet, "/api/v1/admin/system", nil},
		{http.MethodGet, "/api/v1/events", nil},
	} {
		if err := p.refused(t.Context(), c.method, c.path, c.body, http.StatusServiceUnavailable,
			"postgres_unavailable"); err != nil {
			t.Error(err)
		}
	}
}

func withoutNATS(t *testing.T, p *plane) {
	if err := p.refused(t.Context(), http.MethodGet, "/api/v1/events", nil, http.StatusServiceUnavailable,
		"events_unavailable"); err != nil {
		t.Error(err)
	}
}

func withoutSecrets(t *testing.T, p *plane) { stuckCheck(t, p) }

// stuckCheck starts a self-check that cannot get past the secrets engine.
func stuckCheck(t *testing.T, p *plane) apiclient.SelfCheck {
	t.Helper()
	var check apiclient.SelfCheck
	p.do(t, http.MethodPost, "/api/v1/admin/self-checks", nil, http.StatusAccepted, &check)
	path := "/api/v1/admin/self-checks/" + check.Id.String()
	testkit.Succeeds(t, "a self-check to wait for secrets", time.Minute, func() error {
		p.do(t, http.MethodGet, path, nil, http.StatusOK, &check)
		if check.Status != "running" || check.WaitingFor == nil || *check.WaitingFor != "secrets" {
			return fmt.Errorf("it is %s", check.Status)
		}
		return nil
	})
	return check
}

// cancelWithoutTemporal asks for what only the workflow itself can do, while
// nobody can reach it: the wish is recorded, and carried out when somebody can.
func cancelWithoutTemporal(t *testing.T, engines *stack.Stack, p *plane) {
	if err := engines.Kill(stack.OpenBao); err != nil {
		t.Fatal(err)
	}
	check := stuckCheck(t, p)
	if err := engines.Kill(stack.Temporal); err != nil {
		t.Fatal(err)
	}
	path, reason := "/api/v1/admin/self-checks/"+check.Id.String(), map[string]string{"reason": "it is stuck"}
	key := header{"Idempotency-Key", "cancel-" + check.Id.String()}
	for range 2 {
		a, err := p.call(t.Context(), http.MethodPost, path+"/cancel", reason, key)
		if err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusAccepted {
			t.Errorf("cancel without Temporal: %s, want it accepted", a)
		}
	}
	if err := engines.Resume(stack.Temporal); err != nil {
		t.Fatal(err)
	}
	testkit.Succeeds(t, "the self-check to be cancelled", time.Minute, func() error {
		p.do(t, http.MethodGet, path, nil, http.StatusOK, &check)
		if check.Status != "cancelled" {
			return fmt.Errorf("it is %s", check.Status)
		}
		return nil
	})
	if err := engines.Resume(stack.OpenBao); err != nil {
		t.Fatal(err)
	}
	p.awaitReady(t)
}
