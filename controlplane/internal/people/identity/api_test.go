package identity_test

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity"
)

// Each resource goes through its life over the API.
func TestTenantOverTheAPI(t *testing.T) {
	s := newStage(t)
	root := s.token(t, s.root.ID)
	a := s.callAs(t, root, http.MethodPost, "/api/v1/admin/tenants", "", map[string]any{"slug": "fresh", "name": "Fresh"})
	var tenant identity.TenantView
	a.Decode(t, &tenant)
	if a.Status != http.StatusCreated || tenant.Slug != "fresh" || tenant.OrgID.IsZero() || a.Header.Get("ETag") != `"1"` {
		t.Fatalf("answer is %d %s, ETag %s", a.Status, a.Body, a.Header.Get("ETag"))
	}
	path := "/api/v1/tenants/" + tenant.OrgID.String()
	var projects struct{ Items []identity.ProjectView }
	s.callAs(t, root, http.MethodGet, path+"/projects", "", nil).Decode(t, &projects)
	if len(projects.Items) != 1 || projects.Items[0].Slug != "default" || projects.Items[0].OrgID != tenant.OrgID {
		t.Errorf("a fresh tenant has projects %+v", projects.Items)
	}
	rename := map[string]any{"name": "Renamed"}
	s.callAs(t, root, http.MethodPatch, path, "", rename).Wants(t, http.StatusPreconditionRequired,
		"precondition_required")
	s.callAs(t, root, http.MethodPatch, path, `"9"`, rename).Wants(t, http.StatusPreconditionFailed, "version_stale")
	a = s.callAs(t, root, http.MethodPatch, path, `"1"`, rename)
	if a.Status != http.StatusOK || a.Header.Get("ETag") != `"2"` {
		t.Errorf("rename answers %d %s", a.Status, a.Body)
	}
	a = s.callAs(t, root, http.MethodGet, path, "", nil)
	a.Decode(t, &tenant)
	if tenant.Name != "Renamed" || tenant.Version != 2 || a.Header.Get("ETag") != `"2"` {
		t.Errorf("the tenant is %+v", tenant)
	}
	s.callAs(t, root, http.MethodPost, "/api/v1/admin/tenants", "",
		map[string]any{"slug": "fresh", "name": "F"}).Wants(t, http.StatusConflict, "tenant_slug_taken")
	s.callAs(t, root, http.MethodPost, "/api/v1/admin/tenants", "",
		map[string]any{"slug": "No Slug", "name": "F"}).Wants(t, http.StatusUnprocessableEntity, "validation_error")
	s.callAs(t, root, http.MethodPost, "/api/v1/admin/tenants", "",
		map[string]any{"slug": "x", "name": "F", "owner": 1}).Wants(t, http.StatusUnprocessableEntity, "validation_error")
	s.callAs(t, root, http.MethodGet, "/api/v1/tenants/not-an-id", "", nil).Wants(t, http.StatusUnprocessableEntity,
		"validation_error")
}

// Those who may see everything are told what does not exist, too.
func TestAbsentTenantOverTheAPI(t *testing.T) {
	s := newStage(t)
	root := s.token(t, s.root.ID)
	for _, path := range []string{"", "/projects", "/members"} {
		a := s.callAs(t, root, http.MethodGet, "/api/v1/tenants/"+id.NewString()+path, "", nil)
		a.Wants(t, http.StatusNotFound, "not_found")
	}
	a := s.callAs(t, root, http.MethodGet, "/api/v1/tenants/"+s.other.ID.String()+"/members", "", nil)
	if a.Status != http.StatusOK {
		t.Errorf("a tenant without members answers %d %s", a.Status, a.Body)
	}
}

