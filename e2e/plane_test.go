package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/stack"
	"gpuaas/testkit"
)

// planeOptions say how a control plane is run; the zero value does all roles,
// migrates, and waits until it is ready.
type planeOptions struct {
	roles   string
	token   string   // of an administrator who exists already
	env     []string // settings beside those of the engines
	waiting bool     // do not wait until it is ready, nor make an administrator
}

// plane is a running control plane.
type plane struct {
	*process
	url   string
	token string
	env   []string
	http  *http.Client
}

// startPlane runs gpuaas serve against engines. It is stopped in order at the
// end of the test.
func startPlane(t *testing.T, engines stack.Endpoints, o planeOptions) *plane {
	t.Helper()
	address := freeAddress(t)
	env := append(settingsFor(t, engines), "GPUAAS_LISTEN="+address)
	if o.roles != "" {
		env = append(env, "GPUAAS_ROLES="+o.roles)
	}
	env = append(env, o.env...)
	p := &plane{url: "http://" + address, token: o.token, env: env, http: newHTTP()}
	p.process = begin(t, env, "serve")
	t.Cleanup(func() {
		select {
		case <-p.exited: // the test ended it, one way or the other
		default:
			p.end(t, syscall.SIGTERM)
		}
	})
	if o.waiting {
		return p
	}
	p.awaitReady(t)
	if p.token == "" {
		p.token = strings.TrimSpace(succeed(t, env, "admin", "bootstrap"))
	}
	return p
}

// settingsFor names the engines as an operator would: secrets in files that
// only their owner can read.
func settingsFor(t *testing.T, e stack.Endpoints) []string {
	t.Helper()
	dir := t.TempDir()
	return []string{
		"GPUAAS_POSTGRES_URL_FILE=" + privateFile(t, dir, "url", e.PostgresURL),
		"GPUAAS_POSTGRES_MIGRATE_URL_FILE=" + privateFile(t, dir, "migrate-url", e.PostgresMigrateURL),
		"GPUAAS_POSTGRES_MIGRATE_ON_START=true",
		"GPUAAS_TEMPORAL_ADDRESS=" + e.TemporalAddress, "GPUAAS_TEMPORAL_NAMESPACE=" + e.TemporalNamespace,
		"GPUAAS_TEMPORAL_CA_FILE=" + e.TemporalCAFile, "GPUAAS_TEMPORAL_CERT_FILE=" + e.TemporalCertFile,
		"GPUAAS_TEMPORAL_KEY_FILE=" + e.TemporalKeyFile,
		"GPUAAS_NATS_URL=" + e.NATSURL, "GPUAAS_NATS_TOKEN_FILE=" + e.NATSTokenFile,
		"GPUAAS_SECRETS_ADDRESS=" + e.SecretsAddress,
		"GPUAAS_SECRETS_API_ROLE_ID_FILE=" + e.SecretsAPI.RoleIDFile,
		"GPUAAS_SECRETS_API_SECRET_ID_FILE=" + e.SecretsAPI.SecretIDFile,
		"GPUAAS_SECRETS_NODES_ROLE_ID_FILE=" + e.SecretsNodes.RoleIDFile,
		"GPUAAS_SECRETS_NODES_SECRET_ID_FILE=" + e.SecretsNodes.SecretIDFile,
		"GPUAAS_SECRETS_WORKER_ROLE_ID_FILE=" + e.SecretsWorker.RoleIDFile,
		"GPUAAS_SECRETS_WORKER_SECRET_ID_FILE=" + e.SecretsWorker.SecretIDFile,
	}
}

// onLoopback lets sites lead to a MAAS of the test, which is on this machine.
func onLoopback(t *testing.T, maasURLs ...string) string {
	t.Helper()
	hosts := make([]string, len(maasURLs))
	for i, maasURL := range maasURLs {
		u, err := url.Parse(maasURL)
		if err != nil {
			t.Fatal(err)
		}
		hosts[i] = u.Host
	}
	return "GPUAAS_SITES_LOOPBACK=" + strings.Join(hosts, ",")
}

func privateFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// givenAway are the ports that a test got already.
var givenAway sync.Map

// freeAddress picks a port below those that the kernel and the engines use, so
// that nobody takes it before the program does, and never the same one twice: a
// program that is being restarted gets its port back.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 200 {
		port := 10_000 + rand.IntN(6_000)
		if _, taken := givenAway.LoadOrStore(port, true); taken {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("found no free port")
	return ""
}

func newHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: time.Minute}
}

// cli is the environment of commands that talk to the plane as its administrator.
func (p *plane) cli(t testing.TB) []string {
	return []string{"XDG_CONFIG_HOME=" + t.TempDir(), "GPUAAS_URL=" + p.url, "GPUAAS_TOKEN=" + p.token}
}

// awaitReady waits until everything the plane needs has answered.
func (p *plane) awaitReady(t testing.TB) {
	t.Helper()
	testkit.Succeeds(t, "the control plane to be ready", time.Minute, func() error {
		select {
		case <-p.exited:
			t.Fatalf("the control plane ended: %v", p.err)
		default:
		}
		status, down, err := p.readiness(t.Context())
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d, down: %v", status, down)
		}
		return err
	})
}

// readiness is the status of /readyz and, by name, the codes of what is down.
func (p *plane) readiness(ctx context.Context) (status int, down map[string]string, err error) {
	a, err := p.call(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return 0, nil, err
	}
	var body struct {
		Dependencies map[string]struct {
			Up   bool   `json:"up"`
			Code string `json:"code"`
		} `json:"dependencies"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		return a.status, nil, fmt.Errorf("read /readyz: %w", err)
	}
	down = map[string]string{}
	for name, d := range body.Dependencies {
		if !d.Up {
			down[name] = d.Code
		}
	}
	return a.status, down, nil
}

// answer is what the API said.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	problem apiclient.Problem // of a refusal
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s", a.status, bytes.TrimSpace(a.body[:min(len(a.body), 600)]))
}

// header of a request, name and value.
type header [2]string

// call sends one request, once, as the administrator. A body that is not bytes
// is sent as JSON.
func (p *plane) call(ctx context.Context, method, path string, body any, headers ...header) (answer, error) {
	var content []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		content = b
	default:
		var err error
		if content, err = json.Marshal(body); err != nil {
			return answer{}, fmt.Errorf("encode request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(content))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		if h[1] == "" {
			req.Header.Del(h[0])
			continue
		}
		req.Header.Set(h[0], h[1])
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("call %s %s: %w", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	if a.status >= http.StatusBadRequest {
		_ = json.Unmarshal(a.body, &a.problem) // whether it is one is for the test to say
	}
	return a, nil
}

// do is a call that must be answered with a status, and read into out.
func (p *plane) do(t testing.TB, method, path string, body any, want int, out any, headers ...header) answer {
	t.Helper()
	a, err := p.call(t.Context(), method, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	if a.status != want {
		t.Fatalf("%s %s: %s, want status %d", method, path, a, want)
	}
	if out != nil {
		if err := json.Unmarshal(a.body, out); err != nil {
			t.Fatalf("read answer of %s %s: %v", method, path, err)
		}
	}
	return a
}

// refused expects a status and a code.
func (p *plane) refused(ctx context.Context, method, path string, body any, status int, code string) error {
	a, err := p.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	if a.status != status || a.problem.Code != code {
		return fmt.Errorf("%s %s: %s, want %d %s", method, path, a, status, code)
	}
	return nil
}

// all reads every page of a list.
func all[T any](t testing.TB, p *plane, path string) []T {
	t.Helper()
	joint := "?"
	if strings.Contains(path, "?") {
		joint = "&"
	}
	var items []T
	for cursor := ""; ; {
		var page struct {
			Items      []T    `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		p.do(t, http.MethodGet, path+joint+"page_size=200"+cursor, nil, http.StatusOK, &page)
		items = append(items, page.Items...)
		if page.NextCursor == "" {
			return items
		}
		cursor = "&cursor=" + page.NextCursor
	}
}
