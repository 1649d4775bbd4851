package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/telemetry"
)

var (
	orgA     = id.Org{0: 0xa, 15: 1}
	orgB     = id.Org{0: 0xb, 15: 1}
	projectA = id.Project{0: 0xa, 15: 2}
	projectB = id.Project{0: 0xb, 15: 2}
	nowhere  = id.Project{0: 0xc, 15: 2}
)

// world stands for the slices that the frame asks: who is it, whose is it.
type world struct {
	mu      sync.Mutex
	revoked map[string]bool
	moved   map[string]bool // to another tenant
	denials []httpapi.Denial
	lookups int
	down    bool
}

func (w *world) Authenticate(_ context.Context, token redact.Secret) (*auth.Principal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	if w.down {
		return nil, fault.New(fault.Unavailable, "postgres_unavailable", "the database cannot be reached")
	}
	name := token.Reveal()
	p := &auth.Principal{Kind: auth.KindUser, ID: "user-" + name, Name: name}
	switch {
	case w.revoked[name]:
		return nil, fault.New(fault.Unauthenticated, "token_invalid", "the token is not valid")
	case name == "expired":
		return nil, fault.New(fault.Unauthenticated, "token_expired", "the token has expired")
	case name == "admin":
		p.Platform = auth.PlatformAdmin
	case name == "scoped":
		p.Platform, p.Scopes = auth.PlatformAdmin, []auth.Permission{auth.AuditRead}
	case name == "tenant-admin":
		p.Tenants = map[id.Org]auth.Role{orgA: auth.TenantAdmin}
	case name == "viewer" && w.moved[name]:
		p.Tenants = map[id.Org]auth.Role{orgB: auth.TenantAdmin}
	case name == "viewer":
		p.Projects = map[id.Project]auth.ProjectRole{projectA: {Org: orgA, Role: auth.ProjectViewer}}
	case strings.HasPrefix(name, "nobody"):
	default:
		return nil, fault.New(fault.Unauthenticated, "token_invalid", "the token is not valid")
	}
	return p, nil
}

func (w *world) TenantEnabled(context.Context, id.Org) error { return nil }

func (w *world) ProjectOrg(_ context.Context, project id.Project) (id.Org, error) {
	switch project {
	case projectA:
		return orgA, nil
	case projectB:
		return orgB, nil
	}
	return id.Org{}, fault.New(fault.NotFound, "project_not_found", "there is no project %s", project)
}

func (w *world) RecordDenial(ctx context.Context, d httpapi.Denial) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	d.Reason += " by " + auth.From(ctx).ID
	w.denials = append(w.denials, d)
	return nil
}

func (w *world) set(change func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// asked is how often somebody asked whose a token is.
func (w *world) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lookups
}

func (w *world) recorded() []httpapi.Denial {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.denials
}

// syncBuffer takes log lines of many goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type frame struct {
	*httpapi.API
	world   *world
	log     *syncBuffer
	handler http.Handler // nil: that of the API
}

func newFrame(_ testing.TB, change ...func(*httpapi.Config)) *frame {
	w, out := &world{revoked: map[string]bool{}, moved: map[string]bool{}}, &syncBuffer{}
	cfg := httpapi.Config{
		Title: "gpuaas", Version: "test", Logger: telemetry.NewLogger("json", slog.LevelDebug, out),
		Auth: w, Projects: w, Denials: w,
		Limits: httpapi.Limits{RequestsPerSecond: 1e6, Burst: 1e6},
	}
	for _, c := range change {
		c(&cfg)
	}
	return &frame{API: httpapi.New(cfg), world: w, log: out}
}

// call makes one request; options change it.
func (f *frame) call(t testing.TB, method, path, token, body string, options ...func(*http.Request)) *result {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, o := range options {
		o(r)
	}
	w, handler := httptest.NewRecorder(), f.handler
	if handler == nil {
		handler = f.Handler()
	}
	handler.ServeHTTP(w, r)
	return resultOf(t, w.Result())
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

type result struct {
	status  int
	header  http.Header
	body    string
	problem httpapi.Problem
}

func resultOf(t testing.TB, resp *http.Response) *result {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := &result{status: resp.StatusCode, header: resp.Header, body: string(b)}
	if resp.StatusCode >= http.StatusBadRequest {
		if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
			t.Errorf("a failure of type %q: %s", ct, b)
		}
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&out.problem); err != nil {
			t.Errorf("not a problem: %v: %s", err, b)
		}
		p := out.problem
		if p.Status != resp.StatusCode || p.Code == "" || p.Title == "" || p.CorrelationID == "" ||
			!strings.HasSuffix(p.Type, p.Code) {
			t.Errorf("incomplete problem: %s", b)
		}
		if p.CorrelationID != resp.Header.Get("X-Correlation-Id") && resp.Header.Get("Idempotency-Replayed") == "" {
			t.Errorf("correlation id of body %q and header %q differ", p.CorrelationID, resp.Header.Get("X-Correlation-Id"))
		}
	}
	return out
}

func (r *result) expect(t testing.TB, status int, code string) *result {
	t.Helper()
	if r.status != status || r.problem.Code != code {
		t.Errorf("got %d %q, want %d %q: %s", r.status, r.problem.Code, status, code, r.body)
	}
	return r
}

// The operations most tests use.

type thing struct {
	ID    id.Project `json:"id"`
	Name  string     `json:"name" minLength:"1" maxLength:"20"`
	Count int        `json:"count,omitempty" minimum:"0"`
}

type thingBody struct {
	Body thing
}

type noInput struct{}

func get(opID, path string, access httpapi.Access) httpapi.Operation {
	return httpapi.Operation{ID: opID, Method: http.MethodGet, Path: path, Summary: opID, Tag: "test", Access: access}
}

func ok(context.Context, *noInput) (*struct{}, error) { return nil, nil }

type tenantInput struct {
	Org id.Org `path:"org_id"`
}

type projectInput struct {
	Project id.Project `path:"project_id"`
}
