package identity_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity"
)

// stage is a small world in which every command has something to act on.
type stage struct {
	*world
	acme, other          identity.Tenant
	project, foreign     identity.Project
	root, boss, dev, new identity.User
	bot                  identity.ServiceAccount
	botToken             identity.Token
}

func newStage(t *testing.T) *stage {
	t.Helper()
	w := newWorld(t, identity.OIDCConfig{})
	s := &stage{world: w, acme: w.tenant(t, "acme"), other: w.tenant(t, "other")}
	s.project, s.foreign = w.project(t, s.acme.ID, "one"), w.project(t, s.other.ID, "two")
	s.root = w.user(t, "root@example.com", auth.PlatformAdmin)
	s.boss, s.dev, s.new = w.user(t, "boss@example.com", ""), w.user(t, "dev@example.com", ""),
		w.user(t, "new@example.com", "")
	must(w.service.PutTenantMember(system(t), s.acme.ID, s.boss.ID, auth.TenantAdmin))(t)
	must(w.service.PutProjectMember(system(t), s.project.ID, s.dev.ID, auth.ProjectMember))(t)
	s.bot = w.account(t, s.project.ID, "bot", auth.ProjectMember)
	token, _, err := w.service.CreateServiceAccountToken(system(t), s.project.ID, s.bot.ID, identity.NewToken{Name: "ci"})
	s.botToken = token
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// trace returns what the audit log and the outbox say since a moment.
func (w *world) trace(t *testing.T, audits, events *int64) (actions, types []string) {
	t.Helper()
	return w.column(t, "SELECT seq, action FROM audit_logs WHERE seq > $1 ORDER BY seq", audits),
		w.column(t, "SELECT seq, event_type FROM outbox_events WHERE seq > $1 ORDER BY seq", events)
}

func (w *world) column(t *testing.T, query string, after *int64) []string {
	t.Helper()
	rows, err := w.db.Query(t.Context(), query, *after)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var text string
		if err := rows.Scan(after, &text); err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return out
}

type commandCase struct {
	name    string
	run     func(ctx context.Context, s *stage) error
	code    string // empty: succeeds
	actions string // audit actions, space separated
	events  string // event types, space separated
}

// A command does everything it says, with its audit entry and events, or leaves
// no trace at all.
func TestCommands(t *testing.T) {
	for _, c := range slices.Concat(tenantCases(), memberCases(), userCases(), accountCases(), tokenCases()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			var audits, events int64
			s.trace(t, &audits, &events)
			wantCode(t, c.run(system(t), s), c.code)
			actions, types := s.trace(t, &audits, &events)
			if got := strings.Join(actions, " "); got != c.actions {
				t.Errorf("audited %q, want %q", got, c.actions)
			}
			if got := strings.Join(types, " "); got != c.events {
				t.Errorf("told %q, want %q", got, c.events)
			}
		})
	}
}

