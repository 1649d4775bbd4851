package apiclient

import (
	"net/http"
	"testing"

	"github.com/oapi-codegen/runtime/types"
)

func TestRequestsAreWrittenAsTheContractSays(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{answer(`{}`), answer(noTenants), answer(noTenants), answer(`{}`)}}
	c := s.client(Config{})
	word, size := "a b&c", int64(7)
	states := []string{"ready", "in use"}
	calls := []func() error{
		func() error { _, err := c.GetTenantWithResponse(t.Context(), types.UUID{15: 1}); return err },
		func() error { _, err := c.ListTenantsWithResponse(t.Context(), nil); return err },
		func() error {
			_, err := c.ListNodesWithResponse(t.Context(), &ListNodesParams{Cursor: &word, PageSize: &size, Statuses: &states})
			return err
		},
		func() error {
			_, err := c.UpdateTenantWithResponse(t.Context(), types.UUID{15: 1}, &UpdateTenantParams{IfMatch: `"3"`},
				IdentityRenameBody{Name: "A"})
			return err
		},
	}
	for i, call := range calls {
		if err := call(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	for i, want := range []string{
		"GET /api/v1/tenants/00000000-0000-0000-0000-000000000001",
		"GET /api/v1/tenants",
		"GET /api/v1/admin/nodes?cursor=a+b%26c&page_size=7&statuses=ready&statuses=in+use",
		"PATCH /api/v1/tenants/00000000-0000-0000-0000-000000000001",
	} {
		if r := s.requests()[i]; r.Method+" "+r.URL.String() != want {
			t.Errorf("request %d is %s %s, not %s", i, r.Method, r.URL, want)
		}
	}
	change := s.requests()[3]
	if change.Header.Get("If-Match") != `"3"` || change.Header.Get("Content-Type") != "application/json" ||
		s.bodies[3] != `{"name":"A"}` {
		t.Errorf("the change went out as %v with %s", change.Header, s.bodies[3])
	}
}

func TestARequestThatCannotBeWrittenIsNotSent(t *testing.T) {
	c := (&script{t: t}).client(Config{})
	if _, err := c.CreateUserWithResponse(t.Context(), nil, IdentityNewUserBody{Email: "no address"}); err == nil {
		t.Error("an email address that is none was sent")
	}
}

func TestAnAnswerThatIsNotJSONHasNoJSON(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("up 1\n"))
	}}}
	got, err := s.client(Config{}).GetMetricsWithResponse(t.Context())
	if err != nil || got.JSON != nil || string(got.Body) != "up 1\n" {
		t.Errorf("got %+v, %v", got, err)
	}
}
