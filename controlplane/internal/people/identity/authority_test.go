package identity_test

import (
	"sync"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity"
)

// Two administrators who dismiss each other at the same moment must not both
// succeed.
func TestAdministratorsCannotDismissEachOther(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	a, b := w.user(t, "a@example.com", auth.PlatformAdmin), w.user(t, "b@example.com", auth.PlatformAdmin)
	yes, none := true, auth.NoRole
	errs := make([]error, 2)
	var wg sync.WaitGroup
	wg.Go(func() { _, errs[0] = w.service.UpdateUser(system(t), a.ID, 1, identity.UserChange{Disabled: &yes}) })
	wg.Go(func() {
		_, errs[1] = w.service.UpdateUser(system(t), b.ID, 1, identity.UserChange{PlatformRole: &none})
	})
	wg.Wait()
	refused := 0
	for _, err := range errs {
		if err != nil {
			wantCode(t, err, "last_platform_admin")
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of 2 dismissals were refused, want 1", refused)
	}
	w.wantRows(t, "SELECT count(*) FROM users WHERE platform_role = 'platform_admin' AND NOT disabled", 1)
}

func TestLastTenantAdmin(t *testing.T) {
	s := newStage(t)
	boss := s.as(t, s.token(t, s.boss.ID))
	wantCode(t, s.service.RemoveTenantMember(boss, s.acme.ID, s.boss.ID), "last_tenant_admin")

	must(s.service.PutTenantMember(boss, s.acme.ID, s.new.ID, auth.TenantAdmin))(t)
	yes := true
	must(s.service.UpdateUser(system(t), s.new.ID, 1, identity.UserChange{Disabled: &yes}))(t)
	wantCode(t, s.service.RemoveTenantMember(boss, s.acme.ID, s.boss.ID), "last_tenant_admin") // the other one cannot act
	wantCode(t, s.service.RemoveTenantMember(boss, s.acme.ID, s.new.ID), "")
	wantCode(t, s.service.RemoveTenantMember(s.as(t, s.token(t, s.root.ID)), s.acme.ID, s.boss.ID), "")
	s.wantRows(t, "SELECT count(*) FROM tenant_memberships", 0)
}

func TestNobodyGivesARoleAboveTheirOwn(t *testing.T) {
	s := newStage(t)
	member := s.as(t, s.token(t, s.dev.ID)) // a project_member, as if the operation had admitted them
	_, err := s.service.PutProjectMember(member, s.project.ID, s.dev.ID, auth.ProjectAdmin)
	wantCode(t, err, "role_above_own")
	_, err = s.service.PutTenantMember(member, s.acme.ID, s.dev.ID, auth.TenantAdmin)
	wantCode(t, err, "role_above_own")
	_, err = s.service.CreateServiceAccount(member, s.project.ID,
		identity.NewServiceAccount{Name: "x", Role: auth.ProjectAdmin})
	wantCode(t, err, "role_above_own")
	admin := auth.ProjectAdmin
	_, err = s.service.UpdateServiceAccount(member, s.project.ID, s.bot.ID, 1, identity.ServiceAccountChange{Role: &admin})
	wantCode(t, err, "role_above_own")
	powerful := s.account(t, s.project.ID, "powerful", auth.ProjectAdmin)
	_, _, err = s.service.CreateServiceAccountToken(member, s.project.ID, powerful.ID, identity.NewToken{Name: "x"})
	wantCode(t, err, "role_above_own")
}

func TestPrincipalsHoldTheirRoles(t *testing.T) {
	s := newStage(t)
	must(s.service.PutProjectMember(system(t), s.foreign.ID, s.boss.ID, auth.ProjectViewer))(t)
	p := auth.From(s.as(t, s.token(t, s.boss.ID, auth.ProjectRead)))
	if p.Kind != auth.KindUser || p.ID != s.boss.ID.String() || p.Name != "boss@example.com" || p.Platform != "" {
		t.Errorf("principal is %+v", p)
	}
	if len(p.Tenants) != 1 || p.Tenants[s.acme.ID] != auth.TenantAdmin {
		t.Errorf("tenant roles are %v", p.Tenants)
	}
	want := auth.ProjectRole{Org: s.other.ID, Role: auth.ProjectViewer}
	if len(p.Projects) != 1 || p.Projects[s.foreign.ID] != want {
		t.Errorf("project roles are %v", p.Projects)
	}
	if len(p.Scopes) != 1 || p.Scopes[0] != auth.ProjectRead {
		t.Errorf("scopes are %v", p.Scopes)
	}
	root := auth.From(s.as(t, s.token(t, s.root.ID)))
	if root.Platform != auth.PlatformAdmin || len(root.Tenants)+len(root.Projects)+len(root.Scopes) != 0 {
		t.Errorf("principal is %+v", root)
	}
	org, err := s.service.ProjectOrg(t.Context(), s.project.ID)
	if err != nil || org != s.acme.ID {
		t.Errorf("the project belongs to %s, %v", org, err)
	}
	_, err = s.service.ProjectOrg(t.Context(), id.Project{1})
	if fault.KindOf(err) != fault.NotFound {
		t.Errorf("an absent project: %v", err)
	}
}

// wantRefused checks that a token does not work, with the code that says why.
func wantRefused(tb testing.TB, w *world, token redact.Secret, code string) {
	tb.Helper()
	p, err := w.service.Authenticate(tb.Context(), token)
	if err == nil {
		tb.Errorf("the token of %s is accepted, want %s", p.Name, code)
		return
	}
	wantCode(tb, err, code)
	if fault.KindOf(err) != fault.Unauthenticated {
		tb.Errorf("kind is %s", fault.KindOf(err))
	}
}