func TestServiceAccountOverTheAPI(t *testing.T) {
	s := newStage(t)
	boss := s.token(t, s.boss.ID)
	all := "/api/v1/projects/" + s.project.ID.String() + "/service-accounts"
	a := s.callAs(t, boss, http.MethodPost, all, "", map[string]any{"name": "ci", "role": "project_admin"})
	var account identity.ServiceAccountView
	a.Decode(t, &account)
	if a.Status != http.StatusCreated || account.Status != "active" || account.Role != auth.ProjectAdmin {
		t.Fatalf("answer is %d %s", a.Status, a.Body)
	}
	one := all + "/" + account.ServiceAccountID.String()
	a = s.callAs(t, boss, http.MethodPost, one+"/tokens", "",
		map[string]any{"name": "x", "expires_in": 3600, "scopes": []string{"project:read"}})
	var made identity.NewTokenView
	a.Decode(t, &made)
	if a.Status != http.StatusCreated || !strings.HasPrefix(made.Token, "gpuaas_a") ||
		made.ExpiresAt.Sub(made.CreatedAt).Seconds() != 3600 {
		t.Fatalf("answer is %d %s", a.Status, a.Body)
	}
	bot := redact.New(made.Token)
	var me identity.MeView
	s.callAs(t, bot, http.MethodGet, "/api/v1/me", "", nil).Decode(t, &me)
	if me.Kind != auth.KindServiceAccount || me.ID != account.ServiceAccountID.String() || len(me.Projects) != 1 ||
		me.TokenID != made.TokenID {
		t.Errorf("the service account is %+v", me)
	}
	// Its role would allow it; its scopes do not.
	s.callAs(t, bot, http.MethodPatch, "/api/v1/projects/"+s.project.ID.String(), `"1"`,
		map[string]any{"name": "x"}).Wants(t, http.StatusForbidden, "insufficient_permissions")
	listed := s.callAs(t, boss, http.MethodGet, one+"/tokens", "", nil)
	if strings.Contains(string(listed.Body), made.Token) || !strings.Contains(string(listed.Body), made.TokenID.String()) {
		t.Errorf("tokens are listed as %s", listed.Body)
	}
	for _, bad := range []map[string]any{
		{"name": "x", "expires_in": 59},
		{"name": "x", "expires_in": 366*24*3600 + 1},
		{"name": ""},
		{"name": "x", "scopes": []string{"everything"}},
		{"name": "x", "kind": "session"},
	} {
		s.callAs(t, boss, http.MethodPost, one+"/tokens", "", bad).Wants(t, http.StatusUnprocessableEntity,
			"validation_error")
	}
	if a := s.callAs(t, boss, http.MethodDelete, one+"/tokens/"+made.TokenID.String(), "",
		nil); a.Status != http.StatusNoContent {
		t.Errorf("revocation answers %d %s", a.Status, a.Body)
	}
	s.callAs(t, bot, http.MethodGet, "/api/v1/me", "", nil).Wants(t, http.StatusUnauthorized, "token_invalid")
	if a := s.callAs(t, boss, http.MethodPatch, one, `"1"`,
		map[string]any{"status": "disabled"}); a.Status != http.StatusOK {
		t.Errorf("disabling answers %d %s", a.Status, a.Body)
	}
	if a := s.callAs(t, boss, http.MethodDelete, one, "", nil); a.Status != http.StatusNoContent {
		t.Errorf("deletion answers %d %s", a.Status, a.Body)
	}
	s.callAs(t, boss, http.MethodGet, one, "", nil).Wants(t, http.StatusNotFound, "not_found")
}

