package identity

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
)

func TestSlugs(t *testing.T) {
	for slug, good := range map[string]bool{
		"a": true, "acme": true, "a-1": true, "0": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "a-": false, "Acme": false, "a_b": false, "ä": false, "a\n": false,
		strings.Repeat("a", 64): false,
	} {
		if err := (Naming{Slug: slug, Name: "n"}).check(); (err == nil) != good {
			t.Errorf("slug %q: %v", slug, err)
		}
	}
}

func TestNames(t *testing.T) {
	for name, good := range map[string]bool{
		"Acme Inc.": true, "日本": true, strings.Repeat("ü", 200): true,
		"": false, "  ": false, "a\nb": false, "a\x7f": false, strings.Repeat("a", 201): false,
	} {
		if err := checkName(name); (err == nil) != good {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func TestEmailAddresses(t *testing.T) {
	for email, good := range map[string]bool{
		"ada@example.com": true, "admin@localhost": true, "a+b@example.com": true,
		"": false, "ada": false, "Ada <ada@example.com>": false, "a@b@c": false, strings.Repeat("a", 255) +
			"@example.com": false,
	} {
		if err := (NewUser{Email: email, PlatformRole: auth.NoRole}).check(); (err == nil) != good {
			t.Errorf("address %q: %v", email, err)
		}
	}
}

func TestRedirectAddresses(t *testing.T) {
	cfg := OIDCConfig{RedirectURIs: []string{"https://console.example.com/callback"}}
	for uri, good := range map[string]bool{
		"http://127.0.0.1:43117/callback":          true,
		"http://[::1]:43117/":                      true,
		"http://127.0.0.1/callback":                true,
		"https://console.example.com/callback":     true,
		"https://console.example.com/callback/":    false,
		"https://console.example.com/callback?x=1": false,
		"http://localhost:43117/callback":          false,
		"https://127.0.0.1:43117/callback":         false,
		"http://127.0.0.1.example.com/callback":    false,
		"http://127.0.0.1@example.com/callback":    false,
		"http://user@127.0.0.1:1/callback":         false,
		"http://127.0.0.1:43117/callback#x":        false,
		"http://127.0.0.2:43117/":                  false,
		"javascript:alert(1)":                      false,
		"":                                         false,
		"%":                                        false,
	} {
		if err := cfg.checkRedirect(uri); (err == nil) != good {
			t.Errorf("redirect to %q: %v", uri, err)
		}
	}
}

func TestOIDCConfigReportsEveryProblem(t *testing.T) {
	for name, c := range map[string]struct {
		cfg      OIDCConfig
		problems int
	}{
		"off":                {OIDCConfig{}, 0},
		"client without":     {OIDCConfig{ClientID: "x"}, 1},
		"good":               {OIDCConfig{Issuer: "https://id.example.com", ClientID: "x"}, 0},
		"loopback":           {OIDCConfig{Issuer: "http://127.0.0.1:1", ClientID: "x"}, 0},
		"plain http":         {OIDCConfig{Issuer: "http://id.example.com", ClientID: "x"}, 1},
		"sessions too short": {OIDCConfig{SessionTTL: time.Second}, 1},
		"everything is wrong": {OIDCConfig{
			Issuer: "id", RedirectURIs: []string{"/x", "https://a/#b"},
			SessionTTL: time.Second, Scopes: []string{"email"},
		}, 6},
		"scopes with openid": {OIDCConfig{Issuer: "https://id.example.com", ClientID: "x", Scopes: []string{"openid"}}, 0},
		"configured redirects": {OIDCConfig{
			Issuer: "https://id.example.com", ClientID: "x",
			RedirectURIs: []string{"https://a/b"},
		}, 0},
	} {
		if got := c.cfg.Validate(); len(got) != c.problems {
			t.Errorf("%s: %v, want %d problems", name, got, c.problems)
		}
	}
}

func TestTokensAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, letter := range []string{letterPersonal, letterSession, letterServiceAccount} {
		token := mint(letter)
		if !wellFormed(token) {
			t.Errorf("a token of kind %s is not well formed", letter)
		}
		if n := len(token.Reveal()); n != len("gpuaas_")+1+43 {
			t.Errorf("a token has %d characters", n)
		}
		if seen[token.Reveal()] {
			t.Error("the same token twice")
		}
		seen[token.Reveal()] = true
	}
	good := mint(letterPersonal).Reveal()
	for _, bad := range []string{
		"", "gpuaas_", "gpuaas_p", good[1:], good[:len(good)-1], good + "A", "gpuaas_x" + good[8:], strings.ToUpper(good),
		good[:len(good)-1] + "!", "Bearer " + good, good[:len(good)-1] + "=",
	} {
		if wellFormed(redact.New(bad)) {
			t.Errorf("%q passes for a token", bad)
		}
	}
}

func TestScopesOnlyNarrow(t *testing.T) {
	wide := &auth.Principal{}
	narrow := &auth.Principal{Scopes: []auth.Permission{auth.ProjectRead, auth.MemberRead}}
	for _, c := range []struct {
		asking *auth.Principal
		scopes []auth.Permission
		good   bool
	}{
		{wide, nil, true},
		{wide, []auth.Permission{auth.UserManage}, true},
		{narrow, []auth.Permission{auth.ProjectRead}, true},
		{narrow, []auth.Permission{auth.ProjectRead, auth.MemberRead}, true},
		{narrow, nil, false},
		{narrow, []auth.Permission{}, false},
		{narrow, []auth.Permission{auth.ProjectRead, auth.UserManage}, false},
	} {
		if err := checkScopes(c.asking, c.scopes); (err == nil) != c.good {
			t.Errorf("a token with scopes %v asks for %v: %v", c.asking.Scopes, c.scopes, err)
		}
	}
}

func TestTokenLimits(t *testing.T) {
	for _, c := range []struct {
		token NewToken
		good  bool
	}{
		{NewToken{Name: "x"}, true},
		{NewToken{Name: "x", Life: MinTokenLife}, true},
		{NewToken{Name: "x", Life: MaxTokenLife}, true},
		{NewToken{Name: "x", Life: MinTokenLife - 1}, false},
		{NewToken{Name: "x", Life: MaxTokenLife + 1}, false},
		{NewToken{Name: "x", Life: -time.Hour}, false},
		{NewToken{Name: ""}, false},
		{NewToken{Name: "x", Scopes: []auth.Permission{"project:read"}}, true},
		{NewToken{Name: "x", Scopes: []auth.Permission{"project:destroy"}}, false},
	} {
		if err := c.token.check(); (err == nil) != c.good {
			t.Errorf("%+v: %v", c.token, err)
		}
	}
}

func TestNobodyGivesMoreThanTheyHold(t *testing.T) {
	for _, c := range []struct {
		own, given auth.Role
		good       bool
	}{
		{auth.PlatformAdmin, auth.TenantAdmin, true},
		{auth.TenantAdmin, auth.TenantAdmin, true},
		{auth.TenantAdmin, auth.ProjectAdmin, true},
		{auth.ProjectAdmin, auth.ProjectAdmin, true},
		{auth.ProjectAdmin, auth.TenantAdmin, false},
		{auth.ProjectMember, auth.ProjectAdmin, false},
		{auth.ProjectMember, auth.ProjectViewer, true},
		{auth.ProjectViewer, auth.ProjectMember, false},
		{auth.Auditor, auth.ProjectAdmin, false},
		{auth.NoRole, auth.ProjectViewer, false},
	} {
		err := checkGrant(&auth.Principal{Platform: c.own}, auth.Target{}, c.given)
		if (err == nil) != c.good || err != nil && fault.CodeOf(err) != "role_above_own" {
			t.Errorf("%s gives %s: %v", c.own, c.given, err)
		}
	}
}

func TestLooseBooleans(t *testing.T) {
	for text, want := range map[string]bool{
		"true": true, `"true"`: true, "false": false, `"false"`: false, `"1"`: false,
		"1": false, "null": false, "{}": false,
	} {
		var b looseBool
		if err := json.Unmarshal([]byte(text), &b); err != nil || bool(b) != want {
			t.Errorf("%s reads as %v, %v", text, b, err)
		}
	}
}

func TestServiceAccountLifecycle(t *testing.T) {
	for _, err := range ServiceAccountLifecycle.Validate() {
		t.Error(err)
	}
}
