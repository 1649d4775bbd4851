package identity_test

import (
	"crypto/rsa"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/people/identity"
)

const redirectURI = "http://127.0.0.1:43117" + callbackPath

// signInWorld is a control plane that trusts a provider.
type signInWorld struct {
	*world
	idp *idp
}

func newSignInWorld(t *testing.T, change ...func(*identity.OIDCConfig)) *signInWorld {
	t.Helper()
	p := newIDP(t)
	p.set(account{subject: "sub-ada", email: "ada@example.com", name: "Ada", verified: true})
	cfg := identity.OIDCConfig{Issuer: p.server.URL, ClientID: clientID, ClientSecret: redact.New(clientSecret)}
	for _, c := range change {
		c(&cfg)
	}
	return &signInWorld{world: newWorld(t, cfg), idp: p}
}

func unknownUsersWelcome(c *identity.OIDCConfig) { c.AllowUnknownUsers = true }

// attempt is a sign-in at the point where the person has come back.
type attempt struct{ code, state, verifier string }

func (w *signInWorld) attempt(t *testing.T) attempt {
	t.Helper()
	verifier := oauth2.GenerateVerifier()
	a := w.callAs(t, redact.Secret{}, http.MethodPost, "/api/v1/auth/oidc/authorize", "", map[string]any{
		"redirect_uri": redirectURI, "code_challenge": oauth2.S256ChallengeFromVerifier(verifier),
	})
	if a.Status != http.StatusOK {
		t.Fatalf("authorize answers %d %s", a.Status, a.Body)
	}
	var started struct {
		URL   string `json:"authorization_url"`
		State string `json:"state"`
	}
	a.Decode(t, &started)
	code, state := w.idp.visit(t, started.URL)
	if state != started.State || code == "" {
		t.Fatalf("came back with code %q and state %q, sent %q", code, state, started.State)
	}
	return attempt{code: code, state: state, verifier: verifier}
}

func (w *signInWorld) finish(t *testing.T, a attempt) httpapitest.Answer {
	t.Helper()
	return w.callAs(t, redact.Secret{}, http.MethodPost, "/api/v1/auth/oidc/exchange", "", map[string]any{
		"code": a.code, "state": a.state, "code_verifier": a.verifier,
	})
}

// session finishes a sign-in that must succeed.
func (w *signInWorld) session(t *testing.T) (token redact.Secret, expires time.Time) {
	t.Helper()
	a := w.finish(t, w.attempt(t))
	var s struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if a.Status != http.StatusOK {
		t.Fatalf("exchange answers %d %s\n%s", a.Status, a.Body, w.logs)
	}
	a.Decode(t, &s)
	return redact.New(s.Token), s.ExpiresAt
}

func TestInvitedPersonSignsIn(t *testing.T) {
	for _, inIDToken := range []bool{false, true} {
		w := newSignInWorld(t)
		w.idp.inIDToken = inIDToken
		invited := w.user(t, "Ada@Example.com", auth.Auditor)
		token, expires := w.session(t)
		if want := w.clock.Now().Add(12 * time.Hour); !expires.Equal(want) {
			t.Errorf("the session ends %s, want %s", expires, want)
		}
		p := auth.From(w.as(t, token))
		if p.ID != invited.ID.String() || p.Name != "Ada" || p.Platform != auth.Auditor {
			t.Errorf("principal is %+v", p)
		}
		u := must(w.service.User(t.Context(), invited.ID))(t)
		if u.Issuer != w.idp.server.URL || u.Subject != "sub-ada" {
			t.Errorf("linked to %s %s", u.Issuer, u.Subject)
		}
		w.wantRows(t, "SELECT count(*) FROM audit_logs WHERE action IN ('user.link', 'token.create') AND actor_id = '"+
			invited.ID.String()+"'", 2)
		w.wantRows(t, "SELECT count(*) FROM oidc_logins", 0)

		// Later sign-ins identify the person by subject, whatever the address
		// says.
		w.idp.set(account{subject: "sub-ada", email: "changed@example.com"})
		again, _ := w.session(t)
		if p := auth.From(w.as(t, again)); p.ID != invited.ID.String() {
			t.Errorf("the second sign-in is %+v", p)
		}
	}
}

