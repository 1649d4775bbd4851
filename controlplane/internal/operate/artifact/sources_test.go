package artifact_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/adapter/registry"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/operate/policy"
)

// safe keeps secrets in memory.
type safe struct {
	mu   sync.Mutex
	kept map[string]map[string]redact.Secret
}

func (s *safe) Put(_ context.Context, path string, values map[string]redact.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string]map[string]redact.Secret{}
	}
	s.kept[path] = values
	return nil
}

func (s *safe) Get(_ context.Context, path string) (map[string]redact.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, there := s.kept[path]
	if !there {
		return nil, fault.New(fault.NotFound, "secret_not_found", "nothing is kept there")
	}
	return values, nil
}

func (s *safe) Delete(_ context.Context, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, path)
	return nil
}

// stores answer with what they were asked for.
type stores struct{}

func (*stores) Sign(_ context.Context, address, region string, key artifact.Login, _ time.Time, life time.Duration) (
	redact.Secret, error,
) {
	return redact.New(fmt.Sprintf("%s signed for %s by %s/%s in %s", address, life, key.User, key.Password.Reveal(),
		region)), nil
}

func (*stores) Resolve(_ context.Context, address, _ string, token redact.Secret) (redact.Secret, error) {
	return redact.New(address + " with " + token.Reveal()), nil
}

const weights = "https://models.example/team/w.bin"

func (w *world) source(org id.Org, kind artifact.SourceKind, reach, secret string, shared bool) artifact.Source {
	w.t.Helper()
	wish := artifact.SourceWish{Name: "s", Kind: kind, Reach: reach, Secret: redact.New(secret), Shared: shared}
	if kind != artifact.SourceHuggingFace && secret != "" {
		wish.Login = "me"
	}
	if kind == artifact.SourceS3 {
		wish.Region = "eu-central-1"
	}
	made, err := w.service.AddSource(w.ctx, org, wish)
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

func (w *world) file(by artifact.Owner, at string) string {
	w.t.Helper()
	digest := digestOf([]byte(at))
	if _, err := w.service.Register(w.ctx, by, artifact.Wish{
		Name: "w", Kind: artifact.HTTPS, Source: at, Digest: digest, Size: 1,
	}); err != nil {
		w.t.Fatal(err)
	}
	return digest
}

// What is read with a login, and with whose: only what was registered, and with the login of
// whoever registered it, or one that a level above shares.
func TestWhoseLoginReadsWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	platform, tenant, project := artifact.Owner{}, artifact.Owner{Org: w.acme.Org}, artifact.Owner(w.acme)
	const models = "https://models.example"
	w.source(id.Org{}, artifact.SourceS3, "https://models.example/platform", "of-platform", false)
	w.source(id.Org{}, artifact.SourceS3, "https://models.example", "of-platform-for-all", true)
	w.source(w.acme.Org, artifact.SourceS3, "https://models.example/tenant", "of-tenant", false)
	w.source(w.acme.Org, artifact.SourceS3, "https://models.example/team", "of-tenant-for-projects", true)
	for name, c := range map[string]struct {
		at    string
		by    artifact.Owner
		run   policy.Owner
		login string // empty: none
	}{
		"the platform's, by the platform's":       {models + "/platform/1", platform, policy.Owner{}, "of-platform"},
		"the platform's, in a project's run":      {models + "/platform/2", platform, w.acme, "of-platform"},
		"a project's where only the platform may": {models + "/platform/3", project, w.acme, "of-platform-for-all"},
		"a tenant's, by its own":                  {models + "/tenant/1", tenant, w.acme, "of-tenant"},
		"a project's where only its tenant may":   {models + "/tenant/2", project, w.acme, "of-platform-for-all"},
		"a project's, where its tenant shares":    {models + "/team/1", project, w.acme, "of-tenant-for-projects"},
		"a project's in another tenant's run":     {models + "/team/2", project, policy.Owner{Org: w.other}, ""},
		"beside the reach":                        {models + "/teammate/1", project, w.acme, "of-platform-for-all"},
	} {
		g, err := w.service.Grant(w.ctx, c.run, c.at, w.file(c.by, c.at))
		if c.login == "" {
			wantCode(t, name, err, "artifact_not_registered")
			continue
		}
		if got := g.Values["url"].Reveal(); err != nil || !strings.Contains(got, " by me/"+c.login+" in eu-central-1") {
			t.Errorf("%s: %q: %v", name, got, err)
		}
		if rest := time.Until(g.ExpiresAt); rest <= 0 || rest > 15*time.Minute {
			t.Errorf("%s: for %s", name, rest)
		}
	}
	_, err := w.service.Grant(w.ctx, w.acme, weights, digestOf(nil))
	wantCode(t, "what nobody registered", err, "artifact_not_registered")
	digest := w.file(project, weights)
	_, err = w.service.Grant(w.ctx, w.acme, weights, digestOf(nil))
	wantCode(t, "another digest", err, "artifact_not_registered")
	w.exec(`UPDATE artifacts SET status = 'revoked' WHERE source = $1`, weights)
	_, err = w.service.Grant(w.ctx, w.acme, weights, digest)
	wantCode(t, "what was revoked", err, "artifact_not_registered")
	w.exec(`DELETE FROM artifact_sources WHERE org_id IS NULL`)
	const left = models + "/tenant/2"
	_, err = w.service.Grant(w.ctx, w.acme, left, digestOf([]byte(left)))
	wantCode(t, "what no source reaches", err, "artifact_source_missing")
}

