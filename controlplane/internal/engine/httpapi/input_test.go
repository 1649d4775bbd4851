package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
)

type listInput struct {
	httpapi.Page
	Kind string `query:"kind" enum:"big,small"`
}

type position struct {
	Name string `json:"name"`
}

type listOutput struct {
	Body httpapi.List[thing]
}

type patchInput struct {
	httpapi.IfMatch
	ID   id.Project `path:"id"`
	Body thing
}

type patchOutput struct {
	ETag string `header:"ETag"`
	Body thing
}

func inputFrame(t testing.TB, change ...func(*httpapi.Config)) *frame {
	f := newFrame(t, append([]func(*httpapi.Config){func(c *httpapi.Config) { c.Limits.MaxBodyBytes = 512 }},
		change...)...)
	httpapi.Register(f.API, httpapi.Operation{
		ID: "create-thing", Method: http.MethodPost, Path: "/things", Summary: "Create", Tag: "test",
		Access: httpapi.Authenticated(), Status: http.StatusCreated,
	}, func(_ context.Context, in *thingBody) (*thingBody, error) { return in, nil })
	httpapi.Register(f.API, get("list-things", "/things", httpapi.Authenticated()),
		func(_ context.Context, in *listInput) (*listOutput, error) {
			var after position
			if _, err := in.After(&after); err != nil {
				return nil, err
			}
			return &listOutput{Body: httpapi.NewList(in.Page, []thing{{Name: after.Name + "1"}, {Name: after.Name + "2"}},
				func(x thing) any { return position{Name: x.Name} })}, nil
		})
	httpapi.Register(f.API, httpapi.Operation{
		ID: "update-thing", Method: http.MethodPatch, Path: "/things/{id}", Summary: "Update", Tag: "test",
		Access: httpapi.Authenticated(),
	}, func(_ context.Context, in *patchInput) (*patchOutput, error) {
		v, err := in.Version()
		if err != nil {
			return nil, err
		}
		if v != 7 {
			return nil, fault.New(fault.Stale, "thing_changed", "the thing was changed since")
		}
		return &patchOutput{ETag: httpapi.ETag(v + 1), Body: in.Body}, nil
	})
	return f
}

const goodThing = `{"id":"0a000000-0000-0000-0000-000000000002","name":"x"}`

