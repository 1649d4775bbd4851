package artifact_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/adapter/registry"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/operate/policy"
)

const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeBundle   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	typeSimple   = "application/vnd.dev.cosign.simplesigning.v1+json"
)

// world is a control plane beside a real registry.
type world struct {
	t         *testing.T
	db, owner *postgres.DB
	service   *artifact.Service
	host      string
	acme      policy.Owner // a project
	other     id.Org
	ctx       context.Context
	secrets   safe
	objects   stores
}

// newWorld starts a registry, with or without the API of referrers.
func newWorld(t *testing.T, referrers bool) *world {
	t.Helper()
	server := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(referrers)))
	t.Cleanup(server.Close)
	w := &world{
		t: t, host: strings.TrimPrefix(server.URL, "http://"), other: id.New[id.Org](),
		acme: policy.Owner{Org: id.New[id.Org](), Project: id.New[id.Project]()},
	}
	w.db, w.owner = postgrestest.NewWithOwner(t)
	w.service = w.with(registry.Config{
		Guard: guard.Config{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, PlainHTTP: []string{w.host},
	})
	w.exec(`INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme'), ($2, 'other', 'Other')`,
		w.acme.Org, w.other)
	w.exec(`INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, w.acme.Project, w.acme.Org)
	w.exec(`INSERT INTO operation_policy_overrides (operation_type, scope, allowed_artifact_sources, updated_by)
		VALUES ('*', 'global', $1, 'test')`, []string{w.host, "models.example"})
	w.ctx = auth.With(t.Context(), &auth.Principal{Kind: auth.KindUser, ID: "ann", Platform: auth.PlatformAdmin})
	return w
}

// with is a service whose registries are asked as a configuration says.
func (w *world) with(cfg registry.Config) *artifact.Service {
	client := registry.New(cfg)
	return artifact.New(artifact.Config{
		DB: w.db, Secrets: &w.secrets, Objects: &w.objects,
		Registries: func(l artifact.Login) artifact.Registry { return client.As(l.User, l.Password) },
	})
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.owner.Exec(w.t.Context(), query, args...); err != nil {
		w.t.Fatal(err)
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// put sends something to the registry.
func (w *world) put(method, path, mediaType string, body []byte) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.host+"/v2/"+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", mediaType)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= 300 {
		w.t.Fatalf("%s %s: %s", method, path, answer.Status)
	}
}

// blob pushes a blob, and describes it.
func (w *world) blob(repository, mediaType string, body []byte, annotations map[string]string) map[string]any {
	w.t.Helper()
	w.put(http.MethodPost, repository+"/blobs/uploads/?digest="+digestOf(body), "application/octet-stream", body)
	d := map[string]any{"mediaType": mediaType, "digest": digestOf(body), "size": len(body)}
	if annotations != nil {
		d["annotations"] = annotations
	}
	return d
}

// manifest pushes a manifest under a tag, or its digest, and answers its digest.
func (w *world) manifest(repository, tag string, m map[string]any) string {
	w.t.Helper()
	body := encode(w.t, m)
	if tag == "" {
		tag = digestOf(body)
	}
	w.put(http.MethodPut, repository+"/manifests/"+tag, m["mediaType"].(string), body)
	return digestOf(body)
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// push pushes an artifact of one layer, and answers its digest.
func (w *world) push(repository, content string) string {
	w.t.Helper()
	return w.manifest(repository, "", map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "artifactType": "application/vnd.example.model",
		"config": w.blob(repository, "application/vnd.oci.empty.v1+json", []byte("{}"), nil),
		"layers": []any{w.blob(repository, "application/octet-stream", []byte(content), nil)},
	})
}

// signer is a key as cosign makes it.
type signer struct {
	t   *testing.T
	key *ecdsa.PrivateKey
}

func newSigner(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, key}
}

func (s signer) pem() string {
	s.t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func (s signer) sign(message []byte) []byte {
	s.t.Helper()
	sum := sha256.Sum256(message)
	signature, err := ecdsa.SignASN1(rand.Reader, s.key, sum[:])
	if err != nil {
		s.t.Fatal(err)
	}
	return signature
}

func (w *world) trust(s signer, org id.Org, prefixes ...string) artifact.Key {
	w.t.Helper()
	k, err := w.service.Trust(w.ctx, org, artifact.KeyWish{
		Name: "release", PEM: s.pem(), Repositories: prefixes, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// statement is what cosign 3 signs of a digest.
func statement(digest string) map[string]any {
	return map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://sigstore.dev/cosign/sign/v1",
		"subject":   []any{map[string]any{"digest": map[string]any{"sha256": strings.TrimPrefix(digest, "sha256:")}}},
		"predicate": map[string]any{},
	}
}

// bundle is a bundle of a statement.
func (s signer) bundle(of map[string]any) map[string]any {
	const kind = "application/vnd.in-toto+json"
	payload := encode(s.t, of)
	signature := s.sign(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload))
	return map[string]any{
		"mediaType":            typeBundle,
		"verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "anything"}},
		"dsseEnvelope": map[string]any{
			"payload": payload, "payloadType": kind, "signatures": []any{map[string]any{"sig": signature}},
		},
	}
}

// refer pushes a bundle that refers to a digest.
func (w *world) refer(repository, digest string, bundle map[string]any) map[string]any {
	w.t.Helper()
	m := map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "artifactType": typeBundle,
		"config":  w.blob(repository, "application/vnd.oci.empty.v1+json", []byte("{}"), nil),
		"layers":  []any{w.blob(repository, typeBundle, encode(w.t, bundle), nil)},
		"subject": map[string]any{"mediaType": typeManifest, "digest": digest, "size": 1},
	}
	w.manifest(repository, "", m)
	return m
}

// simple is what older versions of cosign sign.
func simple(reference, digest string) map[string]any {
	return map[string]any{"critical": map[string]any{
		"identity": map[string]any{"docker-reference": reference},
		"image":    map[string]any{"docker-manifest-digest": digest}, "type": "cosign container image signature",
	}, "optional": nil}
}

// tag pushes signatures of the older form under their tag.
func (w *world) tag(repository, digest string, by signer, payloads ...map[string]any) {
	w.t.Helper()
	layers := []any{}
	for _, p := range payloads {
		raw := encode(w.t, p)
		layers = append(layers, w.blob(repository, typeSimple, raw, map[string]string{
			"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(by.sign(raw)),
		}))
	}
	w.manifest(repository, strings.Replace(digest, ":", "-", 1)+".sig", map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": w.blob(repository, "application/vnd.oci.image.config.v1+json", []byte("{}"), nil), "layers": layers,
	})
}

// project is the owner of what most tests register.
func (w *world) project() artifact.Owner { return artifact.Owner(w.acme) }

func (w *world) register(repository, digest string) (artifact.Artifact, error) {
	return w.service.Register(w.ctx, w.project(), artifact.Wish{
		Name: "llm", Kind: artifact.OCI, Source: w.host + "/" + repository + "@" + digest,
	})
}

// found is what registration finds out about signatures.
func (w *world) found(repository, digest string) artifact.Verdict {
	w.t.Helper()
	a, err := w.register(repository, digest)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Verdict
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// signed asks as a run does that fetches a digest from a repository.
func (w *world) signed(by policy.Owner, repository, digest string) (signed policy.Scope, err error) {
	err = w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := w.service.Signed(ctx, tx, by, []agentwire.Fetch{{
			Source: "http://" + w.host + "/" + repository + "@" + digest, Digest: digest,
		}})
		if err == nil {
			signed = found[0]
		}
		return err
	})
	return signed, err
}
