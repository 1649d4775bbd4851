package identity_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/people/identity"
)

// who are the callers of the table: holders of one role each, on the tenant or
// the project that is asked about, and two without any.
var who = []string{
	"platform_admin", "auditor", "tenant_admin", "project_admin", "project_member", "project_viewer",
	"none", "anonymous",
}

// mayCall says, for every operation, who gets past the guard. It is written by
// hand: it is what the permissions are meant to add up to.
var mayCall = map[string]string{
	"create-tenant":                "platform_admin",
	"disable-tenant":               "platform_admin",
	"enable-tenant":                "platform_admin",
	"list-tenants":                 "platform_admin auditor tenant_admin project_admin project_member project_viewer",
	"get-tenant":                   "platform_admin auditor tenant_admin project_admin project_member project_viewer",
	"update-tenant":                "platform_admin tenant_admin",
	"create-project":               "platform_admin tenant_admin",
	"list-projects":                "platform_admin auditor tenant_admin project_admin project_member project_viewer",
	"get-project":                  "platform_admin auditor tenant_admin project_admin project_member project_viewer",
	"update-project":               "platform_admin tenant_admin project_admin",
	"list-tenant-members":          "platform_admin auditor tenant_admin project_admin project_member project_viewer",
	"put-tenant-member":            "platform_admin tenant_admin",
	"remove-tenant-member":         "platform_admin tenant_admin",
	"list-project-members":         "platform_admin auditor tenant_admin project_admin project_member project_viewer",
	"put-project-member":           "platform_admin tenant_admin project_admin",
	"remove-project-member":        "platform_admin tenant_admin project_admin",
	"list-users":                   "platform_admin auditor",
	"create-user":                  "platform_admin",
	"get-user":                     "platform_admin auditor",
	"update-user":                  "platform_admin",
	"create-service-account":       "platform_admin tenant_admin project_admin",
	"list-service-accounts":        "platform_admin auditor tenant_admin project_admin project_member",
	"get-service-account":          "platform_admin auditor tenant_admin project_admin project_member",
	"update-service-account":       "platform_admin tenant_admin project_admin",
	"delete-service-account":       "platform_admin tenant_admin project_admin",
	"create-service-account-token": "platform_admin tenant_admin project_admin",
	"list-service-account-tokens":  "platform_admin auditor tenant_admin project_admin project_member",
	"revoke-service-account-token": "platform_admin tenant_admin project_admin",
	"get-me":                       "platform_admin auditor tenant_admin project_admin project_member project_viewer none",
	"list-my-tokens":               "platform_admin auditor tenant_admin project_admin project_member project_viewer none",
	"create-my-token":              "platform_admin auditor tenant_admin project_admin project_member project_viewer none",
	"revoke-my-token":              "platform_admin auditor tenant_admin project_admin project_member project_viewer none",
	"list-auth-methods": "platform_admin auditor tenant_admin project_admin project_member project_viewer " +
		"none anonymous",
	"start-oidc-sign-in": "platform_admin auditor tenant_admin project_admin project_member project_viewer " +
		"none anonymous",
	"finish-oidc-sign-in": "platform_admin auditor tenant_admin project_admin project_member project_viewer " +
		"none anonymous",
	"create-session": "platform_admin auditor tenant_admin project_admin project_member project_viewer " +
		"none anonymous",
	"sign-out": "platform_admin auditor tenant_admin project_admin project_member project_viewer none",
}

func callers(t *testing.T, w *world, org id.Org, project id.Project) map[string]redact.Secret {
	t.Helper()
	tokens := map[string]redact.Secret{"anonymous": {}}
	for _, name := range who[:7] {
		var platform auth.Role
		role := auth.Role(name)
		if role == auth.PlatformAdmin || role == auth.Auditor {
			platform = role
		}
		u := w.user(t, name+"@example.com", platform)
		switch role {
		case auth.TenantAdmin:
			must(w.service.PutTenantMember(system(t), org, u.ID, role))(t)
		case auth.ProjectAdmin, auth.ProjectMember, auth.ProjectViewer:
			must(w.service.PutProjectMember(system(t), project, u.ID, role))(t)
		case auth.PlatformAdmin, auth.Operator, auth.Auditor, auth.NoRole:
		}
		tokens[name] = w.token(t, u.ID)
	}
	return tokens
}

func TestEveryOperationForEveryRole(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	org := w.tenant(t, "acme").ID
	project := w.project(t, org, "one").ID
	tokens := callers(t, w, org, project)
	nobody := id.User{1}.String() // everything below the target is absent, so that nothing is changed
	path := strings.NewReplacer("{org_id}", org.String(), "{project_id}", project.String(),
		"{user_id}", nobody, "{service_account_id}", nobody, "{token_id}", nobody)
	unseen := maps.Clone(mayCall)
	for _, op := range w.api.Operations() {
		allowed, known := mayCall[op.ID]
		if !known {
			t.Errorf("operation %s is not in the table", op.ID)
			continue
		}
		for _, name := range who {
			if op.ID == "sign-out" && name != "anonymous" {
				continue // would end the caller's part in the test; it needs no permission
			}
			w.denials.take()
			a := w.callAs(t, tokens[name], op.Method, path.Replace(op.Path), "", nil)
			refused := w.denials.take() > 0 || a.Status == http.StatusUnauthorized
			if want := slices.Contains(strings.Fields(allowed), name); refused == want {
				t.Errorf("%s calls %s: %d %s, want allowed = %v", name, op.ID, a.Status, a.Body, want)
			}
			if a.Status >= http.StatusInternalServerError {
				t.Errorf("%s calls %s: %d %s", name, op.ID, a.Status, a.Body)
			}
		}
		delete(unseen, op.ID)
	}
	for left := range unseen {
		t.Errorf("the table speaks of %s, which does not exist", left)
	}
}

