package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

func accessFrame(t *testing.T) *frame {
	t.Helper()
	f := newFrame(t)
	httpapi.Register(f.API, get("public", "/public", httpapi.Public()), ok)
	httpapi.Register(f.API, get("known", "/known", httpapi.Authenticated()), ok)
	httpapi.Register(f.API, get("anywhere", "/anywhere", httpapi.Anywhere(auth.TenantRead)), ok)
	httpapi.Register(f.API, get("platform", "/platform", httpapi.Platform(auth.OutboxRead)), ok)
	httpapi.Register(f.API, get("tenant", "/tenants/{org_id}", httpapi.Tenant(auth.TenantUpdate)),
		func(context.Context, *tenantInput) (*struct{}, error) { return nil, nil })
	httpapi.Register(f.API, get("project", "/projects/{project_id}", httpapi.Project(auth.ProjectUpdate)),
		func(context.Context, *projectInput) (*struct{}, error) { return nil, nil })
	return f
}

func TestAccess(t *testing.T) {
	f := accessFrame(t)
	tenantA, tenantB := "/tenants/"+orgA.String(), "/tenants/"+orgB.String()
	inA, inB := "/projects/"+projectA.String(), "/projects/"+projectB.String()
	for _, c := range []struct {
		path, token string
		status      int
		code        string
	}{
		{"/public", "", 204, ""},
		{"/public", "rubbish", 204, ""},
		{"/known", "", 401, "token_missing"},
		{"/known", "rubbish", 401, "token_invalid"},
		{"/known", "expired", 401, "token_expired"},
		{"/known", "nobody", 204, ""},
		{"/anywhere", "nobody", 403, "insufficient_permissions"},
		{"/anywhere", "viewer", 204, ""},
		{"/anywhere", "scoped", 403, "insufficient_permissions"},
		{"/platform", "tenant-admin", 403, "insufficient_permissions"},
		{"/platform", "admin", 204, ""},
		{"/platform", "scoped", 403, "insufficient_permissions"},
		{tenantA, "admin", 204, ""},
		{tenantA, "tenant-admin", 204, ""},
		{tenantA, "viewer", 403, "insufficient_permissions"},
		{tenantA, "nobody", 404, "not_found"},
		{tenantB, "tenant-admin", 404, "not_found"},
		{tenantA, "", 401, "token_missing"},
		{"/tenants/not-a-uuid", "tenant-admin", 422, "validation_error"},
		{"/tenants/not-a-uuid", "", 401, "token_missing"},
		{inA, "tenant-admin", 204, ""},
		{inA, "viewer", 403, "insufficient_permissions"},
		{inB, "tenant-admin", 404, "not_found"},
		{"/projects/" + nowhere.String(), "tenant-admin", 404, "not_found"},
		{"/projects/" + nowhere.String(), "admin", 404, "not_found"},
		{"/projects/7", "tenant-admin", 422, "validation_error"},
		{"/nothing", "admin", 404, "not_found"},
	} {
		t.Run(c.path+" "+c.token, func(t *testing.T) {
			f.call(t, http.MethodGet, c.path, c.token, "").expect(t, c.status, c.code)
		})
	}
}

func TestForbiddenNamesThePermission(t *testing.T) {
	r := accessFrame(t).call(t, http.MethodGet, "/platform", "viewer", "")
	if !strings.Contains(r.problem.Detail, string(auth.OutboxRead)) {
		t.Errorf("detail %q does not name the permission", r.problem.Detail)
	}
}

func TestTokenForms(t *testing.T) {
	f := accessFrame(t)
	for _, c := range []struct {
		header string
		status int
		code   string
	}{
		{"Bearer admin", 204, ""},
		{"bearer admin", 204, ""},
		{"Basic admin", 401, "token_missing"},
		{"Bearer ", 401, "token_missing"},
		{"admin", 401, "token_missing"},
	} {
		r := f.call(t, http.MethodGet, "/known", "", "", header("Authorization", c.header)).expect(t, c.status, c.code)
		if c.status == 401 && r.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: no challenge", c.header)
		}
	}
}

// The answer for what a caller must not know of equals, byte for byte, the
// answer for what does not exist.
func TestHiddenLooksLikeAbsent(t *testing.T) {
	f := accessFrame(t)
	same := header("X-Correlation-Id", "same")
	foreign := f.call(t, http.MethodGet, "/projects/"+projectB.String(), "tenant-admin", "", same)
	absent := f.call(t, http.MethodGet, "/projects/"+nowhere.String(), "tenant-admin", "", same)
	if d := cmp.Diff(absent.body, foreign.body); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(absent.header, foreign.header); d != "" {
		t.Error(d)
	}
}

func TestDenialsAreRecorded(t *testing.T) {
	f := accessFrame(t)
	f.call(t, http.MethodGet, "/platform", "viewer", "")
	f.call(t, http.MethodGet, "/projects/"+projectB.String(), "tenant-admin", "")
	f.call(t, http.MethodGet, "/known", "", "")
	f.call(t, http.MethodGet, "/platform", "admin", "")
	want := []httpapi.Denial{
		{
			OperationID: "platform", Method: "GET", Path: "/platform", Permission: auth.OutboxRead,
			Reason: "insufficient permissions by user-viewer",
		},
		{
			OperationID: "project", Method: "GET", Path: "/projects/{project_id}", Permission: auth.ProjectUpdate,
			Target: auth.Target{Org: orgB, Project: projectB}, Reason: "no role on the target by user-tenant-admin",
		},
	}
	if d := cmp.Diff(want, f.world.recorded()); d != "" {
		t.Error(d)
	}
}