// To outlast a session, sign in for a token.
func TestASignInForLongMakesAToken(t *testing.T) {
	w := newSignInWorld(t)
	w.user(t, "ada@example.com", auth.Auditor)
	try := w.attempt(t)
	a := w.callAs(t, redact.Secret{}, http.MethodPost, "/api/v1/auth/oidc/exchange", "", map[string]any{
		"code": try.code, "state": try.state, "code_verifier": try.verifier, "expires_in": 90 * 24 * 3600,
	})
	var made struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	a.Decode(t, &made)
	if a.Status != http.StatusOK || !strings.HasPrefix(made.Token, "gpuaas_p") ||
		!made.ExpiresAt.Equal(w.clock.Now().Add(90*24*time.Hour)) {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	child, _ := w.made(t, redact.New(made.Token), year)
	if !child.ExpiresAt.Equal(made.ExpiresAt) {
		t.Errorf("what is made with it ends %s", child.ExpiresAt)
	}
}

func TestSignOutEndsTheSession(t *testing.T) {
	w := newSignInWorld(t, unknownUsersWelcome)
	token, _ := w.session(t)
	if a := w.callAs(t, token, http.MethodPost, "/api/v1/auth/logout", "", nil); a.Status != http.StatusNoContent {
		t.Fatalf("logout answers %d %s", a.Status, a.Body)
	}
	w.callAs(t, token, http.MethodGet, "/api/v1/me", "", nil).Wants(t, http.StatusUnauthorized, "token_invalid")
}

func TestUnknownPersonIsWelcomeOnlyWhereConfigured(t *testing.T) {
	w := newSignInWorld(t)
	w.finish(t, w.attempt(t)).Wants(t, http.StatusForbidden, "user_unknown")
	w.wantRows(t, "SELECT count(*) FROM users", 0)
	w.wantRows(t, "SELECT count(*) FROM api_tokens", 0)
	w.wantRows(t, "SELECT count(*) FROM audit_logs WHERE result = 'denied' AND reason = 'user_unknown'", 1)

	open := newSignInWorld(t, unknownUsersWelcome)
	token, _ := open.session(t)
	p := auth.From(open.as(t, token))
	if p.Name != "Ada" || p.Platform != "" || len(p.Tenants)+len(p.Projects) != 0 {
		t.Errorf("an unknown person is %+v", p)
	}
	open.wantRows(t, "SELECT count(*) FROM outbox_events WHERE event_type = 'user.created'", 1)
}

func TestPeopleWhoAreNotLetIn(t *testing.T) {
	w := newSignInWorld(t, unknownUsersWelcome)
	yes := true
	invited := w.user(t, "ada@example.com", auth.PlatformAdmin)
	other := w.user(t, "other@example.com", auth.PlatformAdmin)
	w.token(t, other.ID) // so that the other one's way in is not the last
	for _, c := range []struct {
		name    string
		account account
		code    string
	}{
		{"unverified address of an invited person", account{subject: "s1", email: "ada@example.com"}, "email_unverified"},
		{"unverified address of nobody", account{subject: "s2", email: "eve@example.com"}, "email_unverified"},
		{"no address", account{subject: "s3", verified: true}, "email_unverified"},
	} {
		w.idp.set(c.account)
		a := w.finish(t, w.attempt(t))
		if a.Status != http.StatusForbidden || a.Problem(t).Code != c.code {
			t.Errorf("%s: %d %s", c.name, a.Status, a.Body)
		}
	}
	w.wantRows(t, "SELECT count(*) FROM users WHERE oidc_subject IS NOT NULL", 0)

	w.idp.set(account{subject: "s1", email: "ada@example.com", verified: true})
	w.session(t)
	w.idp.set(account{subject: "s4", email: "ada@example.com", verified: true})
	w.finish(t, w.attempt(t)).Wants(t, http.StatusForbidden, "identity_mismatch")

	u := must(w.service.User(t.Context(), invited.ID))(t)
	must(w.service.UpdateUser(system(t), u.ID, u.Version, identity.UserChange{Disabled: &yes}))(t)
	w.idp.set(account{subject: "s1", email: "ada@example.com", verified: true})
	w.finish(t, w.attempt(t)).Wants(t, http.StatusForbidden, "user_disabled")
	w.wantRows(t, "SELECT count(*) FROM api_tokens WHERE revoked_at IS NULL", 1)
}

func TestSignInWorksOnce(t *testing.T) {
	w := newSignInWorld(t, unknownUsersWelcome)
	a := w.attempt(t)
	if got := w.finish(t, a); got.Status != http.StatusOK {
		t.Fatalf("exchange answers %d %s", got.Status, got.Body)
	}
	w.finish(t, a).Wants(t, http.StatusUnprocessableEntity, "sign_in_state_invalid")
	w.wantRows(t, "SELECT count(*) FROM api_tokens", 1)

	// A wrong verifier also uses the state up, so that it cannot be guessed.
	b := w.attempt(t)
	wrong := b
	wrong.verifier = oauth2.GenerateVerifier()
	w.finish(t, wrong).Wants(t, http.StatusUnprocessableEntity, "code_verifier_invalid")
	w.finish(t, b).Wants(t, http.StatusUnprocessableEntity, "sign_in_state_invalid")

	made := w.attempt(t)
	made.state = "made-up"
	w.finish(t, made).Wants(t, http.StatusUnprocessableEntity, "sign_in_state_invalid")

	late := w.attempt(t)
	w.clock.advance(10 * time.Minute)
	w.finish(t, late).Wants(t, http.StatusUnprocessableEntity, "sign_in_state_invalid")

	badCode := w.attempt(t)
	badCode.code = "made-up"
	w.finish(t, badCode).Wants(t, http.StatusUnauthorized, "sign_in_failed")
}

func TestSignInsThatNobodyFinishesAreForgotten(t *testing.T) {
	w := newSignInWorld(t)
	w.attempt(t)
	w.attempt(t)
	w.clock.advance(10*time.Minute + time.Second)
	w.attempt(t)
	w.wantRows(t, "SELECT count(*) FROM oidc_logins", 1)
}

// A name or address from a provider is stored only if a person could have typed
// it.
func TestUnusableNamesAndAddresses(t *testing.T) {
	w := newSignInWorld(t, unknownUsersWelcome)
	w.idp.set(account{subject: "s1", email: "one@example.com", name: "a\x00b", verified: true})
	token, _ := w.session(t)
	if p := auth.From(w.as(t, token)); p.Name != "one@example.com" {
		t.Errorf("principal is %+v", p)
	}
	w.idp.set(account{subject: "s2", email: "two\x00@example.com", verified: true})
	w.finish(t, w.attempt(t)).Wants(t, http.StatusForbidden, "email_unverified")
}

func TestForgedIDTokens(t *testing.T) {
	w := newSignInWorld(t, unknownUsersWelcome)
	set := func(claim string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[claim] = value }
	}
	now := w.clock.Now()
	for _, c := range []struct {
		name   string
		change func(map[string]any)
		key    *rsa.PrivateKey
		status int
	}{
		{"nothing changed", func(map[string]any) {}, nil, http.StatusOK},
		{"another nonce", set("nonce", "x"), nil, http.StatusUnauthorized},
		{"no nonce", func(c map[string]any) { delete(c, "nonce") }, nil, http.StatusUnauthorized},
		{"another audience", set("aud", []string{"other"}), nil, http.StatusUnauthorized},
		{
			"a second audience", func(c map[string]any) { c["aud"], c["azp"] = []string{clientID, "other"}, "other" }, nil,
			http.StatusUnauthorized,
		},
		{"a second audience, ours to use", func(c map[string]any) {
			c["aud"], c["azp"] = []string{clientID, "other"},
				clientID
		}, nil, http.StatusOK},
		{"another issuer", set("iss", "https://evil.example.com"), nil, http.StatusUnauthorized},
		{"expired", set("exp", now.Add(-2*time.Minute).Unix()), nil, http.StatusUnauthorized},
		{"expired within the skew of clocks", set("exp", now.Add(-30*time.Second).Unix()), nil, http.StatusOK},
		{"issued in the future", set("iat", now.Add(time.Hour).Unix()), nil, http.StatusUnauthorized},
		{"not yet valid", set("nbf", now.Add(time.Hour).Unix()), nil, http.StatusUnauthorized},
		{"about nobody", set("sub", ""), nil, http.StatusUnauthorized},
		{"about somebody unspeakable", set("sub", "a\x00b"), nil, http.StatusUnauthorized},
		{
			"about another than the user info", func(c map[string]any) { c["sub"] = "sub-other"; delete(c, "email") }, nil,
			http.StatusUnauthorized,
		},
		{"signed by a stranger", func(map[string]any) {}, signingKeys()[1], http.StatusUnauthorized},
	} {
		w.idp.forgery(c.change, c.key)
		a := w.finish(t, w.attempt(t))
		if a.Status != c.status || c.status != http.StatusOK && a.Problem(t).Code != "sign_in_failed" {
			t.Errorf("%s: %d %s, want %d", c.name, a.Status, a.Body, c.status)
		}
	}
	w.wantRows(t, "SELECT count(*) FROM users", 1)
}