func tenantCases() []commandCase {
	create := func(slug, name string) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.CreateTenant(ctx, identity.Naming{Slug: slug, Name: name})
			return err
		}
	}
	rename := func(org func(*stage) id.Org, version int64, name string) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.UpdateTenant(ctx, org(s), version, name)
			return err
		}
	}
	acme := func(s *stage) id.Org { return s.acme.ID }
	nobody := func(*stage) id.Org { return id.Org{1} }
	project := func(org func(*stage) id.Org, slug string) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.CreateProject(ctx, org(s), identity.Naming{Slug: slug, Name: "Name"})
			return err
		}
	}
	renameProject := func(which func(*stage) id.Project, version int64, name string) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.UpdateProject(ctx, which(s), version, name)
			return err
		}
	}
	one := func(s *stage) id.Project { return s.project.ID }
	return []commandCase{
		{"create tenant", create("fresh", "Fresh"), "", "tenant.create project.create", "tenant.created project.created"},
		{"create tenant with a slug taken", create("acme", "Acme"), "tenant_slug_taken", "", ""},
		{"create tenant with a bad slug", create("A B", "Acme"), "validation_error", "", ""},
		{"create tenant without a name", create("fresh", " "), "validation_error", "", ""},
		{"rename tenant", rename(acme, 1, "New"), "", "tenant.update", "tenant.updated"},
		{"rename tenant to the same", rename(acme, 1, "acme"), "", "", ""},
		{"rename tenant at an old version", rename(acme, 7, "New"), "version_stale", "", ""},
		{"rename tenant to nothing", rename(acme, 1, ""), "validation_error", "", ""},
		{"rename no tenant", rename(nobody, 1, "New"), "not_found", "", ""},
		{"create project", project(acme, "three"), "", "project.create", "project.created"},
		{"create project with a slug taken", project(acme, "one"), "project_slug_taken", "", ""},
		{"create project with the slug of another tenant's", project(acme, "two"), "", "project.create", "project.created"},
		{"create project in no tenant", project(nobody, "three"), "not_found", "", ""},
		{"rename project", renameProject(one, 1, "New"), "", "project.update", "project.updated"},
		{"rename project to the same", renameProject(one, 1, "one"), "", "", ""},
		{"rename project at an old version", renameProject(one, 2, "New"), "version_stale", "", ""},
		{"rename project to nothing", renameProject(one, 1, ""), "validation_error", "", ""},
		{"rename no project", renameProject(func(*stage) id.Project { return id.Project{1} }, 1, "New"), "not_found", "", ""},
	}
}

func memberCases() []commandCase {
	inTenant := func(org func(*stage) id.Org, who func(*stage) id.User, role auth.Role) func(context.Context,
		*stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.PutTenantMember(ctx, org(s), who(s), role)
			return err
		}
	}
	inProject := func(who func(*stage) id.User, role auth.Role) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.PutProjectMember(ctx, s.project.ID, who(s), role)
			return err
		}
	}
	acme := func(s *stage) id.Org { return s.acme.ID }
	boss := func(s *stage) id.User { return s.boss.ID }
	dev := func(s *stage) id.User { return s.dev.ID }
	newcomer := func(s *stage) id.User { return s.new.ID }
	nobody := func(*stage) id.User { return id.User{1} }
	removeFromTenant := func(org func(*stage) id.Org, who func(*stage) id.User) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error { return s.service.RemoveTenantMember(ctx, org(s), who(s)) }
	}
	removeFromProject := func(who func(*stage) id.User) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			return s.service.RemoveProjectMember(ctx, s.project.ID, who(s))
		}
	}
	return []commandCase{
		{"make tenant admin", inTenant(acme, newcomer, auth.TenantAdmin), "", "membership.change", "membership.changed"},
		{"make tenant admin again", inTenant(acme, boss, auth.TenantAdmin), "", "", ""},
		{"make nobody tenant admin", inTenant(acme, nobody, auth.TenantAdmin), "not_found", "", ""},
		{
			"make tenant admin of nothing", inTenant(func(*stage) id.Org { return id.Org{1} }, newcomer, auth.TenantAdmin),
			"not_found", "", "",
		},
		{"give a project role on a tenant", inTenant(acme, newcomer, auth.ProjectAdmin), "validation_error", "", ""},
		{"remove tenant admin", removeFromTenant(acme, boss), "", "membership.remove", "membership.removed"},
		{"remove who is no tenant admin", removeFromTenant(acme, dev), "not_found", "", ""},
		{"make project member", inProject(newcomer, auth.ProjectViewer), "", "membership.change", "membership.changed"},
		{"change project role", inProject(dev, auth.ProjectAdmin), "", "membership.change", "membership.changed"},
		{"give the same project role", inProject(dev, auth.ProjectMember), "", "", ""},
		{"make nobody project member", inProject(nobody, auth.ProjectViewer), "not_found", "", ""},
		{"give a tenant role in a project", inProject(dev, auth.TenantAdmin), "validation_error", "", ""},
		{"remove project member", removeFromProject(dev), "", "membership.remove", "membership.removed"},
		{"remove who is no project member", removeFromProject(boss), "not_found", "", ""},
	}
}

