package identity_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/people/identity"
)

const sessionPath = "/api/v1/auth/session"

// browse sends a request as a browser on our page would, with its cookie.
func (w *world) browse(t *testing.T, cookie *http.Cookie, method, path string) httpapitest.Answer {
	t.Helper()
	return httpapitest.Call(t, w.api.Handler(), httpapitest.Request{
		Method: method, Path: path, Change: browserWith(cookie),
	})
}

// opened is the cookie of a sign-in that must have succeeded, and its end.
func opened(t *testing.T, a httpapitest.Answer) (*http.Cookie, time.Time) {
	t.Helper()
	cookies := (&http.Response{Header: a.Header}).Cookies()
	if a.Status != http.StatusOK || len(cookies) != 1 {
		t.Fatalf("sign-in answers %d %s with %v", a.Status, a.Body, cookies)
	}
	var body map[string]time.Time
	a.Decode(t, &body)
	if len(body) != 1 || body["expires_at"].IsZero() {
		t.Errorf("the answer is %s", a.Body)
	}
	if bytes.Contains(a.Body, []byte(cookies[0].Value)) || !strings.HasPrefix(cookies[0].Value, "gpuaas_s") {
		t.Errorf("the session is shown: %s", a.Body)
	}
	return cookies[0], body["expires_at"]
}

func (w *world) signIn(t *testing.T, token redact.Secret) httpapitest.Answer {
	t.Helper()
	return w.callAs(t, redact.Secret{}, http.MethodPost, sessionPath, "", map[string]any{"token": token.Reveal()})
}

func (w *world) me(t *testing.T, cookie *http.Cookie) identity.MeView {
	t.Helper()
	a := w.browse(t, cookie, http.MethodGet, "/api/v1/me")
	if a.Status != http.StatusOK {
		t.Fatalf("me answers %d %s", a.Status, a.Body)
	}
	var me identity.MeView
	a.Decode(t, &me)
	return me
}

func TestABrowserSignsInWithATokenAndOut(t *testing.T) {
	s := newStage(t)
	token := s.token(t, s.root.ID)
	cookie, ends := opened(t, s.signIn(t, token))
	if want := s.clock.Now().Add(12 * time.Hour); !ends.Equal(want) || cookie.Expires.Sub(want).Abs() > time.Second {
		t.Errorf("the session ends %s, the cookie %s, want %s", ends, cookie.Expires, want)
	}
	me := s.me(t, cookie)
	if me.ID != s.root.ID.String() || me.PlatformRole != auth.PlatformAdmin || len(me.Scopes) != 0 {
		t.Errorf("the session is of %+v", me)
	}
	s.wantRows(t, "SELECT count(*) FROM api_tokens WHERE kind = 'session' AND name = 'sign-in' AND id = '"+
		me.TokenID.String()+"'", 1)
	s.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'token.create' AND target_id = '"+me.TokenID.String()+
		"' AND actor_id = '"+s.root.ID.String()+"'", 1)

	a := s.browse(t, cookie, http.MethodPost, "/api/v1/auth/logout")
	cleared := (&http.Response{Header: a.Header}).Cookies()
	if a.Status != http.StatusNoContent || len(cleared) != 1 || cleared[0].Name != cookie.Name || cleared[0].MaxAge >= 0 {
		t.Errorf("logout answers %d %s with %v", a.Status, a.Body, cleared)
	}
	s.browse(t, cookie, http.MethodGet, "/api/v1/me").Wants(t, http.StatusUnauthorized, "token_invalid")
	s.as(t, token) // what the session was made of goes on working
	if strings.Contains(s.logs.String(), cookie.Value) || strings.Contains(s.logs.String(), token.Reveal()) {
		t.Error("a token is in the log")
	}
}