func TestBadInput(t *testing.T) {
	f := inputFrame(t)
	aThing := "/things/" + projectA.String()
	match := header("If-Match", `"7"`)
	for name, c := range map[string]struct {
		method, path, token, body string
		option                    func(*http.Request)
		status                    int
		code, field               string
	}{
		"malformed json": {
			method: "POST", path: "/things", body: `{"name":`, status: 400, code: "invalid_request",
			field: "body",
		},
		"two documents": {
			method: "POST", path: "/things", body: goodThing + goodThing, status: 400,
			code: "invalid_request", field: "body",
		},
		"no body": {method: "POST", path: "/things", status: 400, code: "invalid_request"},
		"null": {
			method: "POST", path: "/things", body: `null`, status: 422, code: "validation_error",
			field: "body",
		},
		"a list": {
			method: "POST", path: "/things", body: `[]`, status: 422, code: "validation_error",
			field: "body",
		},
		"unknown field": {
			method: "POST", path: "/things",
			body: `{"id":"0a000000-0000-0000-0000-000000000002","name":"x","colour":"red"}`, status: 422,
			code: "validation_error", field: "body.colour",
		},
		"other case": {
			method: "POST", path: "/things",
			body: `{"id":"0a000000-0000-0000-0000-000000000002","Name":"x"}`, status: 422, code: "validation_error",
			field: "body.Name",
		},
		"missing field": {
			method: "POST", path: "/things", body: `{"id":"0a000000-0000-0000-0000-000000000002"}`,
			status: 422, code: "validation_error", field: "body",
		},
		"wrong type": {
			method: "POST", path: "/things",
			body: `{"id":"0a000000-0000-0000-0000-000000000002","name":7}`, status: 422, code: "validation_error",
			field: "body.name",
		},
		"too long": {
			method: "POST", path: "/things",
			body: `{"id":"0a000000-0000-0000-0000-000000000002","name":"` + strings.Repeat("x", 21) + `"}`, status: 422,
			code: "validation_error", field: "body.name",
		},
		"number too large": {
			method: "POST", path: "/things",
			body: `{"id":"0a000000-0000-0000-0000-000000000002","name":"x","count":1e400}`, status: 400, code: "invalid_request",
			field: "body",
		},
		"fraction for int": {
			method: "POST", path: "/things",
			body: `{"id":"0a000000-0000-0000-0000-000000000002","name":"x","count":1.5}`, status: 422, code: "validation_error",
		},
		"int beyond 64 bit": {
			method: "POST", path: "/things",
			body: `{"id":"0a000000-0000-0000-0000-000000000002","name":"x","count":1e300}`, status: 422,
			code: "validation_error",
		},
		"bad uuid in body": {
			method: "POST", path: "/things", body: `{"id":"7","name":"x"}`, status: 422,
			code: "validation_error", field: "body.id",
		},
		"nul in string": {
			method: "POST", path: "/things",
			body: `{"id":"0a000000-0000-0000-0000-000000000002","name":"a\u0000"}`, status: 422, code: "validation_error",
			field: "body",
		},
		"not utf-8": {
			method: "POST", path: "/things", body: "{\"name\":\"\xff\"}", status: 400,
			code: "invalid_request",
		},
		"oversized": {
			method: "POST", path: "/things", body: `{"name":"` + strings.Repeat("x", 600) + `"}`,
			status: 413, code: "body_too_large",
		},
		"wrong content type": {
			method: "POST", path: "/things", body: goodThing,
			option: header("Content-Type", "text/plain"), status: 415, code: "unsupported_media_type",
		},
		"form content type": {
			method: "POST", path: "/things", body: "name=x",
			option: header("Content-Type", "application/x-www-form-urlencoded"), status: 415, code: "unsupported_media_type",
		},
		"broken content type": {
			method: "POST", path: "/things", body: goodThing, option: header("Content-Type", ";;"),
			status: 415, code: "unsupported_media_type",
		},
		"bad cursor": {
			method: "GET", path: "/things?cursor=rubbish", status: 422, code: "cursor_invalid",
			field: "query.cursor",
		},
		"foreign cursor": {
			method: "GET", path: "/things?cursor=" + httpapi.EncodeCursor(map[string]int{"n": 1}),
			status: 422, code: "cursor_invalid", field: "query.cursor",
		},
		"long cursor": {
			method: "GET", path: "/things?cursor=" + strings.Repeat("x", 1025), status: 422,
			code: "validation_error", field: "query.cursor",
		},
		"page too large": {
			method: "GET", path: "/things?page_size=201", status: 422, code: "validation_error",
			field: "query.page_size",
		},
		"page of nothing": {
			method: "GET", path: "/things?page_size=0", status: 422, code: "validation_error",
			field: "query.page_size",
		},
		"page not a number": {
			method: "GET", path: "/things?page_size=many", status: 422, code: "validation_error",
			field: "query.page_size",
		},
		"bad word": {
			method: "GET", path: "/things?kind=huge", status: 422, code: "validation_error",
			field: "query.kind",
		},
		"unknown parameter": {
			method: "GET", path: "/things?colour=red", status: 422, code: "validation_error",
			field: "query.colour",
		},
		"unknown on post": {
			method: "POST", path: "/things?dry=1", body: goodThing, status: 422, code: "validation_error",
			field: "query.dry",
		},
		"broken query": {method: "GET", path: "/things?cursor=%zz", status: 400, code: "invalid_request"},
		"nul in query": {
			method: "GET", path: "/things?kind=%00", status: 422, code: "validation_error",
			field: "query.kind",
		},
		"not utf-8 in query": {
			method: "GET", path: "/things?kind=%ff", status: 422, code: "validation_error",
			field: "query.kind",
		},
		"nul in path": {
			method: "PATCH", path: "/things/%00", body: goodThing, option: match, status: 400,
			code: "invalid_request",
		},
		"bad uuid in path": {
			method: "PATCH", path: "/things/7", body: goodThing, option: match, status: 422,
			code: "validation_error", field: "path.id",
		},
		"no if-match": {method: "PATCH", path: aThing, body: goodThing, status: 428, code: "precondition_required"},
		"any if-match": {
			method: "PATCH", path: aThing, body: goodThing, option: header("If-Match", "*"), status: 422,
			code: "if_match_invalid", field: "header.If-Match",
		},
		"weak if-match": {
			method: "PATCH", path: aThing, body: goodThing, option: header("If-Match", `W/"7"`),
			status: 422, code: "if_match_invalid", field: "header.If-Match",
		},
		"bare if-match": {
			method: "PATCH", path: aThing, body: goodThing, option: header("If-Match", `7`), status: 422,
			code: "if_match_invalid", field: "header.If-Match",
		},
		"several if-match": {
			method: "PATCH", path: aThing, body: goodThing, option: header("If-Match", `"7", "8"`),
			status: 422, code: "if_match_invalid", field: "header.If-Match",
		},
		"stale if-match": {
			method: "PATCH", path: aThing, body: goodThing, option: header("If-Match", `"6"`),
			status: 412, code: "thing_changed",
		},
		"missing token": {
			method: "POST", path: "/things", token: "-", body: `{"name":`, status: 401,
			code: "token_missing",
		},
		"expired token": {
			method: "POST", path: "/things", token: "expired", body: goodThing, status: 401,
			code: "token_expired",
		},
		"foreign token": {
			method: "POST", path: "/things", token: "someone-elses", body: goodThing, status: 401,
			code: "token_invalid",
		},
		"unknown path":    {method: "GET", path: "/thing", status: 404, code: "not_found"},
		"unknown method":  {method: "DELETE", path: "/things", status: 405, code: "method_not_allowed"},
		"invented method": {method: "BREW", path: "/things", status: 405, code: "method_not_allowed"},
		"long key": {
			method: "POST", path: "/things", body: goodThing,
			option: header("Idempotency-Key", strings.Repeat("k", 129)), status: 422, code: "validation_error",
			field: "header.Idempotency-Key",
		},
		"key with a space": {
			method: "POST", path: "/things", body: goodThing, option: header("X-Idempotency-Key", "a b"),
			status: 422, code: "validation_error", field: "header.X-Idempotency-Key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			token := c.token
			switch token {
			case "":
				token = "nobody"
			case "-":
				token = ""
			}
			option := c.option
			if option == nil {
				option = func(*http.Request) {}
			}
			r := f.call(t, c.method, c.path, token, c.body, option).expect(t, c.status, c.code)
			named := func(e httpapi.FieldError) bool { return e.Field == c.field && e.Message != "" }
			if c.field != "" && !slices.ContainsFunc(r.problem.Errors, named) {
				t.Errorf("errors %v do not name field %s", r.problem.Errors, c.field)
			}
		})
	}
}