func userCases() []commandCase {
	invite := func(email string, role auth.Role) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.CreateUser(ctx, identity.NewUser{Email: email, PlatformRole: role})
			return err
		}
	}
	change := func(who func(*stage) id.User, version int64, ch identity.UserChange) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.UpdateUser(ctx, who(s), version, ch)
			return err
		}
	}
	root := func(s *stage) id.User { return s.root.ID }
	dev := func(s *stage) id.User { return s.dev.ID }
	yes, name, empty := true, "Ada", ""
	none, auditor, wrong := auth.NoRole, auth.Auditor, auth.TenantAdmin
	return []commandCase{
		{"invite", invite("ada@example.com", auth.Auditor), "", "user.create", "user.created"},
		{"invite an address twice", invite("DEV@example.com", auth.NoRole), "user_exists", "", ""},
		{"invite what is no address", invite("ada", auth.NoRole), "validation_error", "", ""},
		{"invite with a role of a tenant", invite("ada@example.com", auth.TenantAdmin), "validation_error", "", ""},
		{"rename user", change(dev, 1, identity.UserChange{Name: &name}), "", "user.update", "user.updated"},
		{"promote user", change(dev, 1, identity.UserChange{PlatformRole: &auditor}), "", "user.update", "user.updated"},
		{"disable user", change(dev, 1, identity.UserChange{Disabled: &yes}), "", "user.disable", "user.updated"},
		{"change nothing of a user", change(dev, 1, identity.UserChange{PlatformRole: &none}), "", "", ""},
		{"change user at an old version", change(dev, 2, identity.UserChange{Disabled: &yes}), "version_stale", "", ""},
		{"rename user to nothing", change(dev, 1, identity.UserChange{Name: &empty}), "validation_error", "", ""},
		{
			"give user a role of a tenant", change(dev, 1, identity.UserChange{PlatformRole: &wrong}), "validation_error", "",
			"",
		},
		{
			"change nobody", change(func(*stage) id.User { return id.User{1} }, 1, identity.UserChange{Name: &name}),
			"not_found", "", "",
		},
		{
			"demote the last platform admin", change(root, 1, identity.UserChange{PlatformRole: &none}), "last_platform_admin",
			"", "",
		},
		{
			"make the last platform admin auditor", change(root, 1, identity.UserChange{PlatformRole: &auditor}),
			"last_platform_admin", "", "",
		},
		{
			"disable the last platform admin", change(root, 1, identity.UserChange{Disabled: &yes}), "last_platform_admin", "",
			"",
		},
		{
			"rename the last platform admin", change(root, 1, identity.UserChange{Name: &name}), "", "user.update",
			"user.updated",
		},
	}
}