// A registry that lets nobody in without a login is read with that of whoever registers, and
// nodes get a token of the registry.
func TestAPrivateRegistryIsReadWithALogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	gate := w.private(t)
	digest := w.push("team/llm", "weights")
	reference := gate.host + "/team/llm@" + digest
	w.exec(`UPDATE operation_policy_overrides SET allowed_artifact_sources = $1`, []string{gate.host})
	project := artifact.Owner(w.acme)
	wish := artifact.Wish{Name: "llm", Kind: artifact.OCI, Source: reference}
	_, err := w.service.Register(w.ctx, project, wish)
	wantCode(t, "without a login", err, "registry_refuses")
	made := w.source(w.acme.Org, artifact.SourceRegistry, gate.host+"/team", "wrong", true)
	_, err = w.service.Register(w.ctx, project, wish)
	wantCode(t, "with a wrong one", err, "registry_refuses")
	if _, err := w.service.RotateSource(w.ctx, w.acme.Org, made.ID, "me", redact.New("canary")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Register(w.ctx, project, wish); err != nil {
		t.Fatal(err)
	}
	g, err := w.service.Grant(w.ctx, w.acme, "https://"+reference, digest)
	if err != nil || g.Values["token"].Reveal() != gate.token {
		t.Errorf("%v: %v", g, err)
	}
}

// Secrets are in the secrets engine only, and leave it with their source.
func TestSecretsOfSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	made := w.source(w.acme.Org, artifact.SourceS3, "https://models.example/team", "canary-1", false)
	if n := len(w.secrets.kept); n != 1 {
		t.Fatalf("%d secrets are kept", n)
	}
	if _, err := w.service.RotateSource(w.ctx, w.acme.Org, made.ID, "other", redact.New("canary-2")); err != nil {
		t.Fatal(err)
	}
	var rows string
	if err := w.owner.QueryRow(w.ctx, `SELECT (SELECT string_agg(s::text, '') FROM artifact_sources s) ||
		(SELECT string_agg(a::text, '') FROM audit_logs a) || coalesce((SELECT string_agg(o::text, '') FROM outbox_events o), '')`,
	).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(rows, "canary") || !strings.Contains(rows, "other") {
		t.Error("a secret is in a row, or nothing was looked at")
	}
	for name, org := range map[string]id.Org{"another tenant": w.other, "the platform": {}} {
		_, err := w.service.RotateSource(w.ctx, org, made.ID, "x", redact.New("y"))
		wantCode(t, name, err, "artifact_source_not_found")
		wantCode(t, name, w.service.DeleteSource(w.ctx, org, made.ID), "artifact_source_not_found")
		listed, err := w.service.ListSources(w.ctx, org, postgres.Slice[id.ArtifactSource]{Limit: 10})
		if err != nil || len(listed) > 0 {
			t.Errorf("%s sees %v: %v", name, listed, err)
		}
	}
	if err := w.service.DeleteSource(w.ctx, w.acme.Org, made.ID); err != nil || len(w.secrets.kept) > 0 {
		t.Errorf("%d secrets are kept: %v", len(w.secrets.kept), err)
	}
}

func TestSourcesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	const reach = "https://models.example/team"
	good := artifact.SourceWish{
		Name: "s", Kind: artifact.SourceS3, Reach: reach, Login: "me", Secret: redact.New("canary"), Region: "eu-central-1",
	}
	for name, change := range map[string]func(*artifact.SourceWish){
		"no name":                  func(s *artifact.SourceWish) { s.Name = " " },
		"no TLS":                   func(s *artifact.SourceWish) { s.Reach = "http://models.example/team" },
		"a user in the address":    func(s *artifact.SourceWish) { s.Reach = "https://canary@models.example/team" },
		"a query":                  func(s *artifact.SourceWish) { s.Reach = reach + "?x=canary" },
		"no address":               func(s *artifact.SourceWish) { s.Reach = "models.example" },
		"no region":                func(s *artifact.SourceWish) { s.Region = "" },
		"no key":                   func(s *artifact.SourceWish) { s.Secret = redact.Secret{} },
		"two lines":                func(s *artifact.SourceWish) { s.Secret = redact.New("canary\nx") },
		"a colon":                  func(s *artifact.SourceWish) { s.Login = "me:canary" },
		"a login for the hub":      func(s *artifact.SourceWish) { s.Kind, s.Region = artifact.SourceHuggingFace, "" },
		"an address of a registry": func(s *artifact.SourceWish) { s.Kind, s.Region = artifact.SourceRegistry, "" },
		"a user without password": func(s *artifact.SourceWish) {
			s.Kind, s.Region, s.Reach, s.Secret = artifact.SourceRegistry, "", "registry.example", redact.Secret{}
		},
	} {
		wish := good
		change(&wish)
		_, err := w.service.AddSource(w.ctx, w.acme.Org, wish)
		wantCode(t, name, err, "artifact_source_invalid")
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: a secret in %v", name, err)
		}
	}
	if _, err := w.service.AddSource(w.ctx, w.acme.Org, good); err != nil {
		t.Fatal(err)
	}
	_, err := w.service.AddSource(w.ctx, w.acme.Org, good)
	wantCode(t, "twice", err, "artifact_source_exists")
	if _, err := w.service.AddSource(w.ctx, id.Org{}, good); err != nil {
		t.Errorf("another owner: %v", err)
	}
	for i := range 63 {
		good.Reach = fmt.Sprintf("%s%d", reach, i)
		if _, err := w.service.AddSource(w.ctx, w.acme.Org, good); err != nil {
			t.Fatal(err)
		}
	}
	good.Reach += "x"
	_, err = w.service.AddSource(w.ctx, w.acme.Org, good)
	wantCode(t, "one too many", err, "artifact_sources_too_many")
}

// gate lets nobody into the registry of the world without the login me:canary.
type gate struct{ host, token string }

func (w *world) private(t *testing.T) gate {
	t.Helper()
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: w.host})
		r.Out.Header.Del("Authorization")
	}}
	g := gate{token: "token-of-the-registry"}
	s := httptest.NewTLSServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/token" && user == "me" && password == "canary":
			_, _ = fmt.Fprintf(answer, `{"token":%q,"expires_in":300}`, g.token)
		case r.Header.Get("Authorization") == "Bearer "+g.token:
			behind.ServeHTTP(answer, r)
		default:
			answer.Header().Set("WWW-Authenticate", `Bearer realm="https://`+r.Host+`/token",service="s",scope="x"`)
			answer.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	w.service = w.with(registry.Config{
		Guard: guard.Config{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Roots: roots,
	})
	g.host = strings.TrimPrefix(s.URL, "https://")
	return g
}
