package depot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/registry"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/operate/depot"
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

// A blob of another repository is not brought into one's own by its digest: neither by the
// address nor by a form, which the registry would read as well.
func TestAttackABlobIsNotMountedFromAnotherRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const at = "acme/training/llm/blobs/uploads/"
	theirs := "mount=" + digestOf([]byte("theirs")) + "&from=other/secret/llm"
	admin := w.as(auth.ProjectAdmin)
	w.asks(admin, http.MethodPost, at+"?"+theirs, "", nil)
	w.asks(admin, http.MethodPost, at, "application/x-www-form-urlencoded", []byte(theirs))
	w.asks(admin, http.MethodPost, at, "multipart/form-data; boundary=b", []byte("--b\r\n\r\nx\r\n--b--\r\n"))
	for i, asked := range w.passed {
		if strings.Contains(asked, "mount") || strings.Contains(asked, "from") ||
			w.headers[i].Get("Content-Type") != "application/octet-stream" {
			t.Errorf("the registry is asked for %s as %s", asked, w.headers[i].Get("Content-Type"))
		}
	}
	if len(w.passed) != 3 {
		t.Errorf("passed on: %q", w.passed)
	}
}

// Nothing of who asks is told to the registry, and no connection is handed over to it.
func TestAttackTheRegistryLearnsNothingOfWhoAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := httptest.NewRequestWithContext(auth.With(t.Context(), w.as(auth.ProjectMember)), http.MethodGet,
		"/v2/acme/training/llm/tags/list", nil)
	for _, name := range []string{
		"Authorization", "Cookie", "X-Agent-Session", "Upgrade", "Expect", "Forwarded", "Referer",
		"If-None-Match", // an answer without content would be none that is passed on
	} {
		r.Header.Set(name, "a secret")
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Accept", "application/json")
	w.service.ServePeople(httptest.NewRecorder(), r)
	for name, values := range w.headers[0] {
		if strings.Contains(strings.Join(values, " "), "a secret") || name == "Upgrade" || name == "Expect" {
			t.Errorf("%s: %q", name, values)
		}
	}
	if w.headers[0].Get("Accept") != "application/json" {
		t.Error("what is asked for is not passed on")
	}
}

// Whoever pushes a manifest and leaves before the answer is recorded all the same.
func TestAttackAPushIsRecordedThoughItsSenderLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, leave := context.WithCancel(auth.With(t.Context(), w.as(auth.ProjectAdmin)))
	body := []byte(`{"schemaVersion":2,"mediaType":"` + manifestType + `","layers":[]}`)
	r := httptest.NewRequestWithContext(ctx, http.MethodPut, "/v2/acme/training/llm/manifests/v1", bytes.NewReader(body))
	r.Header.Set("Content-Type", manifestType)
	r.Body = &leaving{Reader: bytes.NewReader(body), leave: leave}
	w.service.ServePeople(httptest.NewRecorder(), r)
	var action, digest string
	if err := w.owner.QueryRow(t.Context(), `SELECT action, metadata->>'digest' FROM audit_logs WHERE target_id = 'acme/training/llm'`).
		Scan(&action, &digest); err != nil || action != "registry.push" || digest != digestOf(body) {
		t.Errorf("%s %s: %v", action, digest, err)
	}
}

// leaving ends the request when its body was read.
type leaving struct {
	*bytes.Reader
	leave func()
}

// Read implements io.Reader.
func (l *leaving) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	if err != nil {
		l.leave()
	}
	return n, err
}

// Close implements io.Closer.
func (l *leaving) Close() error { return nil }

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

// What a manifest names is bounded and believed only in its place: digests that are none
// lead nowhere else, and a manifest that names too much names nothing.
func TestAttackAManifestNamesWhatItShouldNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const mine = "acme/training/llm"
	secret := w.push("acme/training/other", "secret")
	wide := w.manifest("acme/training/other", "layers", secret)
	blob := w.push(mine, "one")
	many := make([]string, 1001)
	for i := range many {
		many[i] = blob
	}
	unknown := make([]string, 101)
	for i := range unknown {
		unknown[i] = digestOf([]byte{byte(i)})
	}
	for what, root := range map[string]string{
		"a way out":     w.index(mine, "../../other/manifests/"+wide, "../../../_catalog"),
		"many blobs":    w.manifest(mine, "layers", many...),
		"many children": w.index(mine, unknown...),
	} {
		n := id.New[id.Node]()
		w.works(n, agentwire.PlatformRegistry+"/"+mine+"@"+root)
		before := len(w.passed)
		for _, wanted := range []string{secret, blob} {
			err := w.service.ServeNode(httptest.NewRecorder(),
				httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/"+mine+"/blobs/"+wanted, nil), n)
			if fault.CodeOf(err) != "registry_not_for_task" {
				t.Errorf("%s: %v", what, err)
			}
		}
		if asked := w.passed[before:]; len(asked) != 1 {
			t.Errorf("%s: the registry is asked %d times: %q", what, len(asked), asked)
		}
	}
}

// Nobody has more than some transfers at a time, and all end when the process does.
func TestTransfersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arrived, hold := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(hold) })
	at, err := url.Parse(slow.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.service = depot.New(depot.Config{
		Registry: &registry.Home{Name: agentwire.PlatformRegistry, URL: at}, Places: w, Tasks: w.tasks, Tenants: w,
		Logger: slog.New(slog.DiscardHandler),
	})
	ended := make(chan int)
	const most = 32
	for range most {
		go func() {
			ended <- w.asks(w.as(auth.ProjectMember), http.MethodGet, "acme/training/llm/tags/list", "", nil).Code
		}()
	}
	for range most {
		<-arrived
	}
	w.wants("one more", w.asks(w.as(auth.ProjectMember), http.MethodGet, "acme/training/llm/tags/list", "", nil),
		http.StatusTooManyRequests, "registry_transfers_exceeded")
	w.service.Close()
	for range most {
		if code := <-ended; code != http.StatusServiceUnavailable {
			t.Errorf("after the end: status %d", code)
		}
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
		Registry: home(at, filepath.Join(t.TempDir(), "none")), Places: w, Tasks: w.tasks, Tenants: w,
		Logger: slog.New(slog.DiscardHandler),
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
