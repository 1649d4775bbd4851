package identity_test

import (
	"bytes"
	"net/http"
	"sync"
	"testing"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/people/identity"
)

// signInAgain signs in from a browser that has a session already.
func (w *world) signInAgain(t *testing.T, has *http.Cookie, body map[string]any) httpapitest.Answer {
	t.Helper()
	return httpapitest.Call(t, w.api.Handler(), httpapitest.Request{
		Method: http.MethodPost, Path: sessionPath, Body: body, Change: browserWith(has),
	})
}

func (w *world) over(t *testing.T, session *http.Cookie) {
	t.Helper()
	w.browse(t, session, http.MethodGet, "/api/v1/me").Wants(t, http.StatusUnauthorized, "token_invalid")
}

func TestASessionEndsWhenItsTokenIsRevoked(t *testing.T) {
	s := newStage(t)
	leaked, plain, err := s.service.CreateOwnToken(auth.With(t.Context(), person(s.dev.ID)),
		identity.NewToken{Name: "leaked"})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := opened(t, s.signIn(t, plain))
	second, _ := opened(t, s.signIn(t, redact.New(first.Value)))
	other, _ := opened(t, s.signIn(t, s.token(t, s.dev.ID)))
	made := s.me(t, first).TokenID.String()
	s.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'token.create' AND target_id = '"+made+
		"' AND metadata->>'made_from' = '"+leaked.ID.String()+"'", 1)

	wantCode(t, s.service.RevokeOwnToken(s.as(t, redact.New(other.Value)), leaked.ID), "")
	s.over(t, first)
	s.over(t, second)
	s.me(t, other)
	s.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'token.revoke' AND result = 'success'", 3)
	s.wantRows(t, "SELECT count(*) FROM outbox_events WHERE event_type = 'token.revoked'", 3)
	wantCode(t, s.service.RevokeOwnToken(s.as(t, redact.New(other.Value)), leaked.ID), "not_found")
}

func TestSigningOutEndsNoSiblings(t *testing.T) {
	s := newStage(t)
	token := s.token(t, s.dev.ID)
	first, _ := opened(t, s.signIn(t, token))
	second, _ := opened(t, s.signIn(t, token))
	wantCode(t, s.service.SignOut(s.as(t, redact.New(first.Value))), "")
	s.over(t, first)
	s.me(t, second)
}

// Whichever of the two comes first, no session outlives its token.
func TestASessionOpenedWhileItsTokenIsRevoked(t *testing.T) {
	s := newStage(t)
	for range 20 {
		token, plain, err := s.service.CreateOwnToken(auth.With(t.Context(), person(s.dev.ID)),
			identity.NewToken{Name: "racing"})
		if err != nil {
			t.Fatal(err)
		}
		ctx := s.as(t, plain)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _, _, _ = s.service.OpenSession(t.Context(), plain, redact.Secret{}) })
		}
		all.Go(func() { wantCode(t, s.service.RevokeOwnToken(ctx, token.ID), "") })
		all.Wait()
	}
	s.wantRows(t, "SELECT count(*) FROM api_tokens WHERE kind = 'session' AND revoked_at IS NULL", 0)
}

func TestSigningInAgainEndsTheFormerSession(t *testing.T) {
	s := newStage(t)
	token := s.token(t, s.dev.ID)
	first, _ := opened(t, s.signIn(t, token))
	s.signInAgain(t, first, map[string]any{"token": "rubbish"}).Wants(t, http.StatusUnauthorized, "token_invalid")
	s.me(t, first) // somebody who was refused keeps their session

	second, _ := opened(t, s.signInAgain(t, first, map[string]any{"token": token.Reveal()}))
	s.over(t, first)
	s.me(t, second)

	// This also ends the session of another person, because there is only one
	// browser.
	third, _ := opened(t, s.signInAgain(t, second, map[string]any{"token": s.token(t, s.root.ID).Reveal()}))
	s.over(t, second)
	if me := s.me(t, third); me.ID != s.root.ID.String() {
		t.Errorf("the session is of %+v", me)
	}
	// A session from which the new one is made goes on: otherwise both would
	// end.
	fourth, _ := opened(t, s.signInAgain(t, third, map[string]any{"token": third.Value}))
	s.me(t, third)
	s.me(t, fourth)

	// A token that somebody put into the cookie is no session.
	opened(t, s.signInAgain(t, &http.Cookie{Name: first.Name, Value: token.Reveal()},
		map[string]any{"token": s.token(t, s.root.ID).Reveal()}))
	s.as(t, token)
}

func TestSigningInThroughTheIdentityProviderEndsTheFormerSession(t *testing.T) {
	w := newSignInWorld(t)
	ada := w.user(t, "ada@example.com", auth.Auditor)
	former, _ := opened(t, w.signIn(t, w.token(t, ada.ID)))
	try := w.attempt(t)
	now, _ := opened(t, w.signInAgain(t, former,
		map[string]any{"code": try.code, "state": try.state, "code_verifier": try.verifier}))
	w.over(t, former)
	w.me(t, now)
	w.wantRows(t, "SELECT count(*) FROM api_tokens WHERE kind = 'session' AND made_from IS NULL", 1)
}

func TestGuessesAreNotKept(t *testing.T) {
	s := newStage(t)
	guess := redact.New("gpuaas_p" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	for _, text := range []redact.Secret{redact.New("rubbish"), guess} {
		s.signIn(t, text).Wants(t, http.StatusUnauthorized, "token_invalid")
	}
	s.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action = 'session.create'", 0)
	if !bytes.Contains(s.logs.Bytes(), []byte("a sign-in was refused")) ||
		bytes.Contains(s.logs.Bytes(), []byte(guess.Reveal())) {
		t.Errorf("the log says\n%s", s.logs)
	}

	// A text that once was a token is audited under its name.
	revoked := s.token(t, s.dev.ID)
	caller := s.as(t, revoked)
	wantCode(t, s.service.SignOut(caller), "")
	s.signIn(t, revoked).Wants(t, http.StatusUnauthorized, "token_invalid")
	s.wantRows(t,
		"SELECT count(*) FROM audit_logs WHERE action = 'session.create' AND result = 'denied' AND target_id = '"+
			auth.From(caller).Token.String()+"'", 1)
}

func TestSigningOutAgainWithTheSameKeyIsRefused(t *testing.T) {
	s := newStage(t)
	token := s.token(t, s.dev.ID)
	signOut := func(session *http.Cookie) httpapitest.Answer {
		return httpapitest.Call(t, s.api.Handler(), httpapitest.Request{
			Method: http.MethodPost, Path: "/api/v1/auth/logout", Key: "out-1", Change: browserWith(session),
		})
	}
	first, _ := opened(t, s.signIn(t, token))
	second, _ := opened(t, s.signIn(t, token))
	if a := signOut(first); a.Status != http.StatusNoContent {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	signOut(second).Wants(t, http.StatusConflict, "idempotency_key_reused")
	s.me(t, second)
}
