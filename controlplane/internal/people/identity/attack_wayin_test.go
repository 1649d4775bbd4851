package identity_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity"
)

// first is a platform with its first administrator, and their token.
func first(t *testing.T, oidc identity.OIDCConfig) (*world, redact.Secret) {
	t.Helper()
	w := newWorld(t, oidc)
	token, created, err := w.service.Bootstrap(t.Context())
	if err != nil || !created {
		t.Fatal(created, err)
	}
	return w, token
}

func TestAttackTheLastAdministratorGivesTheLastWayInAway(t *testing.T) {
	w, token := first(t, identity.OIDCConfig{})
	admin := w.as(t, token)
	own := auth.From(admin).Token
	w.user(t, "invited@example.com", auth.PlatformAdmin) // they cannot sign in

	wantCode(t, w.service.RevokeOwnToken(admin, own), "last_way_in")
	wantCode(t, w.service.SignOut(admin), "last_way_in")
	w.callAs(t, token, http.MethodPost, "/api/v1/auth/logout", "", nil).Wants(t, http.StatusConflict, "last_way_in")

	// Neither a session nor a token made with the token is another way in: both
	// end with it.
	cookie, _ := opened(t, w.signIn(t, token))
	session := w.as(t, redact.New(cookie.Value))
	wantCode(t, w.service.RevokeOwnToken(session, own), "last_way_in")
	_, child := w.made(t, token, year)
	wantCode(t, w.service.RevokeOwnToken(w.as(t, child), own), "last_way_in")

	yes, none := true, auth.NoRole
	me := auth.From(admin).ID
	for _, u := range must(w.service.Users(t.Context(), "admin@localhost", firstPage[id.User]()))(t) {
		if u.ID.String() != me {
			t.Fatalf("the first administrator is %+v", u)
		}
		_, err := w.service.UpdateUser(admin, u.ID, u.Version, identity.UserChange{Disabled: &yes})
		wantCode(t, err, "last_way_in")
		_, err = w.service.UpdateUser(admin, u.ID, u.Version, identity.UserChange{PlatformRole: &none})
		wantCode(t, err, "last_way_in")
	}
	w.as(t, token)

	// A way in that is not the last can be given up.
	wantCode(t, w.service.SignOut(w.as(t, child)), "")
	wantCode(t, w.service.SignOut(session), "")
	if _, err := w.service.Recover(t.Context(), false, func(redact.Secret) error { return nil }); err != nil {
		t.Fatal(err)
	}
	wantCode(t, w.service.SignOut(admin), "")
}

// An administrator signed in through an identity provider that is gone now, so
// this session is the last way in. Somebody else signs in from the same
// browser.
func TestAttackAnotherSignInEndsTheLastWayIn(t *testing.T) {
	w := newSignInWorld(t)
	w.user(t, "ada@example.com", auth.PlatformAdmin)
	try := w.attempt(t)
	code := map[string]any{"code": try.code, "state": try.state, "code_verifier": try.verifier}
	last, _ := opened(t, w.signInAgain(t, &http.Cookie{Name: "none", Value: "none"}, code))
	if _, err := w.db.Exec(t.Context(), "UPDATE users SET oidc_issuer = 'https://former.example.com'"); err != nil {
		t.Fatal(err)
	}
	token := w.token(t, w.user(t, "dev@example.com", auth.Auditor).ID)
	now, _ := opened(t, w.signInAgain(t, last, map[string]any{"token": token.Reveal()}))
	w.me(t, now)
	w.me(t, last)
	w.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'token.revoke'", 0)

	// If there is another way in, the session is given up like any other.
	w.token(t, w.user(t, "root@example.com", auth.PlatformAdmin).ID)
	opened(t, w.signInAgain(t, last, map[string]any{"token": token.Reveal()}))
	w.over(t, last)
}

// Two administrators who sign out at the same moment must not both succeed.
func TestAttackTheLastTwoTokensAreRevokedAtOnce(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	a, b := w.user(t, "a@example.com", auth.PlatformAdmin), w.user(t, "b@example.com", auth.PlatformAdmin)
	callers := []redact.Secret{w.token(t, a.ID), w.token(t, b.ID)}
	errs := make([]error, len(callers))
	var all sync.WaitGroup
	for i, token := range callers {
		ctx := w.as(t, token)
		all.Go(func() { errs[i] = w.service.SignOut(ctx) })
	}
	all.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("signing out: %v and %v, want one of them refused", errs[0], errs[1])
	}
	wantCode(t, errors.Join(errs...), "last_way_in")
}

