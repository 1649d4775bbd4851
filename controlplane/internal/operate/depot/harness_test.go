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
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/registry"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
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
	headers []http.Header
	planted map[string][]byte // manifests that the registry has, by digest
	owner   *postgres.DB
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
		owner: owner, planted: map[string][]byte{},
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
		w.headers = append(w.headers, r.Header.Clone())
		if body := w.planted[filepath.Base(r.URL.Path)]; body != nil { // other registries take what this one refuses
			_, _ = rw.Write(body)
			return
		}
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
		DB: db, Registry: home(at, file), // and no folder: how full the disk is here must not matter
		Places: artifact.New(artifact.Config{DB: db}), Tasks: w.tasks, Tenants: w, Logger: slog.New(slog.DiscardHandler),
	})
	return w
}

func home(at *url.URL, file string) *registry.Home {
	return &registry.Home{Name: agentwire.PlatformRegistry, URL: at, User: "gpuaas", PasswordFile: file}
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

// index pushes one that names manifests, which need not exist.
func (w *world) index(repository string, names ...string) string {
	w.t.Helper()
	var all []any
	for _, d := range names {
		all = append(all, map[string]any{"mediaType": manifestType, "digest": d, "size": 1})
	}
	body, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": all})
	if err != nil {
		w.t.Fatal(err)
	}
	w.planted[digestOf(body)] = body
	return digestOf(body)
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)