func TestPeopleOverTheAPI(t *testing.T) {
	s := newStage(t)
	root := s.token(t, s.root.ID)
	a := s.callAs(t, root, http.MethodPost, "/api/v1/admin/users", "", map[string]any{"email": "ada@example.com"})
	var user identity.UserView
	a.Decode(t, &user)
	if a.Status != http.StatusCreated || user.PlatformRole != auth.NoRole || user.Linked {
		t.Fatalf("answer is %d %s", a.Status, a.Body)
	}
	one := "/api/v1/admin/users/" + user.UserID.String()
	a = s.callAs(t, root, http.MethodPatch, one, `"1"`, map[string]any{"platform_role": "auditor", "name": "Ada"})
	a.Decode(t, &user)
	if a.Status != http.StatusOK || user.PlatformRole != auth.Auditor || user.Name != "Ada" || user.Version != 2 {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	var found struct{ Items []identity.UserView }
	s.callAs(t, root, http.MethodGet, "/api/v1/admin/users?email=ADA@example.com", "", nil).Decode(t, &found)
	if len(found.Items) != 1 || found.Items[0] != user {
		t.Errorf("found %+v", found.Items)
	}
	s.callAs(t, root, http.MethodPatch, "/api/v1/admin/users/"+s.root.ID.String(), `"1"`,
		map[string]any{"disabled": true}).Wants(t, http.StatusConflict, "last_platform_admin")

	member := "/api/v1/projects/" + s.project.ID.String() + "/members/" + user.UserID.String()
	a = s.callAs(t, root, http.MethodPut, member, "", map[string]any{"role": "project_viewer"})
	var m identity.MemberView
	a.Decode(t, &m)
	if a.Status != http.StatusOK || m.Role != auth.ProjectViewer || m.Email != "ada@example.com" {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	s.callAs(t, root, http.MethodPut, member, "", map[string]any{"role": "owner"}).
		Wants(t, http.StatusUnprocessableEntity, "validation_error")
	if a := s.callAs(t, root, http.MethodDelete, member, "", nil); a.Status != http.StatusNoContent {
		t.Errorf("removal answers %d %s", a.Status, a.Body)
	}
	s.callAs(t, root, http.MethodDelete, member, "", nil).Wants(t, http.StatusNotFound, "not_found")
}

func TestListsAreNarrowedToTheCaller(t *testing.T) {
	s := newStage(t)
	slugs := func(who id.User, path string) string {
		var list struct {
			Items []struct{ Slug string }
		}
		s.callAs(t, s.token(t, who), http.MethodGet, path, "", nil).Decode(t, &list)
		out := make([]string, len(list.Items))
		for i, item := range list.Items {
			out[i] = item.Slug
		}
		return strings.Join(out, " ")
	}
	projects := "/api/v1/tenants/" + s.acme.ID.String() + "/projects"
	for _, c := range []struct {
		who               id.User
		tenants, projects string
	}{
		{s.root.ID, "acme other", "default one"},
		{s.boss.ID, "acme", "default one"},
		{s.dev.ID, "acme", "one"},
		{s.new.ID, "", ""},
	} {
		if got := slugs(c.who, "/api/v1/tenants"); got != c.tenants {
			t.Errorf("tenants are %q, want %q", got, c.tenants)
		}
		if got := slugs(c.who, projects); got != c.projects {
			t.Errorf("projects are %q, want %q", got, c.projects)
		}
	}
}

func TestListsComeInPages(t *testing.T) {
	s := newStage(t)
	root := s.token(t, s.root.ID)
	for _, name := range []string{"a", "b", "c", "d"} {
		s.account(t, s.project.ID, name, auth.ProjectViewer)
	}
	all := "/api/v1/projects/" + s.project.ID.String() + "/service-accounts?page_size=2"
	var names []string
	for cursor, pages := "", 0; ; pages++ {
		var list struct {
			Items      []identity.ServiceAccountView
			NextCursor string `json:"next_cursor"`
		}
		s.callAs(t, root, http.MethodGet, all+"&cursor="+cursor, "", nil).Decode(t, &list)
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		if cursor = list.NextCursor; cursor == "" {
			break
		}
		if pages > 3 {
			t.Fatal("the pages do not end")
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "a b bot c d" {
		t.Errorf("the pages hold %q", got)
	}
	s.callAs(t, root, http.MethodGet, all+"&cursor=x", "", nil).Wants(t, http.StatusUnprocessableEntity,
		"cursor_invalid")
}

// Authenticate runs with every request.
func BenchmarkAuthenticate(b *testing.B) {
	w := newWorld(b, identity.OIDCConfig{})
	u := w.user(b, "ada@example.com", auth.PlatformAdmin)
	org := w.tenant(b, "acme").ID
	if _, err := w.service.PutTenantMember(system(b), org, u.ID, auth.TenantAdmin); err != nil {
		b.Fatal(err)
	}
	token := w.token(b, u.ID)
	for b.Loop() {
		if _, err := w.service.Authenticate(context.Background(), token); err != nil {
			b.Fatal(err)
		}
	}
}

// The contract names every parameter of every path, so that clients made from
// it can fill them in.
func TestContractNamesEveryPathParameter(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	param := regexp.MustCompile(`\{([a-z_]+)\}`)
	for path, item := range w.api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put,
			http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		} {
			if op == nil {
				continue
			}
			for _, want := range param.FindAllStringSubmatch(path, -1) {
				if !slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "path" && p.Name == want[1] }) {
					t.Errorf("%s %s does not declare %s", method, path, want[1])
				}
			}
		}
	}
}
