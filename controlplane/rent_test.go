package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// ask sends a body as a role, and returns the answer.
func (h *house) ask(t *testing.T, role auth.Role, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	h.bearer(t, role)(r)
	w := httptest.NewRecorder()
	h.handler().ServeHTTP(w, r)
	return w
}

// addNodes adds nodes in service, whose agents were heard of just now.
func (h *house) addNodes(t *testing.T, sku string, nodes int) {
	t.Helper()
	for i := range nodes {
		if _, err := h.db.Exec(t.Context(), `WITH added AS (
				INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable)
				VALUES ($1, 'active', $2, '192.0.2.1', $3, 8, 'eu', 'manual', true) RETURNING id)
			INSERT INTO node_contacts (node_id, last_contact_at) SELECT id, clock_timestamp() FROM added`,
			id.New[id.Node](), fmt.Sprintf("n%d", i), sku); err != nil {
			t.Fatal(err)
		}
	}
}

// A tenant that asks for more than its quota reads which one, and what is used, asked
// and allowed. What it waits for counts when it wants to wait for more.
func TestAQuotaRefusesThroughTheAPI(t *testing.T) {
	const sku = "h200-sxm-baremetal-8g"
	h := newHouse(t)
	h.addNodes(t, sku, 2)
	quotas := "/api/v1/tenants/" + h.org.String() + "/quotas"
	allocations := "/api/v1/projects/" + h.project.String() + "/allocations"
	limit := func(nodes int) {
		t.Helper()
		w := h.ask(t, auth.PlatformAdmin, http.MethodPut, quotas, fmt.Sprintf(`{"nodes": %d}`, nodes))
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	rent := func(wait, want int) (p httpapi.Problem) {
		t.Helper()
		body := fmt.Sprintf(`{"sku": %q}`, sku)
		if wait > 0 {
			body = fmt.Sprintf(`{"sku": %q, "wait_up_to_seconds": %d}`, sku, wait)
		}
		w := h.ask(t, auth.ProjectMember, http.MethodPost, allocations, body)
		if w.Code != want {
			t.Fatalf("%d %s, want %d", w.Code, w.Body, want)
		}
		if want < http.StatusBadRequest {
			return p
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	refused := func(p httpapi.Problem, numbers string) {
		t.Helper()
		if p.Code != "quota_exceeded" || p.Remedy == "" || len(p.Errors) != 1 || p.Errors[0].Field != "tenant.nodes" ||
			!strings.HasSuffix(p.Errors[0].Message, numbers) {
			t.Errorf("%+v, want %s", p, numbers)
		}
	}
	limit(1)
	rent(0, http.StatusCreated)
	refused(rent(0, http.StatusForbidden), "used 1, asked 1, limit 1")
	limit(3)
	rent(0, http.StatusCreated)
	rent(600, http.StatusAccepted) // there is no other node
	refused(rent(600, http.StatusForbidden), "used 2, waited for 1, asked 1, limit 3")
}
