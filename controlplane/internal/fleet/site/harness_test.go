package site_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/stack/stacktest"
)

// Canaries: none of them may appear anywhere but in the secrets engine.
const (
	goodToken      = "canaryconsumer0001:canarytoken0000001:canarysecretcanarysecret00000001"
	powerPass      = "canary-bmc-password"
	deployPassword = "canary-deploy-password"
	overridePass   = "canary-override-password"
)

// world is a control plane with nothing but sites in it.
type world struct {
	db      *postgres.DB
	owner   *postgres.DB
	vault   *vault
	service *site.Service
	api     *httpapi.API
	maas    *region
	logs    *locked
	strict  atomic.Bool // as in production: no region is on this machine
}

func (w *world) onLoopback(netip.AddrPort) bool { return !w.strict.Load() }

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{maas: newRegion(tb), logs: &locked{}}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.vault = &vault{SecretStore: openBao(tb)}
	logger := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.service = site.New(site.Config{
		DB: w.db, Secrets: w.vault, FingerprintRounds: 1,
		Regions: &site.MAAS{Loopback: w.onLoopback},
	})
	w.api = httpapitest.New(w.db, func(c *httpapi.Config) { c.Logger = logger })
	w.service.Register(w.api)
	return w
}

func openBao(tb testing.TB) *secrets.Engine {
	tb.Helper()
	bao := stacktest.Bao(tb)
	e, err := secrets.Open(secrets.Config{
		Address: bao.Address, RoleIDFile: bao.RoleIDFile, SecretIDFile: bao.SecretIDFile,
		KVMount: "gpuaas-kv",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// vault is the secrets engine, with failures and interruptions of the test's choice.
type vault struct {
	site.SecretStore
	mu      sync.Mutex
	failure error
	after   func() // runs once, after the next write
}

func (v *vault) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failure = err
}

func (v *vault) broken() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failure
}

func (v *vault) Put(ctx context.Context, path string, values map[string]redact.Secret) error {
	if err := v.broken(); err != nil {
		return err
	}
	err := v.SecretStore.Put(ctx, path, values)
	v.mu.Lock()
	after := v.after
	v.after = nil
	v.mu.Unlock()
	if after != nil {
		after()
	}
	return err
}

func (v *vault) Get(ctx context.Context, path string) (map[string]redact.Secret, error) {
	if err := v.broken(); err != nil {
		return nil, err
	}
	return v.SecretStore.Get(ctx, path)
}

func (v *vault) Delete(ctx context.Context, path string) error {
	if err := v.broken(); err != nil {
		return err
	}
	return v.SecretStore.Delete(ctx, path)
}

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// region plays a MAAS region: what MAAS 3.7 was seen to answer, by path and op.
type region struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   []string
}

func newRegion(tb testing.TB) *region {
	tb.Helper()
	r := &region{answers: map[string]http.HandlerFunc{}}
	r.say("version/", 200, `{"version": "3.7.3", "subversion": "", "capabilities": ["networks-management"]}`)
	r.say("users/ whoami", 200,
		`{"username": "admin", "email": "a@example.com", "is_superuser": true, "is_local": true, "resource_uri": "/MAAS/api/2.0/users/admin/"}`)
	r.say("rackcontrollers/", 200,
		`[{"system_id": "abc123", "hostname": "rack1", "service_set": [{"name": "rackd", "status": "running", "status_info": ""}], "version": "3.7.3", `+
			`"interface_set": [{"id": 1, "name": "ens19", "vlan": {"id": 5001, "vid": 46, "dhcp_on": true, "secondary_rack": null}}]}]`)
	r.say("boot-resources/", 200,
		`[{"id": 1, "type": "Synced", "name": "ubuntu/noble", "architecture": "amd64/ga-24.04"}]`)
	r.say("maas/ get_config hardware_sync_interval", 200, `"15m"`)
	r.say("maas/ get_config upstream_dns", 200, `"1.1.1.1 8.8.8.8"`)
	r.Server = httptest.NewServer(r)
	tb.Cleanup(r.Close)
	return r
}

func (r *region) on(key string, h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[key] = h
}

func (r *region) say(key string, status int, body string) {
	r.on(key, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (r *region) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	key := strings.TrimSpace(strings.TrimPrefix(q.URL.Path, "/MAAS/api/2.0/") + " " + q.URL.Query().Get("op"))
	if name := q.URL.Query().Get("name"); name != "" {
		key += " " + name
	}
	r.mu.Lock()
	answer := r.answers[key]
	r.asked = append(r.asked, key+" "+q.Header.Get("Authorization"))
	r.mu.Unlock()
	_, token, _ := strings.Cut(goodToken, ":")
	_, secret, _ := strings.Cut(token, ":")
	switch {
	case key != "version/" && !strings.Contains(q.Header.Get("Authorization"), `"%26`+secret+`"`):
		w.Header().Set("WWW-Authenticate", `OAuth realm="OAuth"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "Authorization Error: 'Invalid signature. Expected signature base string: "+secret+"'")
	case answer == nil:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "Unknown API endpoint: "+q.URL.Path+".")
	default:
		answer(w, q)
	}
}

func (r *region) calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.asked...)
}

// call sends one request as the platform administrator.
func (w *world) call(tb testing.TB, method, path, ifMatch string, body any) httpapitest.Answer {
	tb.Helper()
	return w.callAs(tb, httpapitest.Root, method, path, ifMatch, body)
}

func (w *world) callAs(tb testing.TB, token, method, path, ifMatch string, body any) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{
		As: token, Method: method, Path: sites + path, IfMatch: ifMatch, Body: body,
	})
}

const sites = "/api/v1/admin/maas-sites"

type object = map[string]any

func (w *world) body(name string) object {
	return object{
		"name": name, "region_code": "eu-1", "api_base_url": w.maas.URL, "pxe_iface": "ens19", "pxe_vlan_vid": 46,
		"node_pxe_iface": "eno8303",
	}
}

// site makes a site over the API; path leads to it.
func (w *world) site(tb testing.TB, name string) (v site.View, path string) {
	tb.Helper()
	a := w.call(tb, http.MethodPost, "", "", w.body(name))
	if a.Status != http.StatusCreated {
		tb.Fatalf("create answers %d %s", a.Status, a.Body)
	}
	a.Decode(tb, &v)
	return v, "/" + v.SiteID.String()
}

func (w *world) credentials(tb testing.TB, path string) site.View {
	tb.Helper()
	a := w.call(tb, http.MethodPost, path+"/credentials", "", object{
		"api_token": goodToken, "power": object{"user": "root", "pass": powerPass}, "deploy_password": deployPassword,
	})
	if a.Status != http.StatusOK {
		tb.Fatalf("credentials answer %d %s", a.Status, a.Body)
	}
	var v site.View
	a.Decode(tb, &v)
	return v
}

func (w *world) rows(tb testing.TB, query string, args ...any) (n int64) {
	tb.Helper()
	if err := w.db.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func system(tb testing.TB) context.Context {
	tb.Helper()
	return auth.With(telemetry.WithCorrelation(tb.Context(), "test"), auth.System("test"))
}

// stored is what the secrets engine holds under a path; nil when nothing.
func (w *world) stored(tb testing.TB, path string) map[string]redact.Secret {
	tb.Helper()
	values, err := w.vault.SecretStore.Get(tb.Context(), path)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		tb.Fatal(err)
	}
	return values
}

func recent(at *time.Time) bool { return at != nil && time.Since(*at).Abs() < time.Minute }
