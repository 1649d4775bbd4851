package identity_test

import (
	"net/http"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity"
)

// The people of a tenant that is disabled can read and delete, and make nothing new.
func TestADisabledTenant(t *testing.T) {
	s := newStage(t)
	root := s.token(t, s.root.ID)
	tenant := s.tenant(t, "shut")
	admin := s.user(t, "admin@shut.example", auth.NoRole)
	if _, err := s.service.PutTenantMember(system(t), tenant.ID, admin.ID, auth.TenantAdmin); err != nil {
		t.Fatal(err)
	}
	theirs := s.token(t, admin.ID)
	at := "/api/v1/tenants/" + tenant.ID.String()
	project := s.world.project(t, tenant.ID, "p1")
	account := s.account(t, project.ID, "ci", auth.ProjectMember)
	accounts := "/api/v1/projects/" + project.ID.String() + "/service-accounts"
	flip := func(word string) identity.TenantView {
		t.Helper()
		got := s.callAs(t, root, http.MethodPost, "/api/v1/admin/tenants/"+tenant.ID.String()+"/"+word, "",
			map[string]any{"reason": "unpaid"})
		got.Wants(t, 200, "")
		var v identity.TenantView
		got.Decode(t, &v)
		return v
	}
	s.callAs(t, theirs, http.MethodPost, "/api/v1/admin/tenants/"+tenant.ID.String()+"/enable", "",
		map[string]any{"reason": "I want to"}).Wants(t, 403, "insufficient_permissions")
	s.callAs(t, root, http.MethodPost, "/api/v1/admin/tenants/"+id.NewString()+"/disable", "",
		map[string]any{"reason": "x"}).Wants(t, 404, "not_found")
	first := flip("disable")
	if again := flip("disable"); first.DisabledAt == nil || again.Version != first.Version ||
		again.DisabledBecause != "unpaid" {
		t.Errorf("%+v, %+v", first, again)
	}
	create := func(name string, status int, code string) {
		t.Helper()
		s.callAs(t, theirs, http.MethodPost, at+"/projects", "", map[string]any{"slug": name, "name": name}).
			Wants(t, status, code)
		s.callAs(t, theirs, http.MethodPost, accounts, "", map[string]any{"name": name, "role": "project_member"}).
			Wants(t, status, code)
	}
	create("refused", 403, "tenant_disabled")
	s.callAs(t, theirs, http.MethodGet, at, "", nil).Wants(t, 200, "")
	s.callAs(t, theirs, http.MethodGet, accounts, "", nil).Wants(t, 200, "")
	s.callAs(t, theirs, http.MethodDelete, accounts+"/"+account.ID.String(), "", nil).Wants(t, 204, "")
	s.callAs(t, root, http.MethodPost, at+"/projects", "", map[string]any{"slug": "ours", "name": "ours"}).
		Wants(t, 201, "")
	if v := flip("enable"); v.DisabledAt != nil || v.DisabledBecause != "" {
		t.Errorf("%+v", v)
	}
	create("made", 201, "")
	s.wantRows(t, `SELECT count(*) FROM audit_logs
		WHERE action IN ('tenant.disable', 'tenant.enable') AND reason = 'unpaid'`, 2)
	s.wantRows(t, `SELECT count(*) FROM outbox_events WHERE event_type IN ('tenant.disabled', 'tenant.enabled')`, 2)
}
