package depot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/operate/depot"
)

const password = "known to the control plane alone"

// world is a depot before a registry that lets in nobody else.
type world struct {
	t       *testing.T
	service *depot.Service
	org     id.Org
	project id.Project
	tasks   works
	closed  map[id.Org]bool // tenants that are disabled
	passed  []string        // what the registry was asked
}

type works map[id.Node][]agenttask.Task

func (w works) WorksOn(_ context.Context, n id.Node, taskType string) ([]agenttask.Task, error) {
	if taskType != agentwire.TypeOperationRun {
		return nil, fmt.Errorf("asked about %s", taskType)
	}
	return w[n], nil
}

// TenantEnabled implements depot.Tenants.
func (w *world) TenantEnabled(_ context.Context, org id.Org) error {
	if w.closed[org] {
		return fault.New(fault.Forbidden, "tenant_disabled", "the tenant is disabled")
	}
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, owner := postgrestest.NewWithOwner(t)
	w := &world{
		t: t, org: id.New[id.Org](), project: id.New[id.Project](), tasks: works{}, closed: map[id.Org]bool{},
	}
	for _, query := range []string{
		`INSERT INTO organizations (id, slug, name) SELECT $1, 'acme', 'Acme' WHERE $2::uuid IS NOT NULL`,
		`INSERT INTO projects (id, org_id, slug, name) VALUES ($2, $1, 'training', 'Training')`,
	} {
		if _, err := owner.Exec(t.Context(), query, w.org, w.project); err != nil {
			t.Fatal(err)
		}
	}
	behind := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(true))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "gpuaas" || given != password || r.Header.Get("Cookie") != "" {
			t.Errorf("%s %s comes as %q", r.Method, r.URL.Path, user)
		}
		w.passed = append(w.passed, r.Method+" "+r.URL.RequestURI())
		behind.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.service = depot.New(depot.Config{
		DB: db, Upstream: depot.Upstream{URL: at, User: "gpuaas", PasswordFile: file, Folder: t.TempDir()},
		Places: artifact.New(db, nil), Tasks: w.tasks, Tenants: w, Logger: slog.New(slog.DiscardHandler),
	})
	return w
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// as is somebody with a role in the project of the world.
func (w *world) as(role auth.Role) *auth.Principal {
	return &auth.Principal{
		Kind: auth.KindUser, ID: "somebody",
		Projects: map[id.Project]auth.ProjectRole{w.project: {Org: w.org, Role: role}},
	}
}

// asks does something as somebody.
func (w *world) asks(who *auth.Principal, method, path, mediaType string, body []byte) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequestWithContext(auth.With(w.t.Context(), who), method, "/v2/"+path, bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer a token of somebody")
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	rw := httptest.NewRecorder()
	w.service.ServePeople(rw, r)
	return rw
}

func (w *world) wants(what string, rw *httptest.ResponseRecorder, status int, code string) {
	w.t.Helper()
	var said struct {
		Errors []struct {
			Detail struct{ Code string }
		}
	}
	if rw.Code >= http.StatusBadRequest {
		if err := json.Unmarshal(rw.Body.Bytes(), &said); err != nil || len(said.Errors) != 1 {
			w.t.Errorf("%s: %d %s", what, rw.Code, rw.Body)
			return
		}
		if said.Errors[0].Detail.Code != code {
			w.t.Errorf("%s: %s, want %s", what, rw.Body, code)
		}
	}
	if rw.Code != status {
		w.t.Errorf("%s: status %d %s, want %d", what, rw.Code, rw.Body, status)
	}
}

// push pushes a blob, and answers its digest.
func (w *world) push(repository, body string) string {
	w.t.Helper()
	digest := digestOf([]byte(body))
	rw := w.asks(w.as(auth.ProjectAdmin), http.MethodPost, repository+"/blobs/uploads/?digest="+digest,
		"application/octet-stream", []byte(body))
	w.wants("push "+body, rw, http.StatusCreated, "")
	return digest
}

