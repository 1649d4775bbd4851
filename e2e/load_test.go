package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/testkit"
)

// load is callers who create tenants and start self-checks, and repeat with the
// same Idempotency-Key what was not answered for good.
type load struct {
	plane    func() *plane // whom to ask next
	harmless func(answer, error) bool

	stopping chan struct{}
	workers  sync.WaitGroup

	mu       sync.Mutex
	tenants  map[string]string // slug → id; empty when the answer was lost
	checks   map[string]string // correlation id → id of the self-check; as above
	answers  map[string]int    // how often each answer that was no success was given
	surprise []string
}

const (
	tenantWorkers = 3
	pace          = 100 * time.Millisecond
)

// startLoad begins. harmless says which answers, besides those that ask to come
// back, are no surprise.
func startLoad(t *testing.T, next func() *plane, harmless func(answer, error) bool) *load {
	t.Helper()
	l := &load{
		plane: next, harmless: harmless, stopping: make(chan struct{}),
		tenants: map[string]string{}, checks: map[string]string{}, answers: map[string]int{},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	for range tenantWorkers {
		l.workers.Go(func() { l.work(ctx, pace, l.createTenant) })
	}
	l.workers.Go(func() { l.work(ctx, 4*pace, l.createCheck) })
	t.Cleanup(func() { cancel(); l.workers.Wait() })
	return l
}

func (l *load) work(ctx context.Context, pause time.Duration, once func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.stopping:
			return
		case <-time.After(pause):
			once(ctx)
		}
	}
}

// stop ends the load when everything begun has been answered, and reports what
// should not have happened.
func (l *load) stop(t *testing.T) {
	t.Helper()
	close(l.stopping)
	l.workers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d tenants and %d self-checks were acknowledged; answers on the way: %v", len(l.tenants), len(l.checks),
		l.answers)
	for _, s := range l.surprise {
		t.Errorf("under load: %s", s)
	}
}

// acknowledged is how many tenants and self-checks there are by now.
func (l *load) acknowledged() (tenants, checks int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tenants), len(l.checks)
}

// awaitMore waits until some more tenants and a self-check are acknowledged.
func (l *load) awaitMore(t *testing.T) {
	t.Helper()
	tenants, checks := l.acknowledged()
	testkit.Succeeds(t, "requests to be acknowledged", 90*time.Second, func() error {
		nowTenants, nowChecks := l.acknowledged()
		if nowTenants < tenants+2*tenantWorkers || nowChecks < checks+2 {
			return fmt.Errorf("%d tenants and %d self-checks more", nowTenants-tenants, nowChecks-checks)
		}
		return nil
	})
}

func (l *load) createTenant(ctx context.Context) {
	key := "load-" + strings.ToLower(rand.Text()[:16])
	id, ok := l.twice(ctx, "/api/v1/admin/tenants", naming{key, "Load " + key}, key, http.StatusCreated, "org_id")
	if ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tenants[key] = id
	}
}

func (l *load) createCheck(ctx context.Context) {
	key := "check-" + strings.ToLower(rand.Text()[:16])
	id, ok := l.twice(ctx, "/api/v1/admin/self-checks", nil, key, http.StatusAccepted, "id")
	if ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.checks[key] = id
	}
}

// twice is a caller who did not see the answer and asks again, of another
// replica where there is one: nothing more may happen.
func (l *load) twice(ctx context.Context, path string, body any, key string, want int, field string) (id string,
	ok bool,
) {
	id, ok = l.insist(ctx, path, body, key, want, field)
	if !ok {
		return id, ok
	}
	// The answer may be lost when the database died just after it was given.
	if again, ok := l.insist(ctx, path, body, key, want, field); ok && again != "" && again != id {
		l.note(fmt.Sprintf("POST %s made %q, and when repeated with the same key %q", path, id, again), true)
	}
	return id, ok
}

// insist repeats a request until it is answered for good, and gives the id of
// what it made: none when only that it was made is known.
func (l *load) insist(ctx context.Context, path string, body any, key string, want int, field string) (id string,
	ok bool,
) {
	for ctx.Err() == nil {
		a, err := l.plane().call(ctx, http.MethodPost, path, body, header{"Idempotency-Key", key},
			header{"X-Correlation-Id", key})
		if err == nil && a.status == want {
			var made map[string]any
			if err := json.Unmarshal(a.body, &made); err != nil {
				l.note(fmt.Sprintf("POST %s: %v in %s", path, err, a), true)
				return "", false
			}
			return fmt.Sprint(made[field]), true
		}
		again, known := l.judge(a, err)
		l.note(describe(path, a, err), !known)
		if !again {
			return "", a.problem.Code == "idempotency_outcome_unknown"
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * pace):
		}
	}
	return "", false
}