func accountCases() []commandCase {
	create := func(name string, role auth.Role) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.CreateServiceAccount(ctx, s.project.ID, identity.NewServiceAccount{Name: name, Role: role})
			return err
		}
	}
	change := func(version int64, ch identity.ServiceAccountChange) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, err := s.service.UpdateServiceAccount(ctx, s.project.ID, s.bot.ID, version, ch)
			return err
		}
	}
	admin, wrong := auth.ProjectAdmin, auth.TenantAdmin
	off, gone := identity.ServiceAccountDisabled, identity.ServiceAccountDeleted
	return []commandCase{
		{
			"create service account", create("new", auth.ProjectViewer), "", "service_account.create",
			"service_account.created",
		},
		{"create service account with a name taken", create("bot", auth.ProjectViewer), "service_account_exists", "", ""},
		{"create service account with a role of a tenant", create("new", auth.TenantAdmin), "validation_error", "", ""},
		{"create service account in no project", func(ctx context.Context, s *stage) error {
			_, err := s.service.CreateServiceAccount(ctx, id.Project{1},
				identity.NewServiceAccount{Name: "new", Role: auth.ProjectViewer})
			return err
		}, "not_found", "", ""},
		{
			"change role of service account", change(1, identity.ServiceAccountChange{Role: &admin}), "",
			"service_account.update", "service_account.updated",
		},
		{"change nothing of a service account", change(1, identity.ServiceAccountChange{}), "", "", ""},
		{
			"disable service account", change(1, identity.ServiceAccountChange{Status: &off}), "", "service_account.update",
			"service_account.updated",
		},
		{
			"delete service account by a change", change(1, identity.ServiceAccountChange{Status: &gone}), "validation_error",
			"", "",
		},
		{
			"give service account a role of a tenant", change(1, identity.ServiceAccountChange{Role: &wrong}),
			"validation_error", "", "",
		},
		{
			"change service account at an old version", change(3, identity.ServiceAccountChange{Role: &admin}), "version_stale",
			"", "",
		},
		{"change service account through another project", func(ctx context.Context, s *stage) error {
			_, err := s.service.UpdateServiceAccount(ctx, s.foreign.ID, s.bot.ID, 1, identity.ServiceAccountChange{Role: &admin})
			return err
		}, "not_found", "", ""},
		{"delete service account", func(ctx context.Context, s *stage) error {
			return s.service.DeleteServiceAccount(ctx, s.project.ID, s.bot.ID)
		}, "", "service_account.delete", "service_account.deleted"},
		{"delete service account through another project", func(ctx context.Context, s *stage) error {
			return s.service.DeleteServiceAccount(ctx, s.foreign.ID, s.bot.ID)
		}, "not_found", "", ""},
	}
}

func tokenCases() []commandCase {
	own := func(n identity.NewToken) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, _, err := s.service.CreateOwnToken(auth.With(ctx, person(s.dev.ID)), n)
			return err
		}
	}
	forBot := func(project func(*stage) id.Project, n identity.NewToken) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			_, _, err := s.service.CreateServiceAccountToken(ctx, project(s), s.bot.ID, n)
			return err
		}
	}
	here := func(s *stage) id.Project { return s.project.ID }
	there := func(s *stage) id.Project { return s.foreign.ID }
	return []commandCase{
		{"make own token", own(identity.NewToken{Name: "x"}), "", "token.create", "token.created"},
		{
			"make own token with an unknown scope", own(identity.NewToken{Name: "x", Scopes: []auth.Permission{"all"}}),
			"validation_error", "", "",
		},
		{"make a token for the system", func(ctx context.Context, s *stage) error {
			_, _, err := s.service.CreateOwnToken(ctx, identity.NewToken{Name: "x"})
			return err
		}, "person_required", "", ""},
		{"make service account token", forBot(here, identity.NewToken{Name: "x"}), "", "token.create", "token.created"},
		{"make service account token without a name", forBot(here, identity.NewToken{}), "validation_error", "", ""},
		{
			"make service account token through another project", forBot(there, identity.NewToken{Name: "x"}), "not_found", "",
			"",
		},
		{"revoke service account token", func(ctx context.Context, s *stage) error {
			return s.service.RevokeServiceAccountToken(ctx, s.project.ID, s.bot.ID, s.botToken.ID)
		}, "", "token.revoke", "token.revoked"},
		{"revoke service account token through another project", func(ctx context.Context, s *stage) error {
			return s.service.RevokeServiceAccountToken(ctx, s.foreign.ID, s.bot.ID, s.botToken.ID)
		}, "not_found", "", ""},
		{"revoke a token of somebody else", func(ctx context.Context, s *stage) error {
			return s.service.RevokeOwnToken(auth.With(ctx, person(s.dev.ID)), s.botToken.ID)
		}, "not_found", "", ""},
	}
}
