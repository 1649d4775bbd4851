package controlplane

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/people/identity"
)

// lab says what it was asked for.
var lab = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "lab "+r.URL.Path) })

// open asks like a browser that opens an address.
func open(t *testing.T, h http.Handler, method, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func (h *house) bearer(t *testing.T, role auth.Role) func(*http.Request) {
	t.Helper()
	ctx := auth.With(telemetry.WithCorrelation(t.Context(), "token"), h.people[role])
	_, token, err := h.identity.CreateOwnToken(ctx, identity.NewToken{Name: "serve"})
	if err != nil {
		t.Fatal(err)
	}
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token.Reveal()) }
}

func TestTheConsoleStandsWhereNothingElseDoes(t *testing.T) {
	h := newHouse(t)
	handler := h.handler()
	for path, is := range map[string]string{
		"/": "console", "/nodes/c07u31": "console", "/sign-in": "console",
		"/docs": "page", "/openapi.yaml": "page", "/healthz": "page", "/docs/assets/swagger-ui.css": "page",
		"/metrics": "token_missing", "/api/v1/me": "token_missing",
		"/api/v1/nothing": "not_found", "/api": "not_found", "/docs/nothing": "not_found", "/assets/nothing.js": "not_found",
		"/lab/": "not_found",
	} {
		w := open(t, handler, http.MethodGet, path)
		var got string
		switch body := w.Body.String(); {
		case strings.Contains(w.Header().Get("Cross-Origin-Opener-Policy"), "same-origin"):
			got = "console"
			if !strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'self'") ||
				w.Header().Get("X-Correlation-Id") == "" {
				t.Errorf("%s: %v", path, w.Header())
			}
		case w.Code == http.StatusOK:
			got = "page"
		default:
			_, rest, _ := strings.Cut(body, `"code":"`)
			got, _, _ = strings.Cut(rest, `"`)
		}
		if got != is {
			t.Errorf("%s is %s, want %s: %d %.200s", path, got, is, w.Code, w.Body)
		}
	}
	w := open(t, handler, http.MethodGet, "/nodes", func(r *http.Request) { r.Header.Set("Accept", "application/json") })
	if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("a program is answered %d %s", w.Code, w.Body)
	}
}

func TestAProcessWithoutTheAPIHasNoConsole(t *testing.T) {
	h := newHouse(t)
	h.cfg.Roles = []Role{RoleWorker}
	h.api = h.newAPI(nil)
	if w := open(t, h.handler(), http.MethodGet, "/"); w.Code != http.StatusSeeOther ||
		w.Header().Get("Location") != "/docs" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := open(t, h.handler(), http.MethodGet, "/nodes"); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestTheLabIsForThoseWhoManageSites(t *testing.T) {
	h := newHouse(t)
	if w := open(t, h.handler(), http.MethodGet, "/lab/machines",
		h.bearer(t, auth.PlatformAdmin)); w.Code != http.StatusNotFound {
		t.Errorf("without a lab: %d %s", w.Code, w.Body)
	}
	h.opts.Lab = lab
	handler := h.handler()
	if w := open(t, handler, http.MethodGet, "/lab/machines", h.bearer(t, auth.PlatformAdmin)); w.Code != http.StatusOK ||
		w.Body.String() != "lab /machines" {
		t.Errorf("an administrator: %d %s", w.Code, w.Body)
	}
	if w := open(t, handler, http.MethodGet, "/lab/machines"); w.Code != http.StatusUnauthorized ||
		!strings.Contains(w.Body.String(), "token_missing") {
		t.Errorf("a stranger: %d %s", w.Code, w.Body)
	}
	for _, role := range []auth.Role{auth.Auditor, auth.TenantAdmin} {
		if w := open(t, handler, http.MethodPost, "/lab/machines/m1/happen",
			h.bearer(t, role)); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", role, w.Code, w.Body)
		}
	}
	var denied int
	err := h.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT count(*) FROM audit_logs WHERE result = 'denied' AND target_id = 'lab' AND "+
			"metadata->>'permission' = 'site:manage'").Scan(&denied)
	})
	if err != nil || denied != 2 {
		t.Errorf("%d denials in the audit log: %v", denied, err)
	}
}

func TestWhatIsDoneInTheLabIsAudited(t *testing.T) {
	h := newHouse(t)
	h.opts.Lab = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]string
		if err := json.NewDecoder(r.Body).Decode(&asked); r.URL.Path == "/machines/m1/happen" &&
			(err != nil || asked["what"] != "delete") {
			t.Errorf("the lab is asked %v, %v", asked, err)
		}
		if strings.Contains(r.URL.Path, "nobody") {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	handler, admin := h.handler(), h.bearer(t, auth.PlatformAdmin)
	asking := func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"what":"delete"}`)) }
	open(t, handler, http.MethodGet, "/lab/machines", admin)
	open(t, handler, http.MethodPost, "/lab/machines/m1/happen", admin, asking)
	open(t, handler, http.MethodPost, "/lab/machines/m1/heal", admin)
	open(t, handler, http.MethodPost, "/lab/machines/nobody/happen", admin, asking)
	var kept string
	err := h.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', action, target_kind, target_id, result, metadata->>'what', actor_kind), ', ' ORDER BY seq)
			FROM audit_logs WHERE action LIKE 'lab.%' AND correlation_id <> ''`).Scan(&kept)
	})
	const want = "lab.happen lab_machine m1 success delete user, lab.heal lab_machine m1 success user, lab.happen " +
		"lab_machine nobody failure user"
	if err != nil || kept != want {
		t.Errorf("the audit log has %q, %v", kept, err)
	}
}

// The pages of the console and of the documentation use the API by cookie
// alone.
func TestAPageOfOursUsesTheAPIByCookie(t *testing.T) {
	h := newHouse(t)
	handler := h.handler()
	ctx := auth.With(telemetry.WithCorrelation(t.Context(), "token"), h.people[auth.PlatformAdmin])
	_, token, err := h.identity.CreateOwnToken(ctx, identity.NewToken{Name: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(r *http.Request) {
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Idempotency-Key", "k-"+r.URL.Path)
	}
	body := func(text string) func(*http.Request) {
		return func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		}
	}
	w := open(t, handler, http.MethodPost, "/api/v1/auth/session", fetch, body(`{"token":"`+token.Reveal()+`"}`))
	cookies := w.Result().Cookies()
	if w.Code != http.StatusOK || len(cookies) != 1 {
		t.Fatalf("sign-in: %d %s", w.Code, w.Body)
	}
	with := func(r *http.Request) { r.AddCookie(cookies[0]) }
	if w := open(t, handler, http.MethodGet, "/api/v1/admin/system", fetch, with); w.Code != http.StatusOK {
		t.Errorf("reading: %d %s", w.Code, w.Body)
	}
	if w := open(t, handler, http.MethodPost, "/api/v1/admin/tenants", fetch, with,
		body(`{"slug":"fresh","name":"Fresh"}`)); w.Code != http.StatusCreated {
		t.Errorf("changing: %d %s", w.Code, w.Body)
	}
	if w := open(t, handler, http.MethodPost, "/api/v1/auth/logout", fetch, with); w.Code != http.StatusNoContent ||
		w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("signing out: %d %s %v", w.Code, w.Body, w.Result().Cookies())
	}
	if w := open(t, handler, http.MethodGet, "/api/v1/me", fetch, with); w.Code != http.StatusUnauthorized {
		t.Errorf("after that: %d %s", w.Code, w.Body)
	}
}
