package identity_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity"
)

const year = 365 * 24 * time.Hour

// made is a token that one token makes for its own person.
func (w *world) made(tb testing.TB, with redact.Secret, life time.Duration, scopes ...auth.Permission) (
	identity.Token, redact.Secret,
) {
	tb.Helper()
	token, plain, err := w.service.CreateOwnToken(w.as(tb, with),
		identity.NewToken{Name: "made", Life: life, Scopes: scopes})
	if err != nil {
		tb.Fatal(err)
	}
	return token, plain
}

// madeFor is a token that one token makes for a service account.
func (w *world) madeFor(tb testing.TB, with redact.Secret, project id.Project, account id.ServiceAccount,
	life time.Duration,
) (identity.Token, redact.Secret) {
	tb.Helper()
	token, plain, err := w.service.CreateServiceAccountToken(w.as(tb, with), project, account,
		identity.NewToken{Name: "made", Life: life})
	if err != nil {
		tb.Fatal(err)
	}
	return token, plain
}

// lineage is a personal token, a session opened with it, and tokens made in that
// session, of the person and of a service account, and one made with the latter.
type lineage struct {
	root                            redact.Secret
	rootID                          id.Token
	session, personal, account, far redact.Secret
}

func newLineage(t *testing.T, s *stage) lineage {
	t.Helper()
	var l lineage
	token, plain, err := s.service.CreateOwnToken(auth.With(t.Context(), person(s.boss.ID)),
		identity.NewToken{Name: "root", Life: year})
	if err != nil {
		t.Fatal(err)
	}
	l.root, l.rootID = plain, token.ID
	cookie, _ := opened(t, s.signIn(t, l.root))
	l.session = redact.New(cookie.Value)
	_, l.personal = s.made(t, l.session, year)
	maker := s.account(t, s.project.ID, "maker", auth.ProjectAdmin)
	_, l.account = s.madeFor(t, l.session, s.project.ID, maker.ID, year)
	_, l.far = s.madeFor(t, l.account, s.project.ID, s.bot.ID, year)
	return l
}

func (l lineage) wantEnded(t *testing.T, w *world) {
	t.Helper()
	for name, token := range map[string]redact.Secret{
		"session": l.session, "personal": l.personal, "account": l.account,
		"far": l.far,
	} {
		if p, err := w.service.Authenticate(t.Context(), token); err == nil {
			t.Errorf("the %s token of %s outlives what it was made with", name, p.Name)
		}
	}
}

func TestAttackARevokedParentEndsItsChildren(t *testing.T) {
	s := newStage(t)
	l := newLineage(t, s)
	for _, token := range []redact.Secret{l.session, l.personal, l.account, l.far} {
		s.as(t, token)
	}
	wantCode(t, s.service.RevokeOwnToken(s.as(t, s.token(t, s.boss.ID)), l.rootID), "")
	l.wantEnded(t, s.world)
	// What ended is told of, where it counts.
	s.wantRows(t, "SELECT count(*) FROM outbox_events WHERE event_type = 'token.revoked' AND org_id = '"+
		s.acme.ID.String()+"'", 2)
	s.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'token.revoke' AND project_id = '"+s.project.ID.String()+
		"'", 2)
}

func TestAttackAParentThatEndsOtherwiseEndsItsChildren(t *testing.T) {
	yes, off := true, identity.ServiceAccountDisabled
	for name, end := range map[string]func(*testing.T, *stage, lineage){
		"its person is disabled": func(t *testing.T, s *stage, _ lineage) {
			must(s.service.UpdateUser(system(t), s.boss.ID, 1, identity.UserChange{Disabled: &yes}))(t)
		},
		"its person is enabled again": func(t *testing.T, s *stage, _ lineage) {
			must(s.service.UpdateUser(system(t), s.boss.ID, 1, identity.UserChange{Disabled: &yes}))(t)
			no := false
			must(s.service.UpdateUser(system(t), s.boss.ID, 2, identity.UserChange{Disabled: &no}))(t)
		},
		"it expires": func(_ *testing.T, s *stage, _ lineage) { s.clock.advance(year) },
		// Nothing but the parent's row says so, as after a race that no command saw.
		"only its own row says so": func(t *testing.T, s *stage, l lineage) {
			if _, err := s.db.Exec(t.Context(), "UPDATE api_tokens SET revoked_at = now() WHERE id = $1", l.rootID); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			l := newLineage(t, s)
			end(t, s, l)
			l.wantEnded(t, s.world)
		})
	}
	t.Run("its account is disabled", func(t *testing.T) {
		s := newStage(t)
		l := newLineage(t, s)
		maker := auth.From(s.as(t, l.account)).ID
		account, err := id.Parse[id.ServiceAccount](maker)
		if err != nil {
			t.Fatal(err)
		}
		must(s.service.UpdateServiceAccount(system(t), s.project.ID, account, 1,
			identity.ServiceAccountChange{Status: &off}))(t)
		wantRefused(t, s.world, l.far, "token_parent_ended")
	})
}

