package operation

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

// shop is a server with one file.
type shop struct {
	*httptest.Server
	content []byte
	asked   atomic.Int64
}

func newShop(t *testing.T, size int) *shop {
	t.Helper()
	s := &shop{content: bytes.Repeat([]byte("0123456789abcdef"), size/16)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.content))
	}))
	t.Cleanup(s.Close)
	return s
}

// pull is a step that fetches the file.
func (s *shop) pull(path, more string) string {
	return fmt.Sprintf(`{"url":"%s/file","sha256":%q,"bytes":%d,"path":%q%s}`, s.URL, digest(s.content), len(s.content),
		path, more)
}

func TestAFileIsFetchedOnce(t *testing.T) {
	b, s := newBench(t), newShop(t, 1<<20)
	const path = "/srv/models/a"
	wantFailure(t, b.one(agentwire.StepArtifactPullBlob, s.pull(path, "")), "folder_missing", agentwire.FailurePermanent)
	b.plan = true
	wantOutcome(t, b.one(agentwire.StepArtifactPullBlob, s.pull(path, `,"folders":true`)), agentwire.StepPlanned, true)
	if b.plan = false; s.asked.Load() != 0 || b.Exists("/srv/models") {
		t.Error("a plan fetches or makes something")
	}
	wantOutcome(t, b.one(agentwire.StepArtifactPullBlob, s.pull(path, `,"folders":true`)), agentwire.StepSucceeded, true)
	if b.Read(path) != string(s.content) || s.asked.Load() != 1 {
		t.Errorf("other content, or %d requests", s.asked.Load())
	}
	left, err := os.ReadDir(b.Path("/srv/models"))
	if err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
	o := b.one(agentwire.StepArtifactPullBlob, s.pull(path, ""))
	wantOutcome(t, o, agentwire.StepSucceeded, false)
	if out := outputOf[agentwire.ArtifactPullBlobResult](t, o); s.asked.Load() != 1 || out.Bytes != 1<<20 {
		t.Errorf("%+v, %d requests", out, s.asked.Load())
	}
	// Another mode is set without fetching it again, another content is replaced.
	wantOutcome(t, b.one(agentwire.StepArtifactPullBlob, s.pull(path, `,"mode":"0640"`)), agentwire.StepSucceeded, true)
	info, err := os.Stat(b.Path(path))
	if err != nil || info.Mode().Perm() != 0o640 || s.asked.Load() != 1 {
		t.Errorf("%v %v", info, err)
	}
	b.Write(path, strings.Repeat("x", 1<<20))
	wantOutcome(t, b.one(agentwire.StepArtifactPullBlob, s.pull(path, "")), agentwire.StepSucceeded, true)
	if b.Read(path) != string(s.content) {
		t.Error("other content")
	}
}

// Whatever moment a process dies at, the next one ends with the right file and fetches
// nothing that is there.
func TestAFetchSurvivesADyingAgent(t *testing.T) {
	for _, at := range []string{"only:begun", "only:fetched", "only:given", "only:renamed", "only:applied", "only:done"} {
		t.Run(at, func(t *testing.T) {
			b, s := newBench(t), newShop(t, 1<<20)
			pull := step("only", agentwire.StepArtifactPullBlob, s.pull("/srv/a", `,"folders":true`))
			died := false
			b.deps.Hook = func(p string) {
				if p == at && !died {
					died = true
					runtime.Goexit()
				}
			}
			var process sync.WaitGroup
			process.Go(func() { b.run(pull) })
			process.Wait()
			b.notes = b.notes.copy()
			o := b.run(pull)[0]
			if !died || o.Status != agentwire.StepSucceeded || !o.Changed || b.Read("/srv/a") != string(s.content) {
				t.Errorf("died %v, %+v", died, o)
			}
			if s.asked.Load() > 1 {
				t.Errorf("%d requests for one part", s.asked.Load())
			}
		})
	}
}

