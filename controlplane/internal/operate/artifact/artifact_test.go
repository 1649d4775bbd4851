package artifact_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/adapter/registry"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/operate/policy"
)

func TestTheLifecycleIsSound(t *testing.T) {
	t.Parallel()
	for _, err := range artifact.Lifecycle.Validate() {
		t.Error(err)
	}
}

// What a tenant registers is seen and felt by itself alone; what the platform registers,
// by all.
func TestAttackArtifactsOfAnotherTenantAreNotSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	digest := w.push("team/llm", "weights")
	mine, err := w.register("team/llm", digest)
	if err != nil {
		t.Fatal(err)
	}
	if mine.Size != int64(len("weights")) || mine.Layers != 1 || mine.ArtifactType != "application/vnd.example.model" {
		t.Errorf("registered: %+v", mine)
	}
	global, err := w.service.Register(w.ctx, artifact.Owner{}, artifact.Wish{
		Name: "base", Kind: artifact.OCI, Source: w.host + "/team/base@" + w.push("team/base", "base"),
	})
	if err != nil {
		t.Fatal(err)
	}
	list := func(by artifact.Owner) (names []string) {
		t.Helper()
		all, err := w.service.List(w.ctx, by, artifact.Filter{}, postgres.Slice[id.Artifact]{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			names = append(names, a.Name)
		}
		return names
	}
	stranger := artifact.Owner{Org: w.other}
	for by, want := range map[artifact.Owner]string{
		w.project(): "llm base", {Org: w.acme.Org}: "base", stranger: "base", {}: "base",
	} {
		if got := strings.Join(list(by), " "); got != want {
			t.Errorf("%s sees %q, want %q", by, got, want)
		}
	}
	_, err = w.service.Get(w.ctx, stranger, mine.ID)
	wantCode(t, "read by a stranger", err, "artifact_not_found")
	for _, event := range []artifact.Event{artifact.Deprecate, artifact.Revoke, artifact.Retire} {
		_, err = w.service.Move(w.ctx, stranger, mine.ID, event, "no")
		wantCode(t, "moved by a stranger", err, "artifact_not_found")
		_, err = w.service.Move(w.ctx, w.project(), global.ID, event, "no")
		wantCode(t, "that of the platform", err, "artifact_of_other_level")
	}
	_, err = w.service.Verify(w.ctx, stranger, mine.ID)
	wantCode(t, "verified by a stranger", err, "artifact_not_found")

	if _, err = w.service.Move(w.ctx, w.project(), mine.ID, artifact.Revoke, "it is poisoned"); err != nil {
		t.Fatal(err)
	}
	_, err = w.signed(w.acme, "team/llm", digest)
	wantCode(t, "revoked", err, "artifact_revoked")
	if _, err = w.signed(policy.Owner{Org: w.other}, "team/llm", digest); err != nil {
		t.Errorf("a stranger feels the revocation: %v", err)
	}
	_, err = w.service.Move(w.ctx, w.project(), mine.ID, artifact.Retire, "gone")
	if err == nil {
		t.Error("what is revoked was retired")
	}
	_, err = w.register("team/llm", digest)
	wantCode(t, "registered again", err, "artifact_exists")
}

// A tenant registers what a policy lets it fetch, and nothing without one.
func TestAttackATenantRegistersWhatAPolicyAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	digest := w.push("team/llm", "weights")
	policies := func(sources ...string) {
		t.Helper()
		w.exec(`DELETE FROM operation_policy_overrides`)
		if sources != nil {
			w.exec(`INSERT INTO operation_policy_overrides (operation_type, scope, allowed_artifact_sources, max_artifact_size_bytes, updated_by)
				VALUES ('*', 'global', $1, 7, 'test')`, sources)
		}
	}
	policies()
	_, err := w.register("team/llm", digest)
	wantCode(t, "without a policy", err, "artifact_denied_by_policy")
	if err != nil && !strings.Contains(err.Error(), "no policy for all operations says where") {
		t.Errorf("it does not say why: %v", err)
	}
	policies(w.host + "/tea")
	_, err = w.register("team/llm", digest)
	wantCode(t, "elsewhere", err, "artifact_denied_by_policy")
	policies(w.host + "/team")
	_, err = w.register("team/big", w.push("team/big", "weights!"))
	wantCode(t, "too large", err, "artifact_denied_by_policy")
	if _, err = w.register("team/llm", digest); err != nil {
		t.Error(err)
	}
	policies()
	if _, err = w.service.Register(w.ctx, artifact.Owner{}, artifact.Wish{
		Name: "llm", Kind: artifact.OCI, Source: w.host + "/team/llm@" + digest,
	}); err != nil {
		t.Errorf("the platform: %v", err)
	}
}

func TestWhatCannotBeRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	digest := digestOf([]byte("x"))
	oci := artifact.Wish{Name: "a", Kind: artifact.OCI, Source: w.host + "/team/llm@" + digest}
	file := artifact.Wish{
		Name: "a", Kind: artifact.HTTPS, Source: "https://models.example/w", Digest: digest, Size: 5 << 30,
	}
	for what, c := range map[string]struct {
		wish   artifact.Wish
		change func(*artifact.Wish)
		code   string
	}{
		"a tag":             {oci, func(v *artifact.Wish) { v.Source = w.host + "/team/llm:latest" }, "artifact_invalid"},
		"a size of its own": {oci, func(v *artifact.Wish) { v.Size = 1 }, "artifact_invalid"},
		"two digests":       {oci, func(v *artifact.Wish) { v.Digest = digestOf(nil) }, "artifact_invalid"},
		"what is not there": {oci, func(*artifact.Wish) {}, "artifact_not_in_registry"},
		"a query":           {file, func(v *artifact.Wish) { v.Source += "?sig=secret" }, "artifact_invalid"},
		"plain http":        {file, func(v *artifact.Wish) { v.Source = "http://models.example/w" }, "artifact_invalid"},
		"without a size":    {file, func(v *artifact.Wish) { v.Size = 0 }, "artifact_invalid"},
		"a bad label":       {file, func(v *artifact.Wish) { v.Labels = map[string]string{"A B": "c"} }, "artifact_invalid"},
		"a bad name":        {file, func(v *artifact.Wish) { v.Name = "A" }, "artifact_invalid"},
	} {
		c.change(&c.wish)
		_, err := w.service.Register(w.ctx, w.project(), c.wish)
		wantCode(t, what, err, c.code)
	}
	made, err := w.service.Register(w.ctx, w.project(), file)
	if err != nil || made.Verdict.Signature != artifact.Unsigned || made.Size != file.Size {
		t.Errorf("a file: %+v, %v", made, err)
	}
	_, err = w.service.Verify(w.ctx, w.project(), made.ID)
	wantCode(t, "the signature of a file", err, "artifact_not_signable")
}

// The control plane asks no registry in its own networks, whatever the name resolves to.
func TestAttackARegistryInOurNetworksIsNotAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	s := w.with(registry.Config{Guard: guard.Config{}, PlainHTTP: []string{w.host}})
	w.exec(`DELETE FROM operation_policy_overrides`)
	_, port, _ := strings.Cut(w.host, ":")
	for _, host := range []string{w.host, "localhost:" + port, "169.254.169.254", "10.0.0.1"} {
		_, err := s.Register(w.ctx, artifact.Owner{}, artifact.Wish{
			Name: "llm", Kind: artifact.OCI, Source: host + "/team/llm@" + digestOf(nil),
		})
		wantCode(t, host, err, "registry_address_refused")
	}
}
