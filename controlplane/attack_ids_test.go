package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const nilID = "00000000-0000-0000-0000-000000000000"

// spot is a place of an operation that takes an id.
type spot struct {
	operation httpapi.Operation
	described *huma.Operation
	in        string   // path, query or body
	name      string   // of the parameter
	steps     []string // into the body; [] is an item of a list
}

func (s spot) String() string {
	return s.operation.ID + " " + s.in + "." + s.name + strings.Join(s.steps, ".")
}

// spots finds every place of the API that takes an id, by its contract.
func spots(api *httpapi.API) []spot {
	var out []spot
	doc := api.OpenAPI()
	for _, op := range api.Operations() {
		item := doc.Paths[op.Path]
		described := map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodPatch: item.Patch,
			http.MethodDelete: item.Delete,
		}[op.Method]
		at := spot{operation: op, described: described}
		for _, p := range described.Parameters {
			if isID(p.Schema) {
				at.in, at.name, at.steps = p.In, p.Name, nil
				out = append(out, at)
			}
		}
		if described.RequestBody != nil {
			at.in, at.name = "body", ""
			for _, steps := range idsWithin(doc, described.RequestBody.Content["application/json"].Schema, nil) {
				at.steps = steps
				out = append(out, at)
			}
		}
	}
	return out
}

func isID(s *huma.Schema) bool { return s != nil && s.Format == "uuid" }

func resolved(doc *huma.OpenAPI, s *huma.Schema) *huma.Schema {
	if s.Ref != "" {
		return doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	return s
}

func idsWithin(doc *huma.OpenAPI, s *huma.Schema, at []string) [][]string {
	s = resolved(doc, s)
	if len(at) > 8 {
		return nil
	}
	if isID(s) {
		return [][]string{slices.Clone(at)}
	}
	var out [][]string
	for name, p := range s.Properties {
		out = append(out, idsWithin(doc, p, append(slices.Clone(at), name))...)
	}
	if s.Items != nil {
		out = append(out, idsWithin(doc, s.Items, append(slices.Clone(at), "[]"))...)
	}
	return out
}

// body returns the smallest body that the schema accepts, with an id at the end
// of some steps.
func body(doc *huma.OpenAPI, s *huma.Schema, steps []string, value string) any {
	s = resolved(doc, s)
	if isID(s) {
		if steps != nil && len(steps) == 0 {
			return value
		}
		return id.NewString()
	}
	next := func(step string) []string {
		if len(steps) > 0 && steps[0] == step {
			return steps[1:]
		}
		return nil
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.Examples) > 0 && len(s.Properties) == 0 && next("[]") == nil:
		return s.Examples[0]
	case s.Type == huma.TypeArray:
		return []any{body(doc, s.Items, next("[]"), value)}
	case s.Type == huma.TypeObject:
		out := map[string]any{}
		for name, p := range s.Properties {
			if inner := next(name); inner != nil || slices.Contains(s.Required, name) {
				out[name] = body(doc, p, inner, value)
			}
		}
		return out
	case s.Type == huma.TypeBoolean:
		return true
	case s.Type == huma.TypeInteger || s.Type == huma.TypeNumber:
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	}
	return strings.Repeat("x", max(1, deref(s.MinLength)))
}

func deref(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// send makes the request that has one id where the spot is.
func (h *house) send(t *testing.T, s spot, value string, admin func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	path := s.operation.Path
	for _, p := range s.described.Parameters {
		if p.In != "path" {
			continue
		}
		given := map[string]string{"org_id": h.org.String(), "project_id": h.project.String()}[p.Name]
		if given == "" {
			given = id.NewString()
		}
		if s.in == "path" && s.name == p.Name {
			given = value
		}
		path = strings.ReplaceAll(path, "{"+p.Name+"}", given)
	}
	if s.in == "query" {
		path += "?" + url.Values{s.name: {value}}.Encode()
	}
	var payload []byte
	if s.described.RequestBody != nil {
		steps := s.steps
		var err error
		payload, err = json.Marshal(body(h.api.OpenAPI(), s.described.RequestBody.Content["application/json"].Schema, steps,
			value))
		if err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), s.operation.Method, path, strings.NewReader(string(payload)))
	if payload != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("If-Match", `"1"`)
	admin(r)
	w := httptest.NewRecorder()
	h.handler().ServeHTTP(w, r)
	return w
}

