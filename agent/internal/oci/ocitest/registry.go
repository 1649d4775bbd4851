// Package ocitest is a registry for tests: what is put into it is served by its digest.
package ocitest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"
)

// Registry serves blobs and manifests of any repository.
type Registry struct {
	*httptest.Server
	mu     sync.Mutex
	served map[string][]byte
	asked  map[string]int
}

// New starts a registry that ends with the test.
func New(t *testing.T) *Registry {
	t.Helper()
	r := &Registry{served: map[string][]byte{}, asked: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		digest := path.Base(q.URL.Path)
		r.mu.Lock()
		raw, there := r.served[digest]
		r.asked[digest]++
		r.mu.Unlock()
		if !there {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Docker-Content-Digest", digest)
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(raw))
	}))
	t.Cleanup(r.Close)
	return r
}

// Asked is how often something was asked for.
func (r *Registry) Asked(digest string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[digest]
}

// Blob puts bytes into the registry and answers their digest.
func (r *Registry) Blob(raw []byte) string {
	sum := sha256.Sum256(raw)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	r.Replace(digest, raw)
	return digest
}

// Replace serves other bytes under a digest.
func (r *Registry) Replace(digest string, raw []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served[digest] = raw
}

func (r *Registry) size(digest string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.served[digest])
}

// Manifest puts a manifest of layers of one type into the registry.
func (r *Registry) Manifest(kind string, layers ...string) string {
	all := []map[string]any{}
	for _, l := range layers {
		all = append(all, map[string]any{"mediaType": kind, "digest": l, "size": r.size(l)})
	}
	return r.document(map[string]any{"schemaVersion": 2, "layers": all})
}

// Index puts an index of one manifest into the registry.
func (r *Registry) Index(system, architecture, manifest string) string {
	return r.document(map[string]any{"schemaVersion": 2, "manifests": []map[string]any{{
		"digest": manifest, "size": r.size(manifest),
		"platform": map[string]string{"os": system, "architecture": architecture},
	}}})
}

func (r *Registry) document(d map[string]any) string {
	raw, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("encode a manifest: %v", err)) // it is made above
	}
	return r.Blob(raw)
}