func TestFilesThatAreNotFetched(t *testing.T) {
	b, s := newBench(t), newShop(t, 1<<20)
	b.Mkdir("/srv")
	good := s.pull("/srv/a", "")
	for _, c := range []struct{ with, code, class string }{
		{s.pull("/srv/a", `,"keep_free_mib":1073741824`), "no_space", agentwire.FailurePermanent},
		{
			strings.Replace(good, digest(s.content), digest([]byte("other")), 1), "integrity_mismatch",
			agentwire.FailurePermanent,
		},
		{strings.Replace(good, "1048576", "1048577", 1), "source_changed", agentwire.FailurePermanent},
		{s.pull("/srv/a", `,"owner":"nobodyelse"`), "account_missing", agentwire.FailurePermanent},
	} {
		wantFailure(t, b.one(agentwire.StepArtifactPullBlob, c.with), c.code, c.class)
		if b.Exists("/srv/a") {
			t.Fatalf("%s left a file", c.code)
		}
	}
	// A link of a tenant, or a folder that somebody else may change, is not followed.
	outside := t.TempDir()
	if err := errors.Join(os.Symlink(outside, b.Path("/srv/link")), os.Mkdir(b.Path("/srv/open"), 0o700),
		os.Chmod(b.Path("/srv/open"), 0o777), os.Symlink(outside+"/x", b.Path("/srv/file"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/srv/link/a", "/srv/open/a", "/srv/file"} {
		wantFailure(t, b.one(agentwire.StepArtifactPullBlob, s.pull(path, "")), "path_denied", agentwire.FailurePolicy)
		wantFailure(t, b.one(agentwire.StepArtifactVerify, fmt.Sprintf(`{"path":%q,"sha256":%q}`, path, digest(nil))),
			"path_denied", agentwire.FailurePolicy)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

// What lies beside the place under the name of the step's own file is not trusted.
func TestAttackAFileBesideIsNotWrittenThrough(t *testing.T) {
	b, s := newBench(t), newShop(t, 1<<20)
	b.Mkdir("/srv")
	precious := b.Path("/etc/precious")
	b.Write("/etc/precious", "keep me")
	for _, plant := range []func(old, name string) error{os.Symlink, os.Link} {
		for _, suffix := range []string{partSuffix, notesSuffix} {
			beside := b.Path("/srv/.gpuaas-a" + suffix)
			if err := plant(precious, beside); err != nil {
				t.Fatal(err)
			}
			o := b.one(agentwire.StepArtifactPullBlob, s.pull("/srv/a", ""))
			if o.Status != agentwire.StepFailed || b.Read("/etc/precious") != "keep me" {
				t.Errorf("%+v", o)
			}
			if err := os.Remove(beside); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(b.Path("/srv/.gpuaas-a" + partSuffix)) // the step may have begun it
		}
	}
}

func TestAFileIsComparedWithItsDigest(t *testing.T) {
	b := newBench(t)
	b.Write("/srv/a", "right")
	compare := func(path, content string, size int) agentwire.StepOutcome {
		t.Helper()
		return b.one(agentwire.StepArtifactVerify,
			fmt.Sprintf(`{"path":%q,"sha256":%q,"bytes":%d}`, path, digest([]byte(content)), size))
	}
	for _, size := range []int{0, 5} {
		wantOutcome(t, compare("/srv/a", "right", size), agentwire.StepSucceeded, false)
	}
	wantFailure(t, compare("/srv/a", "wrong", 5), "integrity_mismatch", agentwire.FailurePermanent)
	wantFailure(t, compare("/srv/a", "right", 6), "integrity_mismatch", agentwire.FailurePermanent)
	wantFailure(t, compare("/srv/b", "right", 5), "file_missing", agentwire.FailurePermanent)
	b.plan = true
	wantOutcome(t, compare("/srv/b", "right", 5), agentwire.StepPlanned, false)
}
