package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/operate/policy"
)

// The same bytes in another repository are signed there only by whoever may sign for that
// repository.
func TestAttackASignatureForDevDoesNotCountForProd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	dev := newSigner(t)
	w.trust(dev, w.acme.Org, w.host+"/team/dev")
	digest := w.push("team/dev/llm", "weights")
	w.push("team/prod/llm", "weights")
	w.refer("team/dev/llm", digest, dev.bundle(statement(digest)))
	old := w.push("team/dev/old", "older")
	w.tag("team/dev/old", old, dev, simple(w.host+"/team/dev/old", old))
	for repository, of := range map[string]string{"team/dev/llm": digest, "team/dev/old": old} {
		if got := w.found(repository, of); got.Signature != artifact.Verified {
			t.Fatalf("%s: %+v", repository, got)
		}
	}
	for _, c := range []struct {
		repository, digest string
		want               policy.Scope
	}{
		{"team/dev/llm", digest, policy.Tenant},
		{"team/dev/copy", digest, policy.Tenant},
		{"team/prod/llm", digest, ""},
		{"team/dev/old", old, policy.Tenant},
		{"team/dev/copy", old, ""},
		{"team/dev/llm", old, ""},
	} {
		if got, err := w.signed(w.acme, c.repository, c.digest); err != nil || got != c.want {
			t.Errorf("%s@%s: %q, %v, want %q", c.repository, c.digest, got, err, c.want)
		}
	}
}

// What is signed by the platform and by the tenant is signed by the platform, in whichever
// form and order the signatures are.
func TestTheSignatureOfThePlatformIsPreferred(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	mine, platforms := newSigner(t), newSigner(t)
	w.trust(mine, w.acme.Org, w.host)
	w.trust(platforms, id.Org{}, w.host)
	digest := w.push("team/llm", "weights")
	w.refer("team/llm", digest, mine.bundle(statement(digest)))
	w.tag("team/llm", digest, platforms, simple(w.host+"/team/llm", digest))
	if got := w.found("team/llm", digest); got.Format != artifact.SimpleSigning {
		t.Errorf("%+v", got)
	}
	if got, err := w.signed(w.acme, "team/llm", digest); err != nil || got != policy.Global {
		t.Errorf("%q, %v", got, err)
	}
}

// Revoking a manifest reaches the index that names it, and revoking an index reaches the
// manifests that it names.
func TestAttackARevokedManifestIsNotFetchedThroughItsIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	pair := func(name string) (index, child string) {
		child = w.push(name, name)
		return w.manifest(name, "", map[string]any{
			"schemaVersion": 2, "mediaType": typeIndex, "manifests": []any{map[string]any{
				"mediaType": typeManifest, "digest": child, "size": 1,
				"platform": map[string]any{"os": "linux", "architecture": "amd64"},
			}},
		}), child
	}
	for i, revokeIndex := range []bool{false, true} {
		repository := fmt.Sprintf("team/pair%d", i)
		index, child := pair(repository)
		a, err := w.register(repository, index)
		b, also := w.register(repository, child)
		if err = errors.Join(err, also); err != nil {
			t.Fatal(err)
		}
		if !revokeIndex {
			a = b
		}
		if _, err = w.service.Move(w.ctx, w.project(), a.ID, artifact.Revoke, "it is poisoned"); err != nil {
			t.Fatal(err)
		}
		for _, digest := range []string{index, child} {
			_, err = w.signed(w.acme, repository, digest)
			wantCode(t, fmt.Sprintf("revoked index: %v, %s", revokeIndex, digest), err, "artifact_revoked")
			if _, err = w.signed(policy.Owner{Org: w.other}, repository, digest); err != nil {
				t.Errorf("a stranger feels the revocation: %v", err)
			}
		}
	}
}

// Whoever was told that an artifact stands has handed it out before it is revoked.
func TestARevocationWaitsForWhoWasToldOtherwise(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	digest := w.push("team/llm", "weights")
	a, err := w.register("team/llm", digest)
	if err != nil {
		t.Fatal(err)
	}
	revoked := make(chan error, 1)
	err = w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := w.service.Signed(ctx, tx, w.acme, []agentwire.Fetch{{Digest: digest}}); err != nil {
			return err
		}
		go func() {
			_, err := w.service.Move(w.ctx, w.project(), a.ID, artifact.Deprecate, "later")
			revoked <- err
		}()
		for waiting := false; !waiting; { // it is seen to wait, or the test's time ends
			if err := w.owner.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waiting); err != nil {
				return err
			}
			select {
			case err := <-revoked:
				return fmt.Errorf("it did not wait: %w", err)
			default:
			}
		}
		return nil
	})
	if err = errors.Join(err, <-revoked); err != nil {
		t.Error(err)
	}
}

