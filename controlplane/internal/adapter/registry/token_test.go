package registry_test

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/adapter/registry"
	"gpuaas/controlplane/internal/base/redact"
)

// office is a registry with a service of tokens, which knows one login.
type office struct {
	life  string // what it says of its tokens
	token string // what it answers with; empty: a token for what was asked for
	realm string // where it sends for them; empty: to itself
}

func (o office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/token":
		user, password, _ := r.BasicAuth()
		if user != "puller" || password != "canary" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		token := o.token
		if token == "" {
			token = "for " + r.URL.Query().Get("scope")
		}
		_, _ = fmt.Fprintf(w, `{"token":%q%s}`, token, o.life)
	case r.Header.Get("Authorization") == "Bearer for repository:team/llm:pull":
		says(w, manifest)
	case r.Header.Get("Authorization") != "":
		w.WriteHeader(http.StatusForbidden)
	default:
		realm := o.realm
		if realm == "" {
			realm = "https://" + r.Host + "/token"
		}
		w.Header().Add("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s",service="test",scope="%s"`, realm,
			"repository:team/llm:pull"))
		w.Header().Add("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// A token reads one repository, and says when it ends.
func TestATokenOfOneRepository(t *testing.T) {
	t.Parallel()
	c, host := serve(t, office{life: `,"expires_in":300`}.ServeHTTP)
	as := c.As("puller", redact.New("canary"))
	before := time.Now()
	token, expires, err := as.Token(t.Context(), host+"/team/llm", digestOf(manifest))
	if err != nil || token.Reveal() != "for repository:team/llm:pull" {
		t.Fatalf("%q: %v", token.Reveal(), err)
	}
	if left := expires.Sub(before); left < 290*time.Second || left > 310*time.Second {
		t.Errorf("it lives for %s", left)
	}
	_, body, err := as.Manifest(t.Context(), host+"/team/llm", digestOf(manifest))
	if err != nil || string(body) != manifest {
		t.Errorf("the manifest is not read with the login: %v", err)
	}
	_, _, err = as.Token(t.Context(), host+"/other/llm", digestOf(manifest))
	wantCode(t, "a repository that the login may not read", err, registry.CodeRefuses)
}

func TestNoToken(t *testing.T) {
	t.Parallel()
	login := func(c *registry.Client) *registry.Client { return c.As("puller", redact.New("canary")) }
	nobody := func(c *registry.Client) *registry.Client { return c }
	other := func(c *registry.Client) *registry.Client { return c.As("x", redact.New("y")) }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		as     func(*registry.Client) *registry.Client
		code   string
	}{
		"nobody's login":          {office{}.ServeHTTP, nobody, registry.CodeRefuses},
		"another login":           {office{}.ServeHTTP, other, registry.CodeRefuses},
		"tokens of a day":         {office{life: `,"expires_in":86400`}.ServeHTTP, login, registry.CodeLongTokens},
		"the password as a token": {office{token: "the-password-is-canary"}.ServeHTTP, login, registry.CodeNoTokens},
		"and in another form": {office{
			token: base64.StdEncoding.EncodeToString([]byte("puller:canary!!")),
		}.ServeHTTP, login, registry.CodeNoTokens},
		"a word": {office{token: "succeeded"}.ServeHTTP, login, registry.CodeNoTokens},
		"a token that says that it lives for a day": {office{
			token: "x." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":4102444800}`)) + ".x",
		}.ServeHTTP, login, registry.CodeLongTokens},
		"tokens without TLS":  {office{realm: "http://127.0.0.1/token"}.ServeHTTP, login, registry.CodeNoTokens},
		"a realm with a user": {office{realm: "https://canary@127.0.0.1/token"}.ServeHTTP, login, registry.CodeNoTokens},
		"passwords only": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, login, registry.CodeNoTokens},
		"no such manifest": {http.NotFound, login, registry.CodeMissing},
		"out of order": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
		}, login, registry.CodeUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, host := serve(t, c.answer)
			token, _, err := c.as(client).Token(t.Context(), host+"/team/llm", digestOf(manifest))
			wantCode(t, name, err, c.code)
			if !token.IsZero() || err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("a secret in %v", err)
			}
		})
	}
}

// A registry that asks nobody for a token gives none, which is no failure.
func TestARegistryForEverybodyNeedsNoToken(t *testing.T) {
	t.Parallel()
	c, host := serve(t, func(w http.ResponseWriter, _ *http.Request) { says(w, manifest) })
	token, expires, err := c.Token(t.Context(), host+"/team/llm", digestOf(manifest))
	if err != nil || !token.IsZero() || !expires.After(time.Now()) {
		t.Errorf("%v until %s", err, expires)
	}
}

// A registry in the networks of the platform cannot have its login shown to whatever it
// names there.
func TestAttackARegistryHasALoginShownInOurNetworks(t *testing.T) {
	t.Parallel()
	thief := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked with %q", r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(thief.Close)
	s := httptest.NewTLSServer(office{realm: thief.URL + "/token"})
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := registry.New(registry.Config{Guard: loopback(), Roots: roots}).As("puller", redact.New("canary"))
	repository := strings.TrimPrefix(s.URL, "https://") + "/team/llm"
	_, _, err := c.Token(t.Context(), repository, digestOf(manifest))
	wantCode(t, "a realm elsewhere", err, registry.CodeUnreachable)
	closed := registry.New(registry.Config{Guard: guard.Config{}, Roots: roots}).As("puller", redact.New("canary"))
	_, _, err = closed.Token(t.Context(), repository, digestOf(manifest))
	wantCode(t, "a registry in our networks", err, registry.CodeAddressRefused)
}
