package controlplane

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/lifecycle"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/people/identity"
)

func (h *house) get(t *testing.T, role auth.Role, path string) (int, string) {
	t.Helper()
	ctx := auth.With(telemetry.WithCorrelation(t.Context(), "token"), h.people[role])
	_, token, err := h.identity.CreateOwnToken(ctx, identity.NewToken{Name: "get"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+token.Reveal())
	w := httptest.NewRecorder()
	h.api.Handler().ServeHTTP(w, r)
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(b)
}

// The house has a database and nothing else.
func TestTheSystemStatusSaysWhatIsDownAndWhatToDo(t *testing.T) {
	status, body := newHouse(t).get(t, auth.Auditor, "/api/v1/admin/system")
	if status != http.StatusOK || !strings.Contains(body, `"ready":false`) {
		t.Fatalf("%d %s", status, body)
	}
	var got struct {
		Dependencies []struct {
			Name, Code, Remedy string
			Up                 bool
		}
		Outbox       []struct{ Destination string }
		Workers      []struct{ Kind string }
		WorkersError string `json:"workers_error"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	up := map[string]bool{}
	for _, d := range got.Dependencies {
		up[d.Name] = d.Up
		if !d.Up && (d.Code == "" || d.Remedy == "") {
			t.Errorf("%s is down without a code or a remedy", d.Name)
		}
	}
	if len(up) != 4 || !up["postgres"] || up["temporal"] || up["nats"] || up["secrets"] {
		t.Errorf("%v", up)
	}
	if len(got.Outbox) != 2 || got.Workers == nil || len(got.Workers) != 0 || got.WorkersError == "" {
		t.Errorf("%s", body)
	}
}

func TestMetricsAreForOperatorsOnly(t *testing.T) {
	h := newHouse(t)
	h.get(t, auth.Auditor, "/api/v1/me")
	status, body := h.get(t, auth.Auditor, "/metrics")
	if status != http.StatusOK || !strings.Contains(body, `operation="get-me"`) ||
		!strings.Contains(body, "gpuaas_outbox_pending") ||
		!strings.Contains(body, "gpuaas_nodes") || !strings.Contains(body, `status="offline"} 0`) ||
		!strings.Contains(body, "gpuaas_node_tasks_oldest_seconds") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := h.get(t, auth.TenantAdmin, "/metrics"); status != http.StatusForbidden {
		t.Errorf("a tenant admin gets %d", status)
	}
}

func TestTheContractNamesTheStatesOfEveryLifecycle(t *testing.T) {
	h := newHouse(t)
	schemas := h.api.OpenAPI().Components.Schemas.Map()
	for _, l := range h.lifecycles() {
		schema := schemas[pascal(l.Noun)+"State"]
		if schema == nil {
			t.Errorf("no schema for the states of %s", l.Noun)
			continue
		}
		if len(schema.Enum) != len(l.States) {
			t.Errorf("%s: %v", l.Noun, schema.Enum)
		}
		for i, s := range l.States {
			if schema.Enum[i] != s.Name {
				t.Errorf("%s: %v is not %s", l.Noun, schema.Enum[i], s.Name)
			}
		}
	}
	var listed struct{ Items []lifecycle.Description }
	_, body := h.get(t, auth.ProjectViewer, "/api/v1/lifecycles")
	if err := json.Unmarshal([]byte(body), &listed); err != nil || len(listed.Items) != len(h.lifecycles()) {
		t.Errorf("%v %s", err, body)
	}
}

func pascal(noun string) string {
	var b strings.Builder
	for _, w := range strings.Split(noun, "_") {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String()
}