func TestMethodNotAllowedSaysWhatIs(t *testing.T) {
	r := inputFrame(t).call(t, http.MethodDelete, "/things", "nobody", "")
	if got := r.header.Get("Allow"); got != "GET, POST" {
		t.Errorf("Allow: %s", got)
	}
}

// A rejected value may be a secret in the wrong field.
func TestRejectedValuesAreNotEchoed(t *testing.T) {
	f := inputFrame(t)
	for _, body := range []string{
		`{"id":"hunter2-secret","name":"x"}`, `{"name":{"p":"hunter2-secret"}}`, `{"name":"hunter2-secret`,
	} {
		r := f.call(t, http.MethodPost, "/things", "nobody", body)
		if r.status < 400 || strings.Contains(r.body, "hunter2") || strings.Contains(f.log.String(), "hunter2") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

func TestGoodInput(t *testing.T) {
	f := inputFrame(t)
	r := f.call(t, http.MethodPost, "/things", "nobody", goodThing,
		header("Content-Type", "application/json; charset=utf-8")).expect(t, 201, "")
	if r.body != goodThing+"\n" {
		t.Errorf("got %s", r.body)
	}
	r = f.call(t, http.MethodPatch, "/things/"+projectA.String(), "nobody", goodThing, header("If-Match", `"7"`)).expect(t,
		200, "")
	if r.header.Get("ETag") != `"8"` {
		t.Errorf("ETag %s", r.header.Get("ETag"))
	}
	f.call(t, http.MethodPost, "/things", "nobody",
		`{"id":"0a000000-0000-0000-0000-000000000002","name":"\\u0000"}`).expect(t, 201, "")
}

func TestAnyQueryIsAcceptedWhereDeclared(t *testing.T) {
	f := newFrame(t)
	op := get("callback", "/callback", httpapi.Public())
	op.AnyQuery = true
	httpapi.Register(f.API, op, ok)
	f.call(t, http.MethodGet, "/callback?session_state=1", "", "").expect(t, 204, "")
}

func TestStatusOfEveryKind(t *testing.T) {
	want := map[fault.Kind]int{
		fault.Invalid: 422, fault.Unauthenticated: 401, fault.Forbidden: 403, fault.NotFound: 404, fault.Conflict: 409,
		fault.Stale: 412, fault.RateLimited: 429, fault.Unavailable: 503, fault.Ambiguous: 504, fault.Internal: 500,
	}
	for _, kind := range fault.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			f := newFrame(t)
			failure := fault.Wrap(errors.New("the-cause"), kind, "some_code", "some message").WithRemedy("some remedy").
				WithFields(fault.Field{Path: "body.x", Message: "wrong"})
			httpapi.Register(f.API, get("fail", "/fail", httpapi.Public()), func(context.Context, *noInput) (*struct{}, error) {
				return nil, fmt.Errorf("do the thing: %w", failure)
			})
			r := f.call(t, http.MethodGet, "/fail", "", "").expect(t, want[kind], "some_code")
			if strings.Contains(r.body, "the-cause") || strings.Contains(r.body, "do the thing") {
				t.Errorf("shows its cause: %s", r.body)
			}
			retry := r.header.Get("Retry-After") != ""
			if retry != (kind == fault.RateLimited || kind == fault.Unavailable) {
				t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
			}
			if kind == fault.Internal {
				if strings.Contains(r.body, "some message") || !strings.Contains(f.log.String(), "the-cause") {
					t.Errorf("internal: answered %s, logged %s", r.body, f.log)
				}
				return
			}
			if r.problem.Detail != "some message" || r.problem.Remedy != "some remedy" ||
				!cmp.Equal(r.problem.Errors, []httpapi.FieldError{{Field: "body.x", Message: "wrong"}}) {
				t.Errorf("got %s", r.body)
			}
		})
	}
}

