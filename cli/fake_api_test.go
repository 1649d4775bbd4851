package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"gpuaas/cli/internal/frame"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	canary    = "canary-token-7f3a91"
	orgID     = "0190b2f4-7c1e-7d3a-8f5b-000000000001"
	projectID = "0190b2f4-7c1e-7d3a-8f5b-000000000002"
	userID    = "0190b2f4-7c1e-7d3a-8f5b-000000000003"
	accountID = "0190b2f4-7c1e-7d3a-8f5b-000000000004"
	tokenID   = "0190b2f4-7c1e-7d3a-8f5b-000000000005"
	eventID   = "0190b2f4-7c1e-7d3a-8f5b-000000000006"
	checkID   = "0190b2f4-7c1e-7d3a-8f5b-000000000007"

	siteID       = "0190b2f4-7c1e-7d3a-8f5b-000000000008"
	profileID    = "0190b2f4-7c1e-7d3a-8f5b-000000000009"
	overrideID   = "0190b2f4-7c1e-7d3a-8f5b-00000000000a"
	assignmentID = "0190b2f4-7c1e-7d3a-8f5b-00000000000b"
)

// now is the time that tests happen at: three minutes after what the fake answers say.
func now() time.Time { return time.Date(2026, 3, 4, 5, 9, 7, 0, time.UTC) }

// route is one operation of the contract.
type route struct {
	id, method string
	parts      []string
}

// contractRoutes are the operations that there are.
func contractRoutes(t testing.TB) []route {
	t.Helper()
	routes, err := readRoutes()
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// readRoutes reads the contract, once for all tests: it is long.
var readRoutes = sync.OnceValues(func() ([]route, error) {
	text, err := os.ReadFile("../contract/openapi.yaml")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `yaml:"operationId"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	var out []route
	for path, methods := range doc.Paths {
		for method, op := range methods {
			out = append(out, route{id: op.OperationID, method: strings.ToUpper(method), parts: strings.Split(path, "/")})
		}
	}
	// A path that is spelled out comes before one with a parameter in its place.
	slices.SortStableFunc(out, func(a, b route) int { return a.parameters() - b.parameters() })
	return out, nil
})

func (r route) parameters() (n int) {
	for _, p := range r.parts {
		if strings.HasPrefix(p, "{") {
			n++
		}
	}
	return n
}

func (r route) matches(req *http.Request) bool {
	parts := strings.Split(req.URL.Path, "/")
	return r.method == req.Method && len(parts) == len(r.parts) && !slices.ContainsFunc(r.parts, func(p string) bool {
		i := slices.Index(r.parts, p)
		return !strings.HasPrefix(p, "{") && parts[i] != p
	})
}

// received is a request that the fake API got.
type received struct {
	operation string
	header    http.Header
	query     string
	body      string
}

// fakeAPI answers as the control plane would, from memory.
type fakeAPI struct {
	*httptest.Server
	t       testing.TB
	routes  []route
	mu      sync.Mutex
	arrived *sync.Cond // on mu; a request came
	calls   []received
	answers map[string]http.HandlerFunc
	// registry is the platform's own, which is where the API is and not in its contract.
	registry http.Handler
}

func newFakeAPI(t testing.TB) *fakeAPI {
	t.Helper()
	f := &fakeAPI{t: t, routes: contractRoutes(t), answers: cannedAnswers()}
	f.registry = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	f.arrived = sync.NewCond(&f.mu)
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.SetKeepAlivesEnabled(false)
	f.Start()
	t.Cleanup(f.Close)
	return f
}

// on replaces the answer to an operation; several take turns and the last one stays.
func (f *fakeAPI) on(operation string, answers ...http.HandlerFunc) {
	n := 0
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[operation] = func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		i := min(n, len(answers)-1)
		n++
		f.mu.Unlock()
		answers[i](w, r)
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body)) // an answer may depend on it
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		if r.Header.Get("Authorization") != "Bearer "+canary {
			f.t.Errorf("the registry is asked as %q", r.Header.Get("Authorization"))
		}
		f.registry.ServeHTTP(w, r)
		return
	}
	i := slices.IndexFunc(f.routes, func(rt route) bool { return rt.matches(r) })
	if i < 0 {
		f.t.Errorf("no operation of the contract: %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	op := f.routes[i].id
	f.mu.Lock()
	f.calls = append(f.calls, received{operation: op, header: r.Header, query: r.URL.RawQuery, body: string(body)})
	answer := f.answers[op]
	f.arrived.Broadcast()
	f.mu.Unlock()
	if answer == nil {
		f.t.Errorf("no answer for %s", op)
		return
	}
	answer(w, r)
}

// await returns when an operation was called.
func (f *fakeAPI) await(operation string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !slices.ContainsFunc(f.calls, func(c received) bool { return c.operation == operation }) {
		f.arrived.Wait()
	}
}

// received are the requests so far.
func (f *fakeAPI) received() []received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func refuse(status int, code, detail, remedy string) http.HandlerFunc {
	body, err := json.Marshal(map[string]any{
		"type": "urn:gpuaas:problem:" + code, "title": http.StatusText(status), "status": status, "code": code,
		"detail": detail, "remedy": remedy, "correlation_id": "0190-corr",
	})
	if err != nil {
		panic(err)
	}
	return answer(status, string(body))
}

// outcome is what a run of the command line left behind.
type outcome struct {
	exit        int
	stdout, err string
}

// buffer may be written by one goroutine and read by another.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// bench runs commands in an empty home.
type bench struct {
	t        testing.TB
	home     string
	environ  []string
	in       string
	around   frame.Surroundings
	out, err *buffer
}

func newBench(t testing.TB, environ ...string) *bench {
	t.Helper()
	home := t.TempDir()
	return &bench{
		t: t, home: home, environ: append([]string{"HOME=" + home}, environ...),
		around: frame.Surroundings{
			Now: now, Zone: time.UTC, Terminal: func(io.Writer) bool { return false },
			Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		},
	}
}

// signedIn is a bench that talks to a fake API.
func signedIn(t testing.TB, f *fakeAPI) *bench {
	t.Helper()
	return newBench(t, "GPUAAS_URL="+f.URL, "GPUAAS_TOKEN="+canary)
}

func (b *bench) run(args ...string) outcome { return b.runContext(b.t.Context(), args...) }

func (b *bench) runContext(ctx context.Context, args ...string) outcome {
	b.out, b.err = &buffer{}, &buffer{}
	code := run(ctx, Program{
		Version: "1.2.3", Args: args, In: strings.NewReader(b.in), Out: b.out, Err: b.err, Environ: b.environ,
		Server: serverCommands(),
	}, b.around)
	return outcome{exit: code, stdout: b.out.String(), err: b.err.String()}
}

// serverCommands stand for those that the main program brings.
func serverCommands() []*cobra.Command {
	serve := &cobra.Command{
		Use: "serve", Short: "Run the control plane", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return io.ErrUnexpectedEOF
		},
	}
	config := &cobra.Command{Use: "config", Short: "Check the configuration"}
	config.AddCommand(&cobra.Command{
		Use: "check", Short: "Report every problem", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) {},
	})
	return []*cobra.Command{serve, config}
}

// golden compares with a file below testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./cli -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (- file, + now); write it with: go test ./cli -update\n%s", path, diff)
	}
}