func TestASessionEndsWithItsTokenAtTheLatest(t *testing.T) {
	s := newStage(t)
	_, short, err := s.service.CreateOwnToken(auth.With(t.Context(), person(s.dev.ID)),
		identity.NewToken{Name: "short", Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s.clock.advance(59*time.Minute + 50*time.Second)
	cookie, ends := opened(t, s.signIn(t, short))
	if want := s.clock.Now().Add(10 * time.Second); !ends.Equal(want) {
		t.Errorf("the session ends %s, want %s", ends, want)
	}
	// A session made of a session does not live longer either.
	again, ends := opened(t, s.signIn(t, redact.New(cookie.Value)))
	if want := s.clock.Now().Add(10 * time.Second); !ends.Equal(want) {
		t.Errorf("the second session ends %s, want %s", ends, want)
	}
	s.clock.advance(10 * time.Second)
	for _, c := range []*http.Cookie{cookie, again} {
		a := s.browse(t, c, http.MethodGet, "/api/v1/me")
		a.Wants(t, http.StatusUnauthorized, "token_expired")
		if set := a.Header.Get("Set-Cookie"); !strings.Contains(set, "Max-Age=0") {
			t.Errorf("an expired session is kept: %q", set)
		}
	}
}

func TestASessionKeepsTheScopesOfItsToken(t *testing.T) {
	s := newStage(t)
	cookie, _ := opened(t, s.signIn(t, s.token(t, s.root.ID, auth.TenantRead, auth.AuditRead)))
	me := s.me(t, cookie)
	want := []auth.Permission{auth.AuditRead, auth.TenantRead}
	slices.Sort(me.Scopes)
	if !slices.Equal(me.Scopes, want) || !slices.Equal(me.PlatformPermissions, want) ||
		!slices.Equal(me.Permissions, want) {
		t.Errorf("the session is %+v", me)
	}
	s.browse(t, cookie, http.MethodGet, "/api/v1/admin/users").Wants(t, http.StatusForbidden,
		"insufficient_permissions")
}

func TestWhoGetsNoSession(t *testing.T) {
	s := newStage(t)
	_, bot, err := s.service.CreateServiceAccountToken(system(t), s.project.ID, s.bot.ID, identity.NewToken{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	revoked, stale := s.token(t, s.dev.ID), s.token(t, s.boss.ID)
	wantCode(t, s.service.SignOut(s.as(t, revoked)), "")
	yes := true
	must(s.service.UpdateUser(system(t), s.boss.ID, s.boss.Version, identity.UserChange{Disabled: &yes}))(t)
	s.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'session.create'", 0)
	for _, c := range []struct {
		token  redact.Secret
		status int
		code   string
	}{
		{bot, http.StatusForbidden, "person_required"},
		{revoked, http.StatusUnauthorized, "token_invalid"},
		{stale, http.StatusUnauthorized, "token_invalid"},
		{redact.New("rubbish"), http.StatusUnauthorized, "token_invalid"},
	} {
		a := s.signIn(t, c.token)
		a.Wants(t, c.status, c.code)
		if set := a.Header.Get("Set-Cookie"); set != "" {
			t.Errorf("a refusal sets %s", set)
		}
	}
	// rubbish is none
	s.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'session.create' AND result = 'denied' AND "+
		"target_kind = 'token' AND target_id ~ '^[0-9a-f-]{36}$'", 3)
	s.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'session.create' AND reason = 'person_required' AND "+
		"actor_id = '"+s.bot.ID.String()+"'", 1)
	s.wantRows(t, "SELECT count(*) FROM api_tokens WHERE kind = 'session'", 0)
	token := s.token(t, s.root.ID).Reveal()
	for _, bad := range []map[string]any{
		{},
		{"token": ""},
		{"code": "c"},
		{"code": "c", "state": "s"},
		{"token": token, "code": "c", "state": "s", "code_verifier": "v"},
		{"token": token, "state": "s"},
		{"token": token, "kind": "api"},
	} {
		s.callAs(t, redact.Secret{}, http.MethodPost, sessionPath, "", bad).Wants(t, http.StatusUnprocessableEntity,
			"validation_error")
	}
	s.callAs(t, redact.Secret{}, http.MethodPost, sessionPath, "",
		map[string]any{"code": "c", "state": "s", "code_verifier": "v"}).Wants(t, http.StatusNotFound, "oidc_not_configured")
}

func TestABrowserSignsInThroughTheIdentityProvider(t *testing.T) {
	w := newSignInWorld(t)
	invited := w.user(t, "ada@example.com", auth.Auditor)
	try := w.attempt(t)
	body := map[string]any{"code": try.code, "state": try.state, "code_verifier": try.verifier}
	cookie, ends := opened(t, w.callAs(t, redact.Secret{}, http.MethodPost, sessionPath, "", body))
	if want := w.clock.Now().Add(12 * time.Hour); !ends.Equal(want) {
		t.Errorf("the session ends %s, want %s", ends, want)
	}
	if me := w.me(t, cookie); me.ID != invited.ID.String() || me.Name != "Ada" {
		t.Errorf("the session is of %+v", me)
	}
	w.callAs(t, redact.Secret{}, http.MethodPost, sessionPath, "", body).Wants(t, http.StatusUnprocessableEntity,
		"sign_in_state_invalid")
}

func TestOtherPagesSignNobodyIn(t *testing.T) {
	s := newStage(t)
	httpapitest.Call(t, s.api.Handler(), httpapitest.Request{
		Method: http.MethodPost, Path: sessionPath, Body: map[string]any{"token": s.token(t, s.root.ID).Reveal()},
		Change: func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	}).Wants(t, http.StatusForbidden, "cross_origin_request")
	s.wantRows(t, "SELECT count(*) FROM api_tokens WHERE kind = 'session'", 0)
}

func TestMeSaysWhatTheCallerMayDo(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct {
		name                   string
		token                  redact.Secret
		platform, may, mayNot  []auth.Permission
		everything, noPlatform bool
	}{
		{name: "platform admin", token: s.token(t, s.root.ID), everything: true},
		{
			name: "tenant admin", token: s.token(t, s.boss.ID), noPlatform: true,
			may: []auth.Permission{auth.TenantUpdate, auth.AuditRead}, mayNot: []auth.Permission{auth.NodeRead},
		},
		{name: "nobody", token: s.token(t, s.new.ID), noPlatform: true, mayNot: auth.Permissions()},
		{
			name: "scoped", token: s.token(t, s.root.ID, auth.SiteRead), platform: []auth.Permission{auth.SiteRead},
			mayNot: []auth.Permission{auth.SiteManage},
		},
	} {
		a := s.callAs(t, c.token, http.MethodGet, "/api/v1/me", "", nil)
		var me identity.MeView
		a.Decode(t, &me)
		if c.everything && (!slices.Equal(me.PlatformPermissions, auth.Permissions()) ||
			!slices.Equal(me.Permissions, auth.Permissions())) {
			t.Errorf("%s: %+v", c.name, me)
		}
		if c.noPlatform && len(me.PlatformPermissions) != 0 || c.platform != nil &&
			!slices.Equal(me.PlatformPermissions, c.platform) {
			t.Errorf("%s: on the platform %v", c.name, me.PlatformPermissions)
		}
		for _, p := range c.may {
			if !slices.Contains(me.Permissions, p) {
				t.Errorf("%s may not %s", c.name, p)
			}
		}
		for _, p := range c.mayNot {
			if slices.Contains(me.Permissions, p) {
				t.Errorf("%s may %s", c.name, p)
			}
		}
		if !slices.IsSorted(me.Permissions) || !slices.IsSorted(me.PlatformPermissions) ||
			bytes.Contains(a.Body, []byte("null")) {
			t.Errorf("%s: %s", c.name, a.Body)
		}
	}
}