// manifest pushes one that names some blobs or manifests, and answers its digest.
func (w *world) manifest(repository, list string, names ...string) string {
	w.t.Helper()
	var all []any
	for _, d := range names {
		all = append(all, map[string]any{"mediaType": manifestType, "digest": d, "size": 1})
	}
	media := manifestType
	if list == "manifests" {
		media = indexType
	}
	body, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": media, list: all})
	if err != nil {
		w.t.Fatal(err)
	}
	rw := w.asks(w.as(auth.ProjectAdmin), http.MethodPut, repository+"/manifests/"+digestOf(body), media, body)
	w.wants("push a manifest", rw, http.StatusCreated, "")
	return digestOf(body)
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// Who pulls needs to see artifacts of the project, who pushes needs to manage them, and for
// others there is nothing there.
func TestAttackARepositoryIsOfItsProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const mine = "acme/training/llm"
	digest := w.push(mine, "weights")
	member, admin := w.as(auth.ProjectMember), w.as(auth.ProjectAdmin)
	stranger := &auth.Principal{
		Kind: auth.KindUser, ID: "stranger",
		Projects: map[id.Project]auth.ProjectRole{id.New[id.Project](): {Org: id.New[id.Org](), Role: auth.ProjectAdmin}},
	}
	pull := mine + "/blobs/" + digest
	w.wants("a member pulls", w.asks(member, http.MethodGet, pull, "", nil), http.StatusOK, "")
	w.wants("a stranger pulls", w.asks(stranger, http.MethodGet, pull, "", nil), http.StatusNotFound,
		"registry_repository_unknown")
	w.wants("of no project", w.asks(admin, http.MethodGet, "acme/nope/llm/blobs/"+digest, "", nil), http.StatusNotFound,
		"registry_repository_unknown")
	w.wants("of no tenant", w.asks(admin, http.MethodGet, "nope/blobs/"+digest, "", nil), http.StatusNotFound,
		"registry_repository_unknown")
	for method, path := range map[string]string{
		http.MethodPost: mine + "/blobs/uploads/", http.MethodPut: mine + "/manifests/v1",
		http.MethodPatch: mine + "/blobs/uploads/" + id.NewString(),
	} {
		w.wants("a member pushes", w.asks(member, method, path, "", nil), http.StatusForbidden, "insufficient_permissions")
		w.wants("a stranger pushes", w.asks(stranger, method, path, "", nil), http.StatusNotFound,
			"registry_repository_unknown")
		platforms := strings.Replace(path, mine, "platform.gpuaas/llm", 1)
		w.wants("a tenant pushes for the platform", w.asks(admin, method, platforms, "", nil), http.StatusForbidden,
			"insufficient_permissions")
	}
	w.wants("deleted", w.asks(admin, http.MethodDelete, mine+"/manifests/v1", "", nil), http.StatusForbidden,
		"registry_method")
	w.wants("all repositories", w.asks(admin, http.MethodGet, "_catalog", "", nil), http.StatusNotFound, "not_found")
	w.wants("that there is one", w.asks(stranger, http.MethodGet, "", "", nil), http.StatusOK, "")

	w.closed[w.org] = true
	w.wants("pushed for a disabled tenant", w.asks(admin, http.MethodPost, mine+"/blobs/uploads/", "", nil),
		http.StatusForbidden, "tenant_disabled")
}

// A blob of another repository is not brought into one's own by its digest.
func TestAttackABlobIsNotMountedFromAnotherRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.asks(w.as(auth.ProjectAdmin), http.MethodPost,
		"acme/training/llm/blobs/uploads/?mount="+digestOf([]byte("theirs"))+"&from=other/secret/llm", "", nil)
	for _, asked := range w.passed {
		if strings.Contains(asked, "mount") || strings.Contains(asked, "from") {
			t.Errorf("the registry is asked for %s", asked)
		}
	}
	if len(w.passed) != 1 {
		t.Errorf("passed on: %q", w.passed)
	}
}

// The platform's repositories are read by all, and written by itself.
func TestRepositoriesOfThePlatform(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := &auth.Principal{Kind: auth.KindUser, ID: "ann", Platform: auth.PlatformAdmin}
	body := []byte("a base")
	rw := w.asks(admin, http.MethodPost, "platform.gpuaas/base/blobs/uploads/?digest="+digestOf(body),
		"application/octet-stream", body)
	w.wants("pushed", rw, http.StatusCreated, "")
	rw = w.asks(w.as(auth.ProjectViewer), http.MethodGet, "platform.gpuaas/base/blobs/"+digestOf(body), "", nil)
	w.wants("pulled", rw, http.StatusOK, "")
	if rw.Body.String() != string(body) {
		t.Errorf("pulled %q", rw.Body)
	}
}