func TestHandlerSeesPrincipalAndAddress(t *testing.T) {
	f := newFrame(t)
	var principal, addr string
	httpapi.Register(f.API, get("who", "/who", httpapi.Authenticated()),
		func(ctx context.Context, _ *noInput) (*struct{}, error) {
			principal, addr = auth.From(ctx).ID, httpapi.ClientAddr(ctx)
			return nil, nil
		})
	f.call(t, http.MethodGet, "/who", "admin", "", func(r *http.Request) { r.RemoteAddr = "[2001:db8::7]:4711" })
	if principal != "user-admin" || addr != "2001:db8::7" {
		t.Errorf("got %q from %q", principal, addr)
	}
}

func TestAuthenticationDown(t *testing.T) {
	f := accessFrame(t)
	f.world.set(func(w *world) { w.down = true })
	r := f.call(t, http.MethodGet, "/known", "admin", "").expect(t, 503, "postgres_unavailable")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	f.call(t, http.MethodGet, "/public", "admin", "").expect(t, 204, "")
}

func TestRegistrationRefusesMistakes(t *testing.T) {
	type nameless struct {
		Body struct {
			Name string `json:"name"`
		}
	}
	fine := get("fine", "/fine", httpapi.Public())
	change := func(c func(*httpapi.Operation)) httpapi.Operation {
		op := fine
		c(&op)
		return op
	}
	for name, register := range map[string]func(*httpapi.API){
		"no access": func(a *httpapi.API) {
			httpapi.Register(a, change(func(o *httpapi.Operation) { o.Access = httpapi.Access{} }), ok)
		},
		"no id":      func(a *httpapi.API) { httpapi.Register(a, change(func(o *httpapi.Operation) { o.ID = "" }), ok) },
		"no summary": func(a *httpapi.API) { httpapi.Register(a, change(func(o *httpapi.Operation) { o.Summary = "" }), ok) },
		"no tag":     func(a *httpapi.API) { httpapi.Register(a, change(func(o *httpapi.Operation) { o.Tag = "" }), ok) },
		"no path":    func(a *httpapi.API) { httpapi.Register(a, change(func(o *httpapi.Operation) { o.Path = "" }), ok) },
		"no permission": func(a *httpapi.API) {
			httpapi.Register(a, change(func(o *httpapi.Operation) { o.Access = httpapi.Platform("") }), ok)
		},
		"tenant without param": func(a *httpapi.API) {
			httpapi.Register(a, change(func(o *httpapi.Operation) { o.Access = httpapi.Tenant(auth.TenantRead) }), ok)
		},
		"patch without match": func(a *httpapi.API) {
			httpapi.Register(a, change(func(o *httpapi.Operation) { o.Method = http.MethodPatch }), ok)
		},
		"same id twice": func(a *httpapi.API) {
			httpapi.Register(a, fine, ok)
			httpapi.Register(a, change(func(o *httpapi.Operation) { o.Path = "/other" }), ok)
		},
		"same route twice": func(a *httpapi.API) {
			httpapi.Register(a, fine, ok)
			httpapi.Register(a, change(func(o *httpapi.Operation) { o.ID = "other" }), ok)
		},
		"nameless body": func(a *httpapi.API) {
			httpapi.Register(a, change(func(o *httpapi.Operation) { o.Method = http.MethodPost }),
				func(context.Context, *nameless) (*struct{}, error) { return nil, nil })
		},
		"stream without events": func(a *httpapi.API) {
			httpapi.RegisterStream(a, fine, nil, func(context.Context, *noInput, func(httpapi.Event) error) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			register(newFrame(t).API)
		})
	}
}

func TestOperationsAreListed(t *testing.T) {
	ops := accessFrame(t).Operations()
	if len(ops) != 6 || ops[4].ID != "tenant" || ops[4].Access.Scope() != httpapi.ScopeTenant ||
		ops[4].Access.Permission() != auth.TenantUpdate {
		t.Errorf("got %+v", ops)
	}
}

// Without the parts that decide, nobody is admitted.
func TestNothingToAskRefuses(t *testing.T) {
	a := httpapi.New(httpapi.Config{Title: "gpuaas", Version: "test"})
	httpapi.Register(a, get("known", "/known", httpapi.Authenticated()), ok)
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/known", nil)
	r.Header.Set("Authorization", "Bearer admin")
	a.Handler().ServeHTTP(w, r)
	resultOf(t, w.Result()).expect(t, 503, "authentication_unavailable")
}

// What a command refuses, although the permission is there, is audited too, with the
// code and not the words of the refusal.
func TestWhatACommandRefusesIsAudited(t *testing.T) {
	f := newFrame(t)
	httpapi.Register(f.API, httpapi.Operation{
		ID: "use-thing", Method: http.MethodGet, Path: "/api/v1/projects/{project_id}/thing", Summary: "Use it", Tag: "Test",
		Access: httpapi.Project(auth.AllocationRead),
	}, func(context.Context, *struct {
		Project id.Project `path:"project_id"`
	},
	) (*httpapi.Plain[httpapi.Denial], error) {
		return nil, fault.New(fault.Forbidden, "ownership_required", "it is somebody else's")
	})
	f.call(t, http.MethodGet, "/api/v1/projects/"+projectA.String()+"/thing", "viewer", "").
		expect(t, 403, "ownership_required")
	want := []httpapi.Denial{{
		OperationID: "use-thing", Method: http.MethodGet, Path: "/api/v1/projects/{project_id}/thing",
		Permission: auth.AllocationRead, Target: auth.Target{Org: orgA, Project: projectA},
		Reason: "ownership_required by user-viewer",
	}}
	if d := cmp.Diff(want, f.world.recorded()); d != "" {
		t.Error(d)
	}
}
