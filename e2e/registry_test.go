package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"gpuaas/contract/agentwire"
)

// repository is one of the platform's own registry, as the usual clients see it.
func (p *plane) repository(t *testing.T, name string) *remote.Repository {
	t.Helper()
	host := strings.TrimPrefix(p.url, "http://")
	r, err := remote.NewRepository(host + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r.PlainHTTP = true
	r.Client = &auth.Client{Credential: auth.StaticCredential(host, auth.Credential{Username: "me", Password: p.token})}
	return r
}

// pushModel pushes a file as an artifact, and answers the digest of its manifest.
func (p *plane) pushModel(t *testing.T, name, file, content string) string {
	t.Helper()
	var layer bytes.Buffer
	zip := gzip.NewWriter(&layer)
	archive := tar.NewWriter(zip)
	if err := archive.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	store := memory.New()
	d, err := oras.PushBytes(t.Context(), store, ocispec.MediaTypeImageLayerGzip, layer.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	made, err := oras.PackManifest(t.Context(), store, oras.PackManifestVersion1_1, "application/vnd.example.model",
		oras.PackManifestOptions{Layers: []ocispec.Descriptor{d}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Tag(t.Context(), made, "v1"); err != nil {
		t.Fatal(err)
	}
	if _, err := oras.Copy(t.Context(), store, "v1", p.repository(t, name), "v1", oras.DefaultCopyOptions); err != nil {
		t.Fatal(err)
	}
	return made.Digest.String()
}

// stageModel pushes a model, registers it and has a node unpack it. It answers what was
// pushed, by its digest.
func (p *plane) stageModel(t *testing.T, cli []string, state, node string, store *privateStore) string {
	t.Helper()
	const name, content = "acme/default/llm", "weights of a model"
	succeed(t, cli, "tenant", "create", "acme", "--name", "Acme")
	digest := p.pushModel(t, name, "weights.bin", content)
	reference := agentwire.PlatformRegistry + "/" + name + "@" + digest
	succeed(t, cli, "operation", "policy", "set", "*", "--global", "--artifact-sources",
		agentwire.PlatformRegistry+"/acme", "--reason", "test")
	succeed(t, cli, "artifact", "register", "llm", reference, "--project", "acme/default")
	succeed(t, cli, "operation", "run", "node.artifact.unpack", "--target", node, "--reason", "test", "--watch",
		"--input", "reference="+reference, "--input", "bytes=100000", "--input", "path=/srv/models/llm")
	found, err := filepath.Glob(filepath.Join(state, "rack-process", "machines", "*", "root/srv/models/llm/weights.bin"))
	if err != nil || len(found) != 1 {
		t.Fatalf("files on nodes: %q, %v", found, err)
	}
	if got, err := os.ReadFile(found[0]); err != nil || string(got) != content {
		t.Errorf("the node has %q, %v", got, err)
	}
	p.mountsNothing(t, digest)
	p.fetchFromStore(t, cli, state, node, store)
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "run.sh"), []byte("true"), 0o700); err != nil {
		t.Fatal(err)
	}
	first := succeed(t, cli, "artifact", "push", "tools", tools, "--project", "acme/default", "-o", "json")
	again := succeed(t, cli, "artifact", "push", "tools", tools, "--project", "acme/default", "-o", "json")
	if again != first {
		t.Errorf("pushed again: %s, at first %s", again, first)
	}
	if _, said, code := command(t, cli, "artifact", "push", "tools", tools, "--project", "acme/none"); code == 0 {
		t.Errorf("pushed to a project that does not exist: %s", said)
	}
	return digest
}

// mountsNothing tries to bring something of one repository into another by its digest, as a
// form, which the real registry reads too.
func (p *plane) mountsNothing(t *testing.T, digest string) {
	t.Helper()
	form := url.Values{"mount": {digest}, "from": {"acme/default/llm"}}.Encode()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v2/acme/default/other/blobs/uploads/",
		strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("me", p.token)
	answer, err := p.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusAccepted {
		t.Errorf("a mount by a form: %s, %v, want an upload that begins", answer.Status, err)
	}
}

// keepsModel looks whether the registry still has what was pushed.
func (p *plane) keepsModel(t *testing.T, digest string) {
	t.Helper()
	found, err := p.repository(t, "acme/default/llm").Resolve(t.Context(), "v1")
	if err != nil || found.Digest.String() != digest {
		t.Errorf("the registry has %s, %v, want %s", found.Digest, err, digest)
	}
}

// privateStore is a store of files that gives them to signed addresses only.
type privateStore struct {
	*httptest.Server

	roots string // a file with what its certificate is checked with
}

const storedModel = "weights of another model"

func newPrivateStore(t *testing.T) *privateStore {
	t.Helper()
	s := &privateStore{Server: httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); !strings.HasPrefix(q.Get("X-Amz-Credential"), "AKIATEST/") || q.Get("X-Amz-Signature") == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(storedModel))
	}))}
	t.Cleanup(s.Close)
	s.roots = privateFile(t, t.TempDir(), "roots.pem",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return s
}

// fetchFromStore has a node fetch a file that is read with a login only, which the node never
// gets.
func (p *plane) fetchFromStore(t *testing.T, cli []string, state, node string, store *privateStore) {
	t.Helper()
	source := store.URL + "/models/w.bin"
	sum := sha256.Sum256([]byte(storedModel))
	digest, size := hex.EncodeToString(sum[:]), strconv.Itoa(len(storedModel))
	succeed(t, cli, "operation", "policy", "set", "*", "--global", "--artifact-sources",
		agentwire.PlatformRegistry+"/acme,"+store.URL, "--reason", "test")
	fetch := []string{
		"operation", "run", "node.file.fetch", "--target", node, "--reason", "test", "--watch", "--input", "url=" + source,
		"--input", "sha256=" + digest, "--input", "bytes=" + size, "--input", "path=/srv/models/w.bin",
	}
	secret := privateFile(t, t.TempDir(), "key", "canary-key-of-the-store")
	succeed(t, cli, "artifact", "register", "w", source, "--digest", "sha256:"+digest, "--size", size, "--global")
	succeed(t, cli, "artifact", "source", "add", "store", store.URL+"/models", "--kind", "s3", "--region", "eu-central-1",
		"--login", "AKIATEST", "--secret-file", secret, "--global")
	succeed(t, cli, fetch...)
	found, err := filepath.Glob(filepath.Join(state, "rack-process", "machines", "*", "root/srv/models/w.bin"))
	if err != nil || len(found) != 1 {
		t.Fatalf("files on nodes: %q, %v", found, err)
	}
	if got, err := os.ReadFile(found[0]); err != nil || string(got) != storedModel {
		t.Errorf("the node has %q, %v", got, err)
	}
}