// works gives a node a task that fetches something.
func (w *world) works(n id.Node, reference string) {
	w.t.Helper()
	with, err := json.Marshal(map[string]any{"reference": reference, "bytes": 100, "path": "/srv/m"})
	if err != nil {
		w.t.Fatal(err)
	}
	params, err := json.Marshal(map[string]any{"steps": []any{
		map[string]any{"id": "write", "kind": "file.render", "with": map[string]any{}},
		map[string]any{"id": "pull", "kind": agentwire.StepArtifactPullOCI, "with": json.RawMessage(with)},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.tasks[n] = append(w.tasks[n], agenttask.Task{Node: n, Type: agentwire.TypeOperationRun, Params: params})
}

// A node reads what a task fetches that it works on, with what that names, and nothing
// else: no other digest, not of another repository, not by a tag, and not afterwards.
func TestAttackANodeReadsOnlyWhatItsTaskFetches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const mine, other = "acme/training/llm", "acme/training/other"
	one, two, secret := w.push(mine, "one"), w.push(mine, "two"), w.push(mine, "secret")
	fetched := w.manifest(mine, "layers", one)
	child := w.manifest(mine, "layers", two)
	index := w.manifest(mine, "manifests", child)
	unfetched := w.manifest(mine, "layers", secret)
	w.push(other, "one")

	busy, idle, planned := id.New[id.Node](), id.New[id.Node](), id.New[id.Node]()
	w.works(busy, agentwire.PlatformRegistry+"/"+mine+"@"+fetched)
	w.works(busy, agentwire.PlatformRegistry+"/"+mine+"@"+index)
	w.works(idle, "registry.example/"+mine+"@"+fetched)
	w.tasks[planned] = []agenttask.Task{{Params: json.RawMessage(strings.Replace(string(w.tasks[busy][0].Params), "{",
		`{"plan":true,`, 1))}}
	reads := func(n id.Node, method, path string) error {
		rw := httptest.NewRecorder()
		err := w.service.ServeNode(rw, httptest.NewRequestWithContext(t.Context(), method, "/v2/"+path, nil), n)
		if err == nil && rw.Code != http.StatusOK {
			return fmt.Errorf("status %d: %s", rw.Code, rw.Body)
		}
		return err
	}
	for _, path := range []string{
		mine + "/manifests/" + fetched, mine + "/blobs/" + one, mine + "/manifests/" + index, mine + "/manifests/" + child,
		mine + "/blobs/" + two,
	} {
		if err := reads(busy, http.MethodGet, path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, n := range []id.Node{idle, planned, id.New[id.Node]()} {
			if err := reads(n, http.MethodGet, path); fault.CodeOf(err) != "registry_not_for_task" {
				t.Errorf("%s by a node that does not fetch it: %v", path, err)
			}
		}
	}
	for path, code := range map[string]string{
		mine + "/manifests/" + unfetched: "registry_not_for_task",
		mine + "/blobs/" + secret:        "registry_not_for_task",
		mine + "/blobs/" + fetched:       "registry_not_for_task",
		other + "/blobs/" + one:          "registry_not_for_task",
		mine + "/manifests/latest":       "not_found",
		mine + "/tags/list":              "not_found",
		"":                               "not_found",
	} {
		if err := reads(busy, http.MethodGet, path); fault.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", path, err, code)
		}
	}
	if err := reads(busy, http.MethodPut, mine+"/manifests/"+fetched); fault.CodeOf(err) != "not_found" {
		t.Errorf("a node writes: %v", err)
	}
	delete(w.tasks, busy)
	if err := reads(busy, http.MethodGet, mine+"/blobs/"+one); fault.CodeOf(err) != "registry_not_for_task" {
		t.Errorf("after its task: %v", err)
	}
}

// A client gives its token as a password, and no cookie of a browser counts.
func TestATokenIsThePassword(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/", nil)
	r.SetBasicAuth("anybody", "the-token")
	r.Header.Set("Cookie", "session=of-a-browser")
	depot.Tokened(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer the-token" || r.Header.Get("Cookie") != "" {
			t.Errorf("%q, %q", got, r.Header.Get("Cookie"))
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
}

// A registry that refuses the control plane is not the fault of who asks.
func TestTheRegistryRefusesTheControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Www-Authenticate", `Basic realm="behind"`)
		rw.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.service = depot.New(depot.Config{
		Upstream: depot.Upstream{URL: at, User: "gpuaas", PasswordFile: filepath.Join(t.TempDir(), "none")},
		Places:   w, Tasks: w.tasks, Tenants: w, Logger: slog.New(slog.DiscardHandler),
	})
	rw := w.asks(w.as(auth.ProjectAdmin), http.MethodGet, "acme/training/llm/tags/list", "", nil)
	w.wants("refused", rw, http.StatusServiceUnavailable, "registry_unavailable")
	if rw.Header().Get("Www-Authenticate") != "" {
		t.Error("who asks is asked for a login of the registry behind")
	}
}

// Place implements depot.Places.
func (w *world) Place(context.Context, string) (artifact.Owner, error) {
	return artifact.Owner{Org: w.org, Project: w.project}, nil
}