func TestProviderOutage(t *testing.T) {
	w := newSignInWorld(t, unknownUsersWelcome)
	first := w.attempt(t)
	w.idp.tokensDown.Store(true)
	w.finish(t, first).Wants(t, http.StatusServiceUnavailable, "oidc_unavailable")
	w.idp.tokensDown.Store(false)

	w.idp.keysDown.Store(true) // they were never fetched yet
	w.finish(t, w.attempt(t)).Wants(t, http.StatusServiceUnavailable, "oidc_unavailable")
	w.idp.keysDown.Store(false)
	w.session(t)

	second := w.attempt(t)
	w.idp.server.Close()
	w.finish(t, second).Wants(t, http.StatusServiceUnavailable, "oidc_unavailable")
	w.wantRows(t, "SELECT count(*) FROM audit_logs WHERE result = 'denied'", 0)
}

func TestProviderThatWasNeverUp(t *testing.T) {
	w := newSignInWorld(t)
	w.idp.server.Close()
	a := w.callAs(t, redact.Secret{}, http.MethodPost, "/api/v1/auth/oidc/authorize", "", map[string]any{
		"redirect_uri": redirectURI, "code_challenge": oauth2.S256ChallengeFromVerifier(oauth2.GenerateVerifier()),
	})
	a.Wants(t, http.StatusServiceUnavailable, "oidc_unavailable")
	w.wantRows(t, "SELECT count(*) FROM oidc_logins", 0)
	w.wantRows(t, "SELECT count(*) FROM users", 0)
	a = w.callAs(t, redact.Secret{}, http.MethodGet, "/api/v1/auth/methods", "", nil)
	if a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"oidc"`) {
		t.Errorf("methods are %d %s", a.Status, a.Body)
	}
}

func TestProviderThatDoesNotKnowUs(t *testing.T) {
	w := newSignInWorld(t, func(c *identity.OIDCConfig) { c.ClientSecret = redact.New("wrong-canary") })
	a := w.finish(t, w.attempt(t))
	a.Wants(t, http.StatusServiceUnavailable, "oidc_misconfigured")
	if strings.Contains(string(a.Body)+w.logs.String(), "wrong-canary") {
		t.Error("the client secret was shown")
	}
}

func TestStartOfASignIn(t *testing.T) {
	w := newSignInWorld(t)
	challenge := oauth2.S256ChallengeFromVerifier(oauth2.GenerateVerifier())
	for _, c := range []struct{ redirect, challenge string }{
		{"https://evil.example.com/callback", challenge},
		{"http://localhost:1/callback", challenge},
		{redirectURI, ""},
		{redirectURI, "short"},
		{redirectURI, strings.Repeat("!", 43)},
	} {
		a := w.callAs(t, redact.Secret{}, http.MethodPost, "/api/v1/auth/oidc/authorize", "", map[string]any{
			"redirect_uri": c.redirect, "code_challenge": c.challenge,
		})
		a.Wants(t, http.StatusUnprocessableEntity, "validation_error")
	}
	w.wantRows(t, "SELECT count(*) FROM oidc_logins", 0)

	off := newWorld(t, identity.OIDCConfig{})
	a := off.callAs(t, redact.Secret{}, http.MethodPost, "/api/v1/auth/oidc/authorize", "", map[string]any{
		"redirect_uri": redirectURI, "code_challenge": challenge,
	})
	a.Wants(t, http.StatusNotFound, "oidc_not_configured")
	a = off.callAs(t, redact.Secret{}, http.MethodGet, "/api/v1/auth/methods", "", nil)
	if !strings.Contains(string(a.Body), `"methods":["token"]`) {
		t.Errorf("methods are %s", a.Body)
	}
}

// No row and no log line may hold anything that proves who somebody is.
func TestSignInLeavesNoSecretBehind(t *testing.T) {
	w := newSignInWorld(t, unknownUsersWelcome)
	a := w.attempt(t)
	answer := w.finish(t, a)
	var s struct{ Token string }
	answer.Decode(t, &s)
	var dump string
	err := w.db.QueryRow(t.Context(), `SELECT coalesce(string_agg(x::text, ''), '') FROM (
		SELECT to_jsonb(t) FROM api_tokens t UNION ALL SELECT to_jsonb(a) FROM audit_logs a
		UNION ALL SELECT to_jsonb(o) FROM outbox_events o UNION ALL SELECT to_jsonb(l) FROM oidc_logins l
		UNION ALL SELECT to_jsonb(u) FROM users u) x`).Scan(&dump)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{s.Token, a.code, a.state, a.verifier, clientSecret} {
		if secret == "" || strings.Contains(dump+w.logs.String(), secret) {
			t.Errorf("%q was left behind", secret)
		}
	}
}