// bodies are acceptable inputs of the operations that need one.
var bodies = map[string]any{
	"create-tenant":                map[string]any{"slug": "fresh", "name": "Fresh"},
	"update-tenant":                map[string]any{"name": "New"},
	"create-project":               map[string]any{"slug": "fresh", "name": "Fresh"},
	"update-project":               map[string]any{"name": "New"},
	"put-tenant-member":            map[string]any{"role": "tenant_admin"},
	"put-project-member":           map[string]any{"role": "project_viewer"},
	"create-user":                  map[string]any{"email": "fresh@example.com"},
	"update-user":                  map[string]any{"name": "New"},
	"create-service-account":       map[string]any{"name": "fresh", "role": "project_viewer"},
	"update-service-account":       map[string]any{"role": "project_viewer"},
	"create-service-account-token": map[string]any{"name": "fresh"},
	"create-my-token":              map[string]any{"name": "fresh"},
}

// Whatever id of another tenant is put into a path, the answer is the one for
// an id that does not exist.
func TestOtherTenantsDoNotExist(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	mine, theirs := newHolding(t, w, "mine"), newHolding(t, w, "theirs")
	absent := map[string]string{}
	for param := range mine.ids {
		absent[param] = id.NewString()
	}
	tried := 0
	for _, op := range w.api.Operations() {
		for param := range mine.ids {
			if !strings.Contains(op.Path, "{"+param+"}") {
				continue
			}
			if op.ID == "put-tenant-member" && param == "user_id" || op.ID == "put-project-member" && param == "user_id" {
				continue // people belong to the platform: any tenant may take them in
			}
			foreign := w.ask(t, mine, op, param, theirs.ids[param])
			missing := w.ask(t, mine, op, param, absent[param])
			want := http.StatusNotFound
			if strings.HasPrefix(op.Path, "/api/v1/admin/") {
				want = http.StatusForbidden
			}
			if foreign.Status != want || missing.Status != want {
				t.Errorf("%s with a foreign %s: %d, with an absent one: %d, want %d", op.ID, param, foreign.Status, missing.Status,
					want)
			}
			if f, m := withoutCorrelation(t, foreign), withoutCorrelation(t, missing); f != m {
				t.Errorf("%s tells a foreign %s from an absent one:\n%s\n%s", op.ID, param, f, m)
			}
			tried++
		}
	}
	if tried < 30 {
		t.Errorf("only %d combinations were tried", tried)
	}
	for _, holding := range []*holding{mine, theirs} { // and nothing happened to what was asked about
		w.wantRows(t, "SELECT version FROM projects WHERE id = '"+holding.ids["project_id"]+"'", 1)
		w.wantRows(t, "SELECT version FROM service_accounts WHERE id = '"+holding.ids["service_account_id"]+"'", 1)
		w.wantRows(t, "SELECT count(*) FROM api_tokens WHERE revoked_at IS NULL AND id = '"+holding.ids["token_id"]+"'", 1)
	}
}

// holding is one tenant with one of everything, and its administrator.
type holding struct {
	admin redact.Secret
	ids   map[string]string
}

func newHolding(t *testing.T, w *world, name string) *holding {
	t.Helper()
	org := w.tenant(t, name).ID
	project := w.project(t, org, "one").ID
	admin := w.user(t, name+"@example.com", "")
	must(w.service.PutTenantMember(system(t), org, admin.ID, auth.TenantAdmin))(t)
	must(w.service.PutProjectMember(system(t), project, admin.ID, auth.ProjectViewer))(t)
	bot := w.account(t, project, "bot", auth.ProjectViewer)
	token, _, err := w.service.CreateServiceAccountToken(system(t), project, bot.ID, identity.NewToken{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	return &holding{admin: w.token(t, admin.ID), ids: map[string]string{
		"org_id": org.String(), "project_id": project.String(), "user_id": admin.ID.String(),
		"service_account_id": bot.ID.String(), "token_id": token.ID.String(),
	}}
}

// ask calls an operation with own ids but for one parameter.
func (w *world) ask(t *testing.T, from *holding, op httpapi.Operation, param, value string) httpapitest.Answer {
	t.Helper()
	path := strings.ReplaceAll(op.Path, "{"+param+"}", value)
	for name, own := range from.ids {
		path = strings.ReplaceAll(path, "{"+name+"}", own)
	}
	ifMatch := ""
	if op.Method == http.MethodPatch {
		ifMatch = `"1"`
	}
	return w.callAs(t, from.admin, op.Method, path, ifMatch, bodies[op.ID])
}

func withoutCorrelation(t *testing.T, a httpapitest.Answer) string {
	t.Helper()
	var problem map[string]any
	a.Decode(t, &problem)
	correlation, _ := problem["correlation_id"].(string)
	return strings.ReplaceAll(string(a.Body), correlation, "")
}