// judge says whether to come back, and whether the answer was to be expected.
func (l *load) judge(a answer, err error) (again, known bool) {
	switch {
	case err != nil:
		return true, l.harmless(a, err)
	case a.status == http.StatusServiceUnavailable:
		return true, l.harmless(a, nil)
	case a.problem.Code == "idempotency_in_progress", a.status == http.StatusTooManyRequests:
		return true, true
	case a.problem.Code == "commit_outcome_unknown": // the connection broke in the one moment when nobody can know
		return true, true
	case a.problem.Code == "idempotency_outcome_unknown":
		return false, true
	}
	return false, false
}

func describe(path string, a answer, err error) string {
	if err != nil {
		return fmt.Sprintf("POST %s: %v", path, err)
	}
	return fmt.Sprintf("POST %s: %d %s", path, a.status, a.problem.Code)
}

func (l *load) note(what string, surprising bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[what]++
	if surprising && len(l.surprise) < 10 {
		l.surprise = append(l.surprise, what)
	}
}

// verify expects that nothing acknowledged is lost and nothing happened twice.
// The load must have ended.
func (l *load) verify(t *testing.T, p *plane) {
	t.Helper()
	l.verifyTenants(t, p)
	l.verifyChecks(t, p)
	awaitDelivered(t, p)
	l.verifyEvents(t, readEvents(t, p, "tenant.created"))
}

func (l *load) verifyTenants(t *testing.T, p *plane) {
	t.Helper()
	ids := map[string][]string{}
	for _, v := range all[apiclient.IdentityTenantView](t, p, "/api/v1/tenants") {
		ids[v.Slug] = append(ids[v.Slug], v.OrgId.String())
	}
	entries := map[string]int{}
	for _, e := range all[apiclient.AuditLogEntry](t, p, "/api/v1/admin/audit-logs?action=tenant.create&result=success") {
		entries[e.TargetId]++
		entries[e.CorrelationId]++
	}
	for slug, id := range l.tenants {
		if len(ids[slug]) != 1 || id != "" && ids[slug][0] != id {
			t.Errorf("tenant %s was acknowledged as %q and exists as %v", slug, id, ids[slug])
			continue
		}
		l.tenants[slug] = ids[slug][0]
		if entries[ids[slug][0]] != 1 || entries[slug] != 1 {
			t.Errorf("tenant %s has %d audit entries, and its request %d, want 1", slug, entries[ids[slug][0]], entries[slug])
		}
	}
}

func (l *load) verifyChecks(t *testing.T, p *plane) {
	t.Helper()
	testkit.Succeeds(t, "every self-check to pass", 100*time.Second, func() error {
		found := map[string]int{}
		for _, c := range all[apiclient.SelfCheck](t, p, "/api/v1/admin/self-checks") {
			found[c.CorrelationId]++
			_, mine := l.checks[c.CorrelationId]
			switch c.Status {
			case "passed":
			case "failed", "cancelled":
				if mine {
					t.Fatalf("self-check %s is %s: %+v", c.Id, c.Status, c.Steps)
				}
			default:
				if mine {
					return fmt.Errorf("self-check %s is %s", c.Id, c.Status)
				}
			}
		}
		for key, id := range l.checks {
			if found[key] != 1 {
				t.Fatalf("self-check %s (%s) was acknowledged and exists %d times", id, key, found[key])
			}
		}
		return nil
	})
}

func (l *load) verifyEvents(t *testing.T, events []apiclient.EventwireEnvelope) {
	t.Helper()
	told, seen := map[string]int{}, map[string]bool{}
	for _, e := range events {
		if seen[e.EventId.String()] {
			t.Errorf("event %s stands twice in the stream", e.EventId)
		}
		seen[e.EventId.String()] = true
		if e.OrgId != nil {
			told[e.OrgId.String()]++
		}
	}
	for slug, id := range l.tenants {
		if told[id] != 1 {
			t.Errorf("the creation of tenant %s is told %d times in the stream, want once", slug, told[id])
		}
	}
}
