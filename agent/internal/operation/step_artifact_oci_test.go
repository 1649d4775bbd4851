package operation

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gpuaas/agent/internal/oci/ocitest"
	"gpuaas/contract/agentwire"
)

// shelf is a registry with artifacts.
type shelf struct{ *ocitest.Registry }

// artifact puts a manifest of layers into the registry, each with the files of one map.
func (s shelf) artifact(t *testing.T, layers ...map[string]string) (digest string, blobs []string) {
	t.Helper()
	for _, files := range layers {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for name, content := range files {
			err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644})
			if err == nil {
				_, err = w.Write([]byte(content))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		blobs = append(blobs, s.Blob(out.Bytes()))
	}
	return s.Manifest("application/vnd.oci.image.layer.v1.tar", blobs...), blobs
}

// pull is a step that unpacks an artifact.
func (s shelf) pull(digest, path, more string) string {
	return fmt.Sprintf(`{"reference":"%s/team/model@%s","plain_http":true,"bytes":1048576,"path":%q%s}`,
		strings.TrimPrefix(s.URL, "http://"), digest, path, more)
}

func TestAnArtifactIsUnpackedOnce(t *testing.T) {
	b, s := newBench(t), shelf{ocitest.New(t)}
	first, blobs := s.artifact(t, map[string]string{"a/one": "1", "b": "2"}, map[string]string{"a/.wh.one": "", "c": "3"})
	const path = "/srv/models/llm"
	b.plan = true
	wantOutcome(t, b.one(agentwire.StepArtifactPullOCI, s.pull(first, path, `,"folders":true`)), agentwire.StepPlanned, true)
	if b.plan = false; b.Exists("/srv/models") {
		t.Error("a plan makes something")
	}
	o := b.one(agentwire.StepArtifactPullOCI, s.pull(first, path, `,"folders":true`))
	wantOutcome(t, o, agentwire.StepSucceeded, true)
	if out := outputOf[agentwire.ArtifactPullOCIResult](t, o); out.Layers != 2 || out.Files != 3 || out.Digest != first {
		t.Errorf("%+v", out)
	}
	if b.Exists(path+"/a/one") || b.Read(path+"/c") != "3" || b.Exists("/srv/models/.gpuaas-llm.oci") {
		t.Error("the folder is not as wanted, or something was left beside it")
	}
	wantOutcome(t, b.one(agentwire.StepArtifactPullOCI, s.pull(first, path, "")), agentwire.StepSucceeded, false)
	if s.Asked(blobs[0]) != 1 {
		t.Errorf("a layer was fetched %d times", s.Asked(blobs[0]))
	}
	// What somebody changed is noticed, and another artifact takes the place as a whole.
	b.Write(path+"/c", "changed")
	wantOutcome(t, b.one(agentwire.StepArtifactPullOCI, s.pull(first, path, "")), agentwire.StepSucceeded, true)
	if b.Read(path+"/c") != "3" {
		t.Error("the change is still there")
	}
	second, _ := s.artifact(t, map[string]string{"d": "4"})
	wantOutcome(t, b.one(agentwire.StepArtifactPullOCI, s.pull(second, path, "")), agentwire.StepSucceeded, true)
	if b.Exists(path+"/c") || b.Read(path+"/d") != "4" {
		t.Error("the folder is not the second artifact")
	}
}

// Whatever moment a process dies at, the next one ends with the right folder and fetches
// no layer twice.
func TestUnpackingSurvivesADyingAgent(t *testing.T) {
	for _, at := range []string{"begun", "fetched", "unpacked", "recorded", "renamed", "applied"} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s-%v", at, before), func(t *testing.T) {
				b, s := newBench(t), shelf{ocitest.New(t)}
				if before {
					old, _ := s.artifact(t, map[string]string{"old": "1"})
					b.one(agentwire.StepArtifactPullOCI, s.pull(old, "/srv/a", `,"folders":true`))
				}
				digest, blobs := s.artifact(t, map[string]string{"new": "2"})
				pull := step("only", agentwire.StepArtifactPullOCI, s.pull(digest, "/srv/a", `,"folders":true`))
				b.notes = &notes{values: map[string]string{}}
				died := false
				b.deps.Hook = func(p string) {
					if p == "only:"+at && !died {
						died = true
						runtime.Goexit()
					}
				}
				var process sync.WaitGroup
				process.Go(func() { b.run(pull) })
				process.Wait()
				b.notes = b.notes.copy()
				o := b.run(pull)[0]
				if !died || o.Status != agentwire.StepSucceeded || !o.Changed || b.Read("/srv/a/new") != "2" ||
					b.Exists("/srv/a/old") || b.Exists("/srv/.gpuaas-a.oci") {
					t.Errorf("died %v, %+v", died, o)
				}
				if s.Asked(blobs[0]) != 1 {
					t.Errorf("the layer was fetched %d times", s.Asked(blobs[0]))
				}
			})
		}
	}
}

func TestArtifactsThatAreNotUnpacked(t *testing.T) {
	b, s := newBench(t), shelf{ocitest.New(t)}
	b.Mkdir("/srv")
	good, blobs := s.artifact(t, map[string]string{"a": "1"})
	hostile, _ := s.artifact(t, map[string]string{"../a": "1"})
	wantFailure(t, b.one(agentwire.StepArtifactPullOCI, s.pull(hostile, "/srv/a", "")), "archive_refused",
		agentwire.FailurePolicy)
	wantFailure(t, b.one(agentwire.StepArtifactPullOCI, s.pull("sha256:"+digest(nil), "/srv/a", "")), "source_not_found",
		agentwire.FailurePermanent)
	wantFailure(t, b.one(agentwire.StepArtifactPullOCI, s.pull(good, "/srv/a", `,"keep_free_mib":1073741824`)), "no_space",
		agentwire.FailurePermanent)
	// A tampered layer is refused before a byte of it reaches the folder.
	s.Replace(blobs[0], bytes.Repeat([]byte{1}, 2048))
	wantFailure(t, b.one(agentwire.StepArtifactPullOCI, s.pull(good, "/srv/a", "")), "integrity_mismatch",
		agentwire.FailurePermanent)
	if b.Exists("/srv/a") {
		t.Error("something of it was put in place")
	}
	// What somebody else made is left alone.
	b.Write("/srv/theirs/file", "keep me")
	if err := errors.Join(os.Symlink(b.Path("/srv/theirs"), b.Path("/srv/link")),
		os.WriteFile(b.Path("/srv/file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]string{
		"/srv/theirs": "folder_in_use", "/srv/link": "path_denied", "/srv/file": "path_denied",
	} {
		wantFailure(t, b.one(agentwire.StepArtifactPullOCI, s.pull(good, path, "")), code, agentwire.FailurePolicy)
	}
	if b.Read("/srv/theirs/file") != "keep me" {
		t.Error("what somebody else made was changed")
	}
	// Neither is a folder that they made where ours was.
	fresh, _ := s.artifact(t, map[string]string{"a": "2"})
	wantOutcome(t, b.one(agentwire.StepArtifactPullOCI, s.pull(fresh, "/srv/ours", "")), agentwire.StepSucceeded, true)
	if err := os.RemoveAll(b.Path("/srv/ours")); err != nil { // the number of the folder is free again
		t.Fatal(err)
	}
	b.Write("/srv/ours/file", "keep me")
	wantFailure(t, b.one(agentwire.StepArtifactPullOCI, s.pull(fresh, "/srv/ours", "")), "folder_in_use",
		agentwire.FailurePolicy)
}