// rejects reports whether an answer names the spot among what it refuses.
func (s spot) rejects(w *httptest.ResponseRecorder) bool {
	var problem httpapi.Problem
	if json.Unmarshal(w.Body.Bytes(), &problem) != nil || w.Code/100 != 4 {
		return false
	}
	want := s.in + "." + s.name + strings.ReplaceAll(strings.Join(s.steps, "."), ".[]", "[0]")
	return slices.ContainsFunc(problem.Errors, func(e httpapi.FieldError) bool { return e.Field == want })
}

// Every operation gets, in every place that takes an id, the nil UUID, one of
// all ones and one that nothing has.
func TestAttackIDsThatMeanSomethingElse(t *testing.T) {
	h := newHouse(t)
	admin := h.bearer(t, auth.PlatformAdmin)
	all := spots(h.api)
	if len(all) < 100 {
		t.Fatalf("only %d places were found", len(all))
	}
	for _, s := range all {
		if w := h.send(t, s, nilID, admin); !s.rejects(w) {
			t.Errorf("%s takes the nil UUID: %d %s", s, w.Code, w.Body)
		}
		if s.operation.Stream {
			continue // it would stay open
		}
		for _, other := range []string{"ffffffff-ffff-ffff-ffff-ffffffffffff", id.NewString()} {
			w := h.send(t, s, other, admin)
			// The house has no engines: operations that need one are
			// unavailable.
			if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
				t.Errorf("%s of %s: %d %s", s, other, w.Code, w.Body)
			}
			// those are there everywhere
			if s.in == "query" && w.Code == http.StatusOK && shows(w) && !strings.HasSuffix(s.operation.ID, "-stages") {
				t.Errorf("%s of %s is answered with something: %s", s, other, w.Body)
			}
		}
		if s.in == "query" {
			if w := h.send(t, s, "", admin); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s without an id: %d %s", s, w.Code, w.Body)
			}
		}
	}
}

// shows reports whether a list has items.
func shows(w *httptest.ResponseRecorder) bool {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	return json.Unmarshal(w.Body.Bytes(), &list) == nil && len(list.Items) > 0
}

// Nobody is redirected from a path to one that it might mean: a client that
// follows would repeat a deletion on something else.
func TestAttackPathsThatMeanSomethingElse(t *testing.T) {
	h := newHouse(t)
	admin := h.bearer(t, auth.PlatformAdmin)
	site := id.NewString()
	for _, path := range []string{
		"/api/v1/admin/sites/" + site + "/profiles/..", "/api/v1/admin/sites/" + site + "/profiles/.",
		"/api/v1/admin/sites//" + site,
		"/api/v1/admin/sites/" + site + "/profiles/%2e%2e", "/api/v1/admin/sites/" + site + "/profiles/%2E%2e/",
		"//api/v1/admin/sites/" + site,
		"/api/v1/admin/sites/" + site + "/profiles%2f" + site, "/api/v1/admin/sites/" + site + "%2Fprofiles", "/api/./v1/me",
		"/api/../api/v1/me",
		"/api/v1/admin/sites/..%5c", "/x/../api/v1/me", "/api/v1/me/", "/api/v1//me",
	} {
		for _, method := range []string{
			http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete,
		} {
			w := open(t, h.handler(), method, path, admin)
			var problem httpapi.Problem
			err := json.Unmarshal(w.Body.Bytes(), &problem)
			if w.Code != http.StatusNotFound || w.Header().Get("Location") != "" || err != nil || problem.Code != "not_found" {
				t.Errorf("%s %s: %d to %q, %s", method, path, w.Code, w.Header().Get("Location"), fmt.Sprint(w.Body))
			}
		}
	}
}