func TestUnexpectedErrors(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(context.Context, *noInput) (*struct{}, error)
		status  int
		code    string
	}{
		"unclassified": {
			func(context.Context, *noInput) (*struct{}, error) { return nil, errors.New("hunter2") }, 500,
			"internal",
		},
		"panic": {func(context.Context, *noInput) (*struct{}, error) { panic("hunter2") }, 500, "internal"},
		"timeout": {func(ctx context.Context, _ *noInput) (*struct{}, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("hunter2: %w", ctx.Err())
		}, 504, "request_timed_out"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrame(t, func(c *httpapi.Config) { c.Limits.RequestTimeout = 20 * time.Millisecond })
			httpapi.Register(f.API, get("fail", "/fail", httpapi.Public()), c.handler)
			r := f.call(t, http.MethodGet, "/fail", "", "").expect(t, c.status, c.code)
			if strings.Contains(r.body, "hunter2") {
				t.Errorf("shows its cause: %s", r.body)
			}
			log := f.log.String()
			if !strings.Contains(log, "hunter2") || !strings.Contains(log, r.problem.CorrelationID) {
				t.Errorf("cause not logged with its correlation id: %s", log)
			}
		})
	}
}

// If a caller announces a body and then falls silent, nobody waits for it,
// whether a handler wants that body or not.
func TestStalledBody(t *testing.T) {
	f := inputFrame(t, func(c *httpapi.Config) { c.Limits.RequestTimeout = 50 * time.Millisecond })
	server := httptest.NewServer(f.Handler())
	t.Cleanup(server.Close)
	for _, c := range []struct {
		line, token string
		status      int
		code        string
	}{
		{"POST /things", "nobody", 408, "body_read_timeout"},
		{"POST /things", "rubbish", 401, "token_invalid"},
		{"POST /nowhere", "nobody", 404, "not_found"},
		{"GET /things?colour=red", "nobody", 422, "validation_error"},
	} {
		t.Run(c.line+" "+c.token, func(t *testing.T) {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			head := c.line + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.token +
				"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
			if _, err := conn.Write([]byte(head)); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resultOf(t, resp).expect(t, c.status, c.code)
		})
	}
}