// A token for a minute is no lasting way in.
func TestAttackAFleetingTokenStandsInForTheLast(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	a := w.user(t, "a@example.com", auth.PlatformAdmin)
	lasting := w.token(t, a.ID)
	_, _, err := w.service.CreateOwnToken(auth.With(t.Context(), person(a.ID)),
		identity.NewToken{Name: "short", Life: time.Minute})
	wantCode(t, err, "")
	scoped := w.token(t, a.ID, auth.UserManage)
	w.as(t, scoped)
	wantCode(t, w.service.SignOut(w.as(t, lasting)), "last_way_in")
}

// Somebody who has signed in through the identity provider can do so again.
// Somebody who was only invited has not shown that they can.
func TestAnAdministratorOfTheIdentityProviderIsAWayIn(t *testing.T) {
	w := newSignInWorld(t)
	root := w.user(t, "root@example.com", auth.PlatformAdmin)
	token := w.token(t, root.ID)
	w.user(t, "ada@example.com", auth.PlatformAdmin)
	wantCode(t, w.service.SignOut(w.as(t, token)), "last_way_in")
	session, _ := w.session(t)
	wantCode(t, w.service.SignOut(w.as(t, token)), "")
	wantCode(t, w.service.SignOut(w.as(t, session)), "")
	if _, soon, err := w.service.EndOfAccess(t.Context()); soon || err != nil {
		t.Errorf("access ends soon: %v, %v", soon, err)
	}
}

func TestTheEndOfTheLastWayInIsAnnounced(t *testing.T) {
	w, _ := first(t, identity.OIDCConfig{})
	tell := func() {
		t.Helper()
		if err := w.service.AnnounceEndOfAccess(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tell()
	w.wantRows(t, "SELECT count(*) FROM outbox_events WHERE event_type = 'token.expiring'", 0)
	w.clock.advance(340 * 24 * time.Hour)
	end, soon, err := w.service.EndOfAccess(t.Context())
	if err != nil || !soon || end.Token.Name != "bootstrap" {
		t.Errorf("%+v %v %v", end, soon, err)
	}
	tell()
	tell() // as the next replica
	w.wantRows(t, "SELECT count(*) FROM outbox_events WHERE event_type = 'token.expiring'", 1)
	w.clock.advance(25 * time.Hour)
	tell()
	w.wantRows(t, "SELECT count(*) FROM outbox_events WHERE event_type = 'token.expiring'", 2)
	if !strings.Contains(w.logs.String(), "gpuaas admin recover") {
		t.Errorf("the log says\n%s", w.logs)
	}
}

func TestRecoverOpensWhatNobodyCan(t *testing.T) {
	w, lost := first(t, identity.OIDCConfig{})
	child := func() redact.Secret { _, c := w.made(t, lost, year); return c }()
	if _, err := w.db.Exec(t.Context(), "UPDATE users SET disabled = true, platform_role = NULL"); err != nil {
		t.Fatal(err)
	}
	var kept redact.Secret
	token, err := w.service.Recover(t.Context(), true, func(s redact.Secret) error { kept = s; return nil })
	if err != nil {
		t.Fatal(err)
	}
	p := auth.From(w.as(t, kept))
	if p.Platform != auth.PlatformAdmin || p.Token != token.ID {
		t.Errorf("recovered %+v", p)
	}
	wantRefused(t, w, lost, "token_invalid")
	wantRefused(t, w, child, "token_invalid")
	w.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'admin.recover' AND actor_id = 'system:recover' AND "+
		"result = 'success'", 1)

	// If a token could not be kept, it was never made.
	broken := errors.New("disk full")
	if _, err := w.service.Recover(t.Context(), true, func(redact.Secret) error { return broken }); !errors.Is(err,
		broken) || fault.CodeOf(err) == "" {
		t.Errorf("got %v", err)
	}
	w.as(t, kept)
}
