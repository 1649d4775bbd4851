package artifact_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/operate/policy"
)

// Both forms are accepted, with and without the API of referrers, and the answer says
// which form and key it was.
func TestASignatureIsFoundInEitherForm(t *testing.T) {
	t.Parallel()
	for _, referrers := range []bool{true, false} {
		w := newWorld(t, referrers)
		s := newSigner(t)
		k := w.trust(s, w.acme.Org, w.host+"/team")
		newer, older, none := w.push("team/new", "a"), w.push("team/old", "b"), w.push("team/none", "c")
		m := w.refer("team/new", newer, s.bundle(statement(newer)))
		if !referrers { // what clients do where a registry has no such API
			raw := encode(t, m)
			w.manifest("team/new", strings.Replace(newer, ":", "-", 1), map[string]any{
				"schemaVersion": 2, "mediaType": typeIndex, "manifests": []any{map[string]any{
					"mediaType": typeManifest, "artifactType": typeBundle, "digest": digestOf(raw), "size": len(raw),
				}},
			})
		}
		w.tag("team/old", older, s, simple(w.host+"/team/old", older))
		for _, c := range []struct {
			repository, digest string
			want               artifact.Verdict
		}{
			{"team/new", newer, artifact.Verdict{Signature: artifact.Verified, Format: artifact.Bundle, Key: k.ID}},
			{"team/old", older, artifact.Verdict{Signature: artifact.Verified, Format: artifact.SimpleSigning, Key: k.ID}},
			{"team/none", none, artifact.Verdict{
				Signature: artifact.Unsigned, Reason: "the registry has no signature of it",
			}},
		} {
			if got := w.found(c.repository, c.digest); got != c.want {
				t.Errorf("%s, referrers %v: %+v", c.repository, referrers, got)
			}
		}
	}
}

