package registry_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/adapter/registry"
	"gpuaas/controlplane/internal/base/fault"
)

const manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// serve starts a registry with TLS, and a client that may call it.
func serve(t *testing.T, answer http.HandlerFunc) (*registry.Client, string) {
	t.Helper()
	s := httptest.NewTLSServer(answer)
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return registry.New(registry.Config{Guard: loopback(), Roots: roots}), strings.TrimPrefix(s.URL, "https://")
}

func loopback() guard.Config {
	return guard.Config{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func says(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	w.Header().Set("Docker-Content-Digest", digestOf(manifest))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write([]byte(body))
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// Many registries want a token from everybody, and give one to everybody.
func TestATokenForEverybody(t *testing.T) {
	t.Parallel()
	var tokens atomic.Int32
	c, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			if user, _, given := r.BasicAuth(); given {
				t.Errorf("the service of tokens is told a login: %s", user)
			}
			tokens.Add(1)
			_, _ = w.Write([]byte(`{"token":"for-everybody"}`))
		case r.Header.Get("Authorization") == "Bearer for-everybody":
			says(w, manifest)
		default:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(
				`Bearer realm="https://%s/token",service="test",scope="repository:team/llm:pull"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	mediaType, body, err := c.Manifest(t.Context(), host+"/team/llm", digestOf(manifest))
	if err != nil || string(body) != manifest || !strings.Contains(mediaType, "manifest") || tokens.Load() != 1 {
		t.Errorf("%s %q, %d tokens: %v", mediaType, body, tokens.Load(), err)
	}
}

// Whatever a registry answers, it is compared, bounded, and told in words of ours.
func TestAttackARegistryAnswersWhatWasNotAskedFor(t *testing.T) {
	t.Parallel()
	const secret = "a text of the registry"
	for what, row := range map[string]struct {
		answer http.HandlerFunc
		code   string
	}{
		"other bytes": {func(w http.ResponseWriter, _ *http.Request) { says(w, manifest+" ") }, registry.CodeWrongDigest},
		"too many bytes": {func(w http.ResponseWriter, _ *http.Request) {
			says(w, strings.Repeat("a", 5<<20))
		}, registry.CodeTooLarge},
		"a login": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, registry.CodeRefuses},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, secret, http.StatusForbidden)
		}, registry.CodeRefuses},
		"missing": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, secret, http.StatusNotFound)
		}, registry.CodeMissing},
		"broken": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, secret, http.StatusInternalServerError)
		}, registry.CodeUnreachable},
		"sent to plain http": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+r.Host+"/elsewhere", http.StatusTemporaryRedirect)
		}, registry.CodeUnreachable},
		"sent to plain http for a token": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
		}, registry.CodeUnreachable},
		"sent for a token into our networks": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://10.0.0.1/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, registry.CodeUnreachable},
		"sent around": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}, registry.CodeUnreachable},
		"sent into our networks": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254/", http.StatusTemporaryRedirect)
		}, registry.CodeUnreachable},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, host := serve(t, row.answer)
			_, _, err := c.Manifest(t.Context(), host+"/team/llm", digestOf(manifest))
			wantCode(t, what, err, row.code)
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("a text of the registry is repeated: %v", err)
			}
		})
	}
}

// A registry may send elsewhere for bytes, and the token is not told there.
func TestAttackATokenGoesNowhereElse(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	c, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_, _ = w.Write([]byte(`{"token":"for-everybody"}`))
		case r.URL.Path == "/bytes":
			if r.Header.Get("Authorization") != "" {
				told.Add(1)
			}
			_, _ = w.Write([]byte("weights"))
		case r.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token",service="test"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.Redirect(w, r, "/bytes", http.StatusTemporaryRedirect)
		}
	})
	body, err := c.Blob(t.Context(), host+"/team/llm", digestOf("weights"), 100)
	if err != nil || string(body) != "weights" || told.Load() != 0 {
		t.Errorf("%q, told %d times: %v", body, told.Load(), err)
	}
	_, err = c.Blob(t.Context(), host+"/team/llm", digestOf("weights"), 3)
	wantCode(t, "more than asked for", err, registry.CodeTooLarge)
}

// A network that holds a registry is open to that registry, and to no host that it names,
// unless the platform names that host too.
func TestAttackARegistrySendsIntoAnAllowedNetwork(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		says(w, manifest)
	}))
	t.Cleanup(other.Close)
	elsewhere := strings.TrimPrefix(other.URL, "https://")
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/v2/", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	roots.AddCert(other.Certificate())
	host := strings.TrimPrefix(s.URL, "https://")
	read := func(cfg registry.Config) error {
		cfg.Guard, cfg.Roots = loopback(), roots
		_, _, err := registry.New(cfg).Manifest(t.Context(), host+"/team/llm", digestOf(manifest))
		return err
	}
	wantCode(t, "not named", read(registry.Config{}), registry.CodeUnreachable)
	if asked.Load() != 0 {
		t.Error("a host that only the registry named was asked")
	}
	if err := read(registry.Config{SendTo: []string{elsewhere}}); err != nil {
		t.Errorf("named by the platform: %v", err)
	}
}

// Without TLS a registry is asked only where the platform says so.
func TestPlainHTTPWhereThePlatformSaysSo(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { says(w, manifest) }))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	c := registry.New(registry.Config{Guard: loopback()})
	_, _, err := c.Manifest(t.Context(), host+"/team/llm", digestOf(manifest))
	wantCode(t, "not named", err, registry.CodeUnreachable)
	c = registry.New(registry.Config{Guard: loopback(), PlainHTTP: []string{host}})
	if _, _, err := c.Manifest(t.Context(), host+"/team/llm", digestOf(manifest)); err != nil {
		t.Error(err)
	}
}