func TestAttackAChildThatWouldOutliveItsParent(t *testing.T) {
	s := newStage(t)
	parent, plain, err := s.service.CreateOwnToken(auth.With(t.Context(), person(s.boss.ID)),
		identity.NewToken{Name: "hour", Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	own, _ := s.made(t, plain, year)
	account, _ := s.madeFor(t, plain, s.project.ID, s.bot.ID, year)
	for _, child := range []identity.Token{own, account} {
		if child.ExpiresAt.After(parent.ExpiresAt) || child.MadeFrom != parent.ID {
			t.Errorf("%+v is made with %+v", child, parent)
		}
	}
	a := s.callAs(t, plain, http.MethodPost, "/api/v1/me/tokens", "", map[string]any{"name": "x", "expires_in": 31622400})
	var view identity.NewTokenView
	a.Decode(t, &view)
	if view.ExpiresAt.After(parent.ExpiresAt) || view.MadeFrom == nil || *view.MadeFrom != parent.ID {
		t.Errorf("the API makes %s", a.Body)
	}
}

func TestAttackATokenMadeWhileItsParentIsRevoked(t *testing.T) {
	s := newStage(t)
	plain := s.token(t, s.boss.ID)
	ctx := s.as(t, plain) // the request was let in
	wantCode(t, s.service.SignOut(ctx), "")
	_, _, err := s.service.CreateOwnToken(ctx, identity.NewToken{Name: "late"})
	wantCode(t, err, "token_invalid")
	_, _, err = s.service.CreateServiceAccountToken(ctx, s.project.ID, s.bot.ID, identity.NewToken{Name: "late"})
	wantCode(t, err, "token_invalid")
}

func TestAttackAServiceAccountIsItsOwnIssuer(t *testing.T) {
	s := newStage(t)
	boss := s.token(t, s.boss.ID)
	a, b := s.account(t, s.project.ID, "a", auth.ProjectAdmin), s.account(t, s.project.ID, "b", auth.ProjectAdmin)
	_, ofA := s.madeFor(t, boss, s.project.ID, a.ID, time.Hour)
	issue := func(with redact.Secret, account id.ServiceAccount) error {
		_, _, err := s.service.CreateServiceAccountToken(s.as(t, with), s.project.ID, account, identity.NewToken{Name: "x"})
		return err
	}
	wantCode(t, issue(ofA, a.ID), "service_account_self") // directly
	_, ofB := s.madeFor(t, ofA, s.project.ID, b.ID, year)
	wantCode(t, issue(ofB, a.ID), "service_account_self") // through a second one
	third := s.account(t, s.project.ID, "c", auth.ProjectAdmin)
	_, ofC := s.madeFor(t, ofB, s.project.ID, third.ID, year)
	wantCode(t, issue(ofC, a.ID), "service_account_self") // and a third
	wantCode(t, issue(ofC, b.ID), "service_account_self")
	_, _, err := s.service.CreateOwnToken(s.as(t, ofA), identity.NewToken{Name: "x"}) // as if it were a person
	wantCode(t, err, "person_required")
	s.signIn(t, ofA).Wants(t, http.StatusForbidden, "person_required")
	// It neither raises nor revives itself.
	viewer := auth.ProjectViewer
	_, err = s.service.UpdateServiceAccount(s.as(t, ofA), s.project.ID, a.ID, 1,
		identity.ServiceAccountChange{Role: &viewer})
	wantCode(t, err, "service_account_self")
	// And not by an account of another project.
	there := s.account(t, s.foreign.ID, "there", auth.ProjectAdmin)
	got := s.callAs(t, ofA, http.MethodPost, "/api/v1/projects/"+s.foreign.ID.String()+"/service-accounts/"+
		there.ID.String()+"/tokens", "",
		map[string]any{"name": "x"})
	got.Wants(t, http.StatusNotFound, "not_found")
	// All that it made is gone with the one token that a person made.
	s.clock.advance(time.Hour)
	for _, token := range []redact.Secret{ofA, ofB, ofC} {
		wantRefused(t, s.world, token, "token_expired")
	}
}

func TestAttackALineOfTokensWithoutEnd(t *testing.T) {
	s := newStage(t)
	token := s.token(t, s.dev.ID)
	var err error
	for range 20 {
		var next redact.Secret
		if _, next, err = s.service.CreateOwnToken(s.as(t, token), identity.NewToken{Name: "x"}); err != nil {
			break
		}
		token = next
	}
	wantCode(t, err, "token_line_too_long")
}

func TestAttackAScopedTokenGrantsMoreThanItsScopes(t *testing.T) {
	s := newStage(t)
	admin, auditor, no, on := auth.PlatformAdmin, auth.Auditor, false, identity.ServiceAccountActive
	root := s.as(t, s.token(t, s.root.ID, auth.UserRead, auth.UserManage, auth.MemberRead, auth.MemberManage,
		auth.ServiceAccountManage))
	boss := s.as(t, s.token(t, s.boss.ID, auth.MemberManage, auth.ServiceAccountManage))
	sleeper := s.user(t, "sleeper@example.com", auth.PlatformAdmin)
	member := s.user(t, "member@example.com", auth.NoRole)
	must(s.service.PutTenantMember(system(t), s.acme.ID, member.ID, auth.TenantAdmin))(t)
	yes, off := true, identity.ServiceAccountDisabled
	must(s.service.UpdateUser(system(t), sleeper.ID, 1, identity.UserChange{Disabled: &yes}))(t)
	must(s.service.UpdateUser(system(t), member.ID, 1, identity.UserChange{Disabled: &yes}))(t)
	idle := s.account(t, s.project.ID, "idle", auth.ProjectMember)
	must(s.service.UpdateServiceAccount(system(t), s.project.ID, idle.ID, 1,
		identity.ServiceAccountChange{Status: &off}))(t)
	for name, grant := range map[string]func() error{
		"invites an administrator": func() error {
			_, err := s.service.CreateUser(root, identity.NewUser{Email: "x@example.com", PlatformRole: admin})
			return err
		},
		"invites an auditor": func() error {
			_, err := s.service.CreateUser(root, identity.NewUser{Email: "y@example.com", PlatformRole: auditor})
			return err
		},
		"makes an administrator": func() error {
			_, err := s.service.UpdateUser(root, s.new.ID, 1, identity.UserChange{PlatformRole: &admin})
			return err
		},
		"enables an administrator": func() error {
			_, err := s.service.UpdateUser(root, sleeper.ID, 2, identity.UserChange{Disabled: &no})
			return err
		},
		"enables an administrator of a tenant": func() error {
			_, err := s.service.UpdateUser(root, member.ID, 2, identity.UserChange{Disabled: &no})
			return err
		},
		"gives a role on a tenant": func() error {
			_, err := s.service.PutTenantMember(root, s.acme.ID, s.new.ID, auth.TenantAdmin)
			return err
		},
		"gives a role in a project": func() error {
			_, err := s.service.PutProjectMember(boss, s.project.ID, s.new.ID, auth.ProjectAdmin)
			return err
		},
		"makes a service account": func() error {
			_, err := s.service.CreateServiceAccount(boss, s.project.ID,
				identity.NewServiceAccount{Name: "z", Role: auth.ProjectAdmin})
			return err
		},
		"raises a service account": func() error {
			role := auth.ProjectAdmin
			_, err := s.service.UpdateServiceAccount(boss, s.project.ID, s.bot.ID, 1, identity.ServiceAccountChange{Role: &role})
			return err
		},
		"revives a service account": func() error {
			_, err := s.service.UpdateServiceAccount(boss, s.project.ID, idle.ID, 2, identity.ServiceAccountChange{Status: &on})
			return err
		},
		"makes a wide token": func() error {
			_, _, err := s.service.CreateServiceAccountToken(boss, s.project.ID, s.bot.ID, identity.NewToken{Name: "x"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, grant(), "scope_above_own") })
	}
}

// What scopes leave in can be given, and taking away gives nothing.
func TestAScopedTokenGrantsWhatItsScopesHold(t *testing.T) {
	s := newStage(t)
	viewer := slices.DeleteFunc(auth.Permissions(), func(p auth.Permission) bool {
		return !auth.Grants(auth.ProjectViewer, p)
	})
	boss := s.as(t, s.token(t, s.boss.ID, append(viewer, auth.MemberManage, auth.ServiceAccountManage)...))
	must(s.service.PutProjectMember(boss, s.project.ID, s.new.ID, auth.ProjectViewer))(t)
	must(s.service.CreateServiceAccount(boss, s.project.ID,
		identity.NewServiceAccount{Name: "v", Role: auth.ProjectViewer}))(t)
	_, _, err := s.service.CreateServiceAccountToken(boss, s.project.ID, s.bot.ID,
		identity.NewToken{Name: "x", Scopes: viewer[:1]})
	wantCode(t, err, "")
	off := identity.ServiceAccountDisabled
	must(s.service.UpdateServiceAccount(boss, s.project.ID, s.bot.ID, 1, identity.ServiceAccountChange{Status: &off}))(t)
}

// Tokens that do not know what they were made with go on.
func TestTokensFromBeforeGoOn(t *testing.T) {
	s := newStage(t)
	root := s.token(t, s.boss.ID)
	_, child := s.made(t, root, time.Hour)
	if _, err := s.db.Exec(context.Background(), "UPDATE api_tokens SET made_from = NULL"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.service.SignOut(s.as(t, root)), "")
	s.as(t, child)
}