// Whatever is changed of a signature, or is signed instead, it does not count.
func TestAttackASignatureOfSomethingElseDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	s := newSigner(t)
	w.trust(s, w.acme.Org, w.host+"/team")
	envelope := func(b map[string]any) map[string]any { return b["dsseEnvelope"].(map[string]any) }
	for i, c := range []struct {
		what   string
		change func(digest string) map[string]any
		why    string
	}{
		{"by a stranger", func(d string) map[string]any {
			return newSigner(t).bundle(statement(d))
		}, "no key that is trusted"},
		{"of another digest", func(string) map[string]any {
			return s.bundle(statement(digestOf([]byte("x"))))
		}, "another digest"},
		{"another predicate", func(d string) map[string]any {
			of := statement(d)
			of["predicateType"] = "https://slsa.dev/provenance/v1"
			return s.bundle(of)
		}, "something else than that the artifact is signed"},
		{"another statement", func(d string) map[string]any {
			of := statement(d)
			of["_type"] = "https://example.com/"
			return s.bundle(of)
		}, "unknown type"},
		{"another hash", func(d string) map[string]any {
			of := statement(d)
			of["subject"] = []any{map[string]any{"digest": map[string]any{"sha1": strings.TrimPrefix(d, "sha256:")}}}
			return s.bundle(of)
		}, "another digest"},
		{"payload exchanged", func(d string) map[string]any {
			b := s.bundle(statement(digestOf([]byte("x"))))
			envelope(b)["payload"] = encode(t, statement(d))
			return b
		}, "no key that is trusted"},
		{"type exchanged", func(d string) map[string]any {
			b := s.bundle(statement(d))
			envelope(b)["payloadType"] = "text/plain"
			return b
		}, "something else than a statement"},
		{"no signature", func(d string) map[string]any {
			b := s.bundle(statement(d))
			envelope(b)["signatures"] = []any{}
			return b
		}, "one signature"},
		{"another version", func(d string) map[string]any {
			b := s.bundle(statement(d))
			b["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.2"
			return b
		}, "another version"},
	} {
		repository := fmt.Sprintf("team/m%d", i)
		digest := w.push(repository, c.what)
		w.refer(repository, digest, c.change(digest))
		if got := w.found(repository, digest); got.Signature != artifact.Refused || !strings.Contains(got.Reason, c.why) {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

// A signature of the older form names its repository: moved to another, it counts no
// more. Its base64 and payload are compared as well.
func TestAttackAnOlderSignatureIsOfOneRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	s := newSigner(t)
	w.trust(s, w.acme.Org, w.host+"/team")
	for i, c := range []struct {
		what    string
		payload func(repository, digest string) map[string]any
		why     string
	}{
		{"another repository", func(_, d string) map[string]any {
			return simple(w.host+"/team/other", d)
		}, "another repository"},
		{"a longer name", func(r, d string) map[string]any { return simple(r+"-mini", d) }, "another repository"},
		{"another digest", func(r, _ string) map[string]any { return simple(r, digestOf([]byte("x"))) }, "another digest"},
		{"another type", func(r, d string) map[string]any {
			p := simple(r, d)
			p["critical"].(map[string]any)["type"] = "atomic container signature"
			return p
		}, "unknown type"},
	} {
		repository := fmt.Sprintf("team/m%d", i)
		digest := w.push(repository, c.what)
		w.tag(repository, digest, s, c.payload(w.host+"/"+repository, digest))
		if got := w.found(repository, digest); got.Signature != artifact.Refused || !strings.Contains(got.Reason, c.why) {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
	digest := w.push("team/base64", "base64")
	raw := encode(t, simple(w.host+"/team/base64", digest))
	signature := s.sign(raw)
	signature[len(signature)-1] ^= 1
	w.manifest("team/base64", strings.Replace(digest, ":", "-", 1)+".sig", map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": w.blob("team/base64", "application/vnd.oci.image.config.v1+json", []byte("{}"), nil),
		"layers": []any{w.blob("team/base64", typeSimple, raw, map[string]string{
			"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature),
		})},
	})
	if got := w.found("team/base64", digest); got.Signature != artifact.Refused {
		t.Errorf("a changed signature: %+v", got)
	}
}

// A key counts within its time, for its repositories, for its tenant, and until it is
// withdrawn.
func TestAttackAKeyCountsWhereAndAsLongAsItIsTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	mine, theirs, narrow, old := newSigner(t), newSigner(t), newSigner(t), newSigner(t)
	k := w.trust(mine, w.acme.Org, w.host+"/team")
	w.trust(theirs, w.other, w.host+"/team")
	w.trust(narrow, w.acme.Org, w.host+"/team/model")
	expired := w.trust(old, id.Org{}, w.host)
	w.exec(`UPDATE artifact_keys SET not_before = now() - interval '2 hours', not_after = now() - interval '1 hour'
		WHERE id = $1`, expired.ID)
	for i, c := range []struct {
		what string
		by   signer
		want artifact.Signature
		why  string
	}{
		{"my key", mine, artifact.Verified, ""},
		{"that of another tenant", theirs, artifact.Refused, "no key that is trusted"},
		{"for other repositories", narrow, artifact.Refused, "no key that is trusted now for"},
		{"one that has ended", old, artifact.Refused, "no key that is trusted"},
	} {
		repository := fmt.Sprintf("team/models%d", i)
		digest := w.push(repository, c.what)
		w.refer(repository, digest, c.by.bundle(statement(digest)))
		if got := w.found(repository, digest); got.Signature != c.want || !strings.Contains(got.Reason, c.why) {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
	digest := w.push("team/again", "again")
	w.refer("team/again", digest, mine.bundle(statement(digest)))
	a, err := w.register("team/again", digest)
	if err != nil {
		t.Fatal(err)
	}
	if signed, err := w.signed(w.acme, "team/again", digest); err != nil || signed != policy.Tenant {
		t.Errorf("before: %v, %v", signed, err)
	}
	if _, err := w.service.Withdraw(w.ctx, w.acme.Org, k.ID, "it leaked"); err != nil {
		t.Fatal(err)
	}
	if signed, err := w.signed(w.acme, "team/again", digest); err != nil || signed != "" {
		t.Errorf("its key was withdrawn: %v, %v", signed, err)
	}
	if now, err := w.service.Get(w.ctx, w.project(), a.ID); err != nil || now.Verdict.Signature != artifact.Refused ||
		!strings.Contains(now.Verdict.Reason, "it leaked") {
		t.Errorf("shown after its key was withdrawn: %+v, %v", now.Verdict, err)
	}
	again, err := w.service.Verify(w.ctx, w.project(), a.ID)
	if err != nil || again.Verdict.Signature != artifact.Refused {
		t.Errorf("again: %+v, %v", again.Verdict, err)
	}
	_, err = w.service.Withdraw(w.ctx, w.acme.Org, k.ID, "again")
	wantCode(t, "withdrawn twice", err, "artifact_key_withdrawn")
	_, err = w.service.Withdraw(w.ctx, w.other, k.ID, "not mine")
	wantCode(t, "that of another tenant", err, "artifact_key_not_found")
}

// One signature that counts is enough, among many that do not, and in the other form.
func TestOneGoodSignatureIsEnough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	s := newSigner(t)
	w.trust(s, w.acme.Org, w.host+"/team")
	digest := w.push("team/many", "many")
	for range 5 {
		w.refer("team/many", digest, newSigner(t).bundle(statement(digest)))
	}
	w.tag("team/many", digest, s, simple(w.host+"/other", digest), simple(w.host+"/team/many", digest))
	if got := w.found("team/many", digest); got.Format != artifact.SimpleSigning {
		t.Errorf("%+v", got)
	}
}

// What else refers to an artifact is no signature of it, and more than is looked at does
// not stop a signature of the other form.
func TestManyReferrers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	s := newSigner(t)
	w.trust(s, w.acme.Org, w.host+"/team")
	digest := w.push("team/many", "many")
	other := w.push("team/many", "something else")
	refer := func(n int, kind string) {
		t.Helper()
		list := make([]any, n)
		for i := range list {
			list[i] = map[string]any{"mediaType": typeManifest, "artifactType": kind, "digest": other, "size": 1}
		}
		w.manifest("team/many", strings.Replace(digest, ":", "-", 1), map[string]any{
			"schemaVersion": 2, "mediaType": typeIndex, "manifests": list,
		})
	}
	refer(900, "application/vnd.example.sbom")
	a, err := w.register("team/many", digest)
	if err != nil || a.Verdict.Signature != artifact.Unsigned {
		t.Errorf("900 of another type: %+v, %v", a.Verdict, err)
	}
	refer(300, typeBundle)
	if a, err = w.service.Verify(w.ctx, w.project(), a.ID); err != nil || a.Verdict.Signature != artifact.Refused ||
		!strings.Contains(a.Verdict.Reason, "more signatures") {
		t.Errorf("300 that are none: %+v, %v", a.Verdict, err)
	}
	w.tag("team/many", digest, s, simple(w.host+"/team/many", digest))
	if a, err = w.service.Verify(w.ctx, w.project(), a.ID); err != nil || a.Verdict.Format != artifact.SimpleSigning {
		t.Errorf("with one of the other form: %+v, %v", a.Verdict, err)
	}
	refer(1500, typeBundle) // more than is read: what counts is found all the same
	if a, err = w.service.Verify(w.ctx, w.project(), a.ID); err != nil || a.Verdict.Format != artifact.SimpleSigning {
		t.Errorf("too many, with one of the other form: %+v, %v", a.Verdict, err)
	}
	digest = w.push("team/many", "more")
	refer(1500, typeBundle)
	_, err = w.register("team/many", digest)
	wantCode(t, "too many, and no other", err, "registry_answer_too_large")
}

// The signature of an index is of the index, and that of a manifest in it is of that
// manifest: neither stands for the other.
func TestAttackAnIndexIsNotItsManifests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	s := newSigner(t)
	w.trust(s, w.acme.Org, w.host+"/team")
	child := w.push("team/index", "weights")
	index := func(salt string) string {
		return w.manifest("team/index", "", map[string]any{
			"schemaVersion": 2, "mediaType": typeIndex, "annotations": map[string]string{"salt": salt},
			"manifests": []any{map[string]any{
				"mediaType": typeManifest, "digest": child, "size": 1,
				"platform": map[string]any{"os": "linux", "architecture": "amd64"},
			}},
		})
	}
	one, two := index("1"), index("2")
	w.refer("team/index", one, s.bundle(statement(one)))
	w.refer("team/index", child, s.bundle(statement(child)))
	a, err := w.register("team/index", one)
	if err != nil || a.Verdict.Signature != artifact.Verified || a.Size != int64(len("weights")) || a.Layers != 1 ||
		len(a.Platforms) != 1 || a.Platforms[0] != (artifact.Platform{
		Platform: "linux/amd64", Digest: child, Size: 7, Layers: 1,
	}) {
		t.Errorf("a signed index: %+v, %v", a, err)
	}
	if got := w.found("team/index", two); got.Signature != artifact.Unsigned {
		t.Errorf("an index with a signed manifest: %+v", got)
	}
	if got, err := w.signed(w.acme, "team/index", child); err != nil || got != "" {
		t.Errorf("the manifest was not registered itself: %v, %v", got, err)
	}
}

func TestKeysThatCannotBeTrusted(t *testing.T) {
	t.Parallel()
	good := newSigner(t).pem()
	w := newWorld(t, false)
	now := time.Now()
	sound := func() artifact.KeyWish {
		return artifact.KeyWish{Name: "a", PEM: good, Repositories: []string{"r.example"}, NotAfter: now.Add(time.Hour)}
	}
	for what, change := range map[string]func(*artifact.KeyWish){
		"no key":         func(k *artifact.KeyWish) { k.PEM = "x" },
		"two keys":       func(k *artifact.KeyWish) { k.PEM = good + good },
		"another block":  func(k *artifact.KeyWish) { k.PEM = strings.ReplaceAll(good, "PUBLIC KEY", "CERTIFICATE") },
		"everywhere":     func(k *artifact.KeyWish) { k.Repositories = nil },
		"an address":     func(k *artifact.KeyWish) { k.Repositories = []string{"https://r.example"} },
		"over already":   func(k *artifact.KeyWish) { k.NotAfter = now.Add(-time.Hour) },
		"for ever":       func(k *artifact.KeyWish) { k.NotAfter = now.AddDate(11, 0, 0) },
		"without a name": func(k *artifact.KeyWish) { k.Name = "" },
	} {
		k := sound()
		change(&k)
		_, err := w.service.Trust(w.ctx, w.acme.Org, k)
		wantCode(t, what, err, "artifact_key_invalid")
	}
	wish := sound()
	if _, err := w.service.Trust(w.ctx, w.acme.Org, wish); err != nil {
		t.Fatal(err)
	}
	_, err := w.service.Trust(w.ctx, w.acme.Org, wish)
	wantCode(t, "the same again", err, "artifact_key_exists")
}
