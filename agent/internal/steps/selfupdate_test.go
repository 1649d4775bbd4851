package steps

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"testing"
	"time"

	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/update"
	"gpuaas/contract/agentwire"
)

// release is a signed package on a machine that runs version 1.0.
func release(t *testing.T, version string) (*bench, agentwire.SelfUpdateParams) {
	t.Helper()
	b := newBench(t)
	b.Install("/opt/gpuaas/agent/1.0/gpuaas-agent")
	b.Write("/opt/gpuaas/agent/1.0/version.txt", "1.0")
	if err := os.Symlink("1.0", b.Path("/opt/gpuaas/agent/current")); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	var raw bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&raw, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewWriter(zipped)
	for name, body := range map[string][]byte{"gpuaas-agent": program, "version.txt": []byte(version)} {
		if err := files.WriteHeader(&tar.Header{
			Name: name, Typeflag: tar.TypeReg, Size: int64(len(body)),
			Mode: 0o644,
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	b.packages.raw = raw.Bytes()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	b.verifiers = agentwire.VerifierSet{
		Version:   1,
		Verifiers: []agentwire.Verifier{{ID: "signer-1", PublicKey: public, State: "active"}},
	}
	sum := sha256.Sum256(raw.Bytes())
	p := agentwire.SelfUpdateParams{
		Action: "update", Version: version, Digest: "sha256:" + hex.EncodeToString(sum[:]),
		SizeBytes: int64(raw.Len()), SignerVersion: "signer-1",
	}
	p.Signature = ed25519.Sign(private, agentwire.PackageSignedBytes(p.Version, p.Digest))
	return b, p
}

// restart acts as the next process of the agent, of the current version.
func (j *job) restart(version string) *update.Store {
	b := j.b
	store := update.New(b.Host(), version, func() time.Time { return b.now })
	b.deps.Updates = store
	j.handler = Registry(b.deps)[j.task.Type]
	return store
}

func (j *job) applyRestarts() {
	j.b.t.Helper()
	if _, err := j.handler.Apply(j.b.t.Context(), j.task); !errors.Is(err, task.ErrRestart) {
		j.b.t.Fatalf("apply: %v", err)
	}
}

func (b *bench) current() string {
	to, err := os.Readlink(b.Path("/opt/gpuaas/agent/current"))
	if err != nil {
		b.t.Fatal(err)
	}
	return to
}

func TestSelfUpdateAndBack(t *testing.T) {
	b, p := release(t, "2.0")
	j := b.job(agentwire.TypeSelfUpdate, p)
	j.mustCheck(false)
	j.applyRestarts()
	if b.current() != "2.0" {
		t.Fatalf("current is %s", b.current())
	}
	store := j.restart("2.0")
	// The check waits until the loop knows.
	answer := make(chan any, 1)
	go func() {
		out, done, err := j.handler.Check(t.Context(), j.task)
		if !done || err != nil {
			t.Errorf("check: %v %v", done, err)
		}
		answer <- out
	}()
	select {
	case out := <-answer:
		t.Fatalf("told before it was known: %+v", out)
	default:
	}
	if err := store.Confirm(); err != nil {
		t.Fatal(err)
	}
	if out := (<-answer).(agentwire.SelfUpdateOutput); out != (agentwire.SelfUpdateOutput{From: "1.0", To: "2.0"}) {
		t.Errorf("output %+v", out)
	}
	j.mustCheck(true)

	// Another task asks for the same version: it is there already.
	again := b.job(agentwire.TypeSelfUpdate, p)
	again.task.TaskID = "task-2"
	again.mustCheck(true)

	back := b.job(agentwire.TypeSelfUpdate, agentwire.SelfUpdateParams{Action: "rollback"})
	back.task.TaskID = "task-3"
	back.mustCheck(false)
	back.applyRestarts()
	if err := back.restart("1.0").Confirm(); err != nil {
		t.Fatal(err)
	}
	out, done := back.check()
	if want := (agentwire.SelfUpdateOutput{From: "2.0", To: "1.0", RolledBack: true}); !done || out != want ||
		b.current() != "1.0" {
		t.Errorf("output %+v, current %s", out, b.current())
	}
}

func TestAnUpdateThatIsTakenBackFails(t *testing.T) {
	b, p := release(t, "2.0")
	j := b.job(agentwire.TypeSelfUpdate, p)
	j.applyRestarts()
	if err := j.restart("2.0").Rollback("no contact in time"); err != nil {
		t.Fatal(err)
	}
	j.restart("1.0")
	out, _, err := j.handler.Check(t.Context(), j.task)
	wantCode(t, err, "update_rolled_back")
	if got := out.(agentwire.SelfUpdateOutput); !got.RolledBack || got.To != "1.0" || got.Reason != "no contact in time" ||
		b.current() != "1.0" {
		t.Errorf("output %+v, current %s", got, b.current())
	}
}

// A crash after the record and before the link: the next attempt activates
// without fetching again.
func TestAnUpdateThatWasCutShortGoesOn(t *testing.T) {
	b, p := release(t, "2.0")
	j := b.job(agentwire.TypeSelfUpdate, p)
	j.applyRestarts()
	if err := errors.Join(os.Remove(b.Path("/opt/gpuaas/agent/current")),
		os.Symlink("1.0", b.Path("/opt/gpuaas/agent/current"))); err != nil {
		t.Fatal(err)
	}
	j.restart("1.0")
	j.mustCheck(false)
	j.applyRestarts()
	if b.current() != "2.0" || b.packages.fetched != 1 {
		t.Errorf("current %s, fetched %d times", b.current(), b.packages.fetched)
	}
}

func TestSelfUpdateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(b *bench, p *agentwire.SelfUpdateParams)
		code    string
		fetches int
	}{
		"a wrong signature": {
			func(_ *bench, p *agentwire.SelfUpdateParams) { p.Signature[0] ^= 1 }, "package_signature",
			0,
		},
		"an unknown signer": {
			func(_ *bench, p *agentwire.SelfUpdateParams) { p.SignerVersion = "other" },
			"package_signature", 0,
		},
		"a revoked signer": {func(b *bench,
			p *agentwire.SelfUpdateParams,
		) {
			b.verifiers.Revoked = []string{"signer-1"}
		}, "package_signature", 0},
		"another version": {
			func(_ *bench, p *agentwire.SelfUpdateParams) { p.Version = "3.0" }, "package_signature",
			0,
		},
		"other bytes": {func(b *bench,
			_ *agentwire.SelfUpdateParams,
		) {
			b.packages.raw[len(b.packages.raw)-1] ^= 1
		}, "digest_mismatch", 1},
		"a store that is away": {
			func(b *bench, _ *agentwire.SelfUpdateParams) { b.packages.err = errors.New("503") },
			"package_unavailable", 1,
		},
		"nothing to go back to": {func(_ *bench,
			p *agentwire.SelfUpdateParams,
		) {
			*p = agentwire.SelfUpdateParams{Action: "rollback"}
		}, "no_previous_version", 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, p := release(t, "2.0")
			c.spoil(b, &p)
			j := b.job(agentwire.TypeSelfUpdate, p)
			j.applyFails(c.code)
			j.mustCheck(false)
			if b.packages.fetched != c.fetches || b.current() != "1.0" || b.Exists("/var/lib/gpuaas/update.json") {
				t.Errorf("fetched %d times, current %s", b.packages.fetched, b.current())
			}
		})
	}
}