// What a registry says is bounded before it is kept.
func TestAttackARegistrySaysMoreThanIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	layer := w.blob("team/llm", "application/octet-stream", []byte("weights"), nil)
	sound := func() map[string]any {
		return map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "layers": []any{layer}}
	}
	child := w.push("team/llm", "weights")
	index := func(os string) map[string]any {
		return map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []any{map[string]any{
			"mediaType": typeManifest, "digest": child, "size": 1,
			"platform": map[string]any{"os": os, "architecture": "amd64"},
		}}}
	}
	many := make([]any, 501)
	for i := range many {
		many[i] = layer
	}
	for what, m := range map[string]map[string]any{
		"a long type": func() map[string]any {
			m := sound()
			m["artifactType"] = strings.Repeat("a", 256)
			return m
		}(),
		"a type with a zero": func() map[string]any {
			m := sound()
			m["artifactType"] = "a\x00"
			return m
		}(),
		"many layers":     {"schemaVersion": 2, "mediaType": typeManifest, "layers": many},
		"no layer":        {"schemaVersion": 2, "mediaType": typeManifest, "layers": []any{}},
		"version 1":       {"schemaVersion": 1, "mediaType": typeManifest, "layers": []any{layer}},
		"a long platform": index("linux" + strings.Repeat("x", 100)),
		"no linux":        index("windows"),
	} {
		_, err := w.register("team/llm", w.manifest("team/llm", "", m))
		wantCode(t, what, err, "artifact_manifest_invalid")
	}
}

// What is revoked or retired keeps its verdict, and its registry is not asked.
func TestWhatIsRevokedIsNotVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	a, err := w.register("team/llm", w.push("team/llm", "weights"))
	if err == nil {
		_, err = w.service.Move(w.ctx, w.project(), a.ID, artifact.Revoke, "it is poisoned")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.service.Verify(w.ctx, w.project(), a.ID)
	wantCode(t, "verified", err, "artifact_ended")
}

// What was retired can turn out to be bad. What is used counts towards the bound of those
// that can be fetched, and what was ever registered towards that of all.
func TestWhatIsRetiredCanBeRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	move := func(a artifact.Artifact, event artifact.Event) error {
		_, err := w.service.Move(w.ctx, w.project(), a.ID, event, "it is old")
		return err
	}
	digest := w.push("team/llm", "weights")
	old, err := w.register("team/llm", digest)
	if err = errors.Join(err, move(old, artifact.Retire)); err != nil {
		t.Fatal(err)
	}
	again, err := w.register("team/llm", digest)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "while it is registered again", move(old, artifact.Revoke), "artifact_exists")
	if err = errors.Join(move(again, artifact.Retire), move(old, artifact.Revoke)); err != nil {
		t.Fatal(err)
	}
	_, err = w.signed(w.acme, "team/llm", digest)
	wantCode(t, "fetched", err, "artifact_revoked")

	many := func(status artifact.Status, n int) {
		t.Helper()
		w.exec(`INSERT INTO artifacts (id, org_id, project_id, name, kind, source, digest, size, media_type, artifact_type, layers,
			platforms, labels, signature, signature_format, signature_reason, status, created_by, updated_by)
			SELECT gen_random_uuid(), org_id, project_id, name, kind, source || n, digest, size, media_type, artifact_type, layers, platforms, labels,
			'unsigned', '', 'a test', $2, 'test', 'test' FROM artifacts, generate_series(1, $3) AS n WHERE id = $1`, old.ID, status, n)
	}
	many(artifact.Revoked, 2000)
	if _, err = w.register("team/llm", w.push("team/llm", "more")); err != nil {
		t.Errorf("beside 2000 that are revoked: %v", err)
	}
	many(artifact.Retired, 18_000)
	_, err = w.register("team/llm", w.push("team/llm", "too many"))
	wantCode(t, "beside 20000", err, "artifacts_too_many")
}

// A run fetches from repositories of its own project and of the platform in the platform's
// registry; those of others do not exist for it, and are not registered either.
func TestAttackARunFetchesNoRepositoryOfAnotherTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.exec(`INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'second', 'Second')`, id.New[id.Project](), w.acme.Org)
	digest := "sha256:" + strings.Repeat("a", 64)
	asks := func(by policy.Owner, repository string) error {
		return w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := w.service.Signed(ctx, tx, by, []agentwire.Fetch{{
				Source: "https://" + agentwire.PlatformRegistry + "/" + repository + "@" + digest, Digest: digest,
			}})
			return err
		})
	}
	tenant, stranger := policy.Owner{Org: w.acme.Org}, policy.Owner{Org: w.other}
	for _, c := range []struct {
		by         policy.Owner
		repository string
		there      bool
	}{
		{w.acme, "acme/training/llm", true},
		{w.acme, "platform.gpuaas/llm", true},
		{tenant, "acme/second/llm", true},
		{policy.Owner{}, "acme/second/llm", true},
		{w.acme, "acme/second/llm", false},
		{stranger, "acme/training/llm", false},
		{w.acme, "acme/nope/llm", false},
		{w.acme, "acme/llm", false},
		{w.acme, "platform.gpuaas", false},
	} {
		err := asks(c.by, c.repository)
		if c.there && err != nil {
			t.Errorf("%s: %v", c.repository, err)
		}
		if !c.there {
			wantCode(t, c.repository, err, "artifact_repository_unknown")
		}
	}
	_, err := w.service.Register(w.ctx, artifact.Owner(stranger), artifact.Wish{
		Name: "llm", Kind: artifact.OCI, Source: agentwire.PlatformRegistry + "/acme/training/llm@" + digest,
	})
	wantCode(t, "registered by a stranger", err, "artifact_repository_unknown")
}
