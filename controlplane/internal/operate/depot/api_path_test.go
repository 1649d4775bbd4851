package depot

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpuaas/controlplane/internal/base/fault"
)

func TestPaths(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for path, want := range map[string]request{
		"/v2/":                                            {object: base},
		"/v2/acme/training/llm/tags/list":                 {tags, "acme/training/llm", ""},
		"/v2/acme/training/llm/manifests/v1":              {manifests, "acme/training/llm", "v1"},
		"/v2/acme/training/llm/manifests/" + digest:       {manifests, "acme/training/llm", digest},
		"/v2/acme/training/llm/blobs/" + digest:           {blobs, "acme/training/llm", digest},
		"/v2/acme/training/llm/referrers/" + digest:       {referrers, "acme/training/llm", digest},
		"/v2/acme/training/llm/blobs/uploads/":            {uploads, "acme/training/llm", ""},
		"/v2/acme/training/manifests/manifests/latest":    {manifests, "acme/training/manifests", "latest"},
		"/v2/acme/training/blobs/uploads/manifests/v1":    {},
		"/v2/_catalog":                                    {},
		"/v2/acme/training/llm":                           {},
		"/v2/acme/training/llm/blobs/latest":              {},
		"/v2/acme/training/llm/manifests/sha256:short":    {},
		"/v2/acme/../other/llm/manifests/v1":              {},
		"/v2/ACME/training/llm/manifests/v1":              {},
		"/v2/acme//training/llm/manifests/v1":             {},
		"/v2/acme/training/llm/blobs/uploads/../../x":     {},
		"/v2/acme/training/llm/manifests/" + digest + "/": {},
		"/v1/acme/training/llm/tags/list":                 {},
		"/v2/" + strings.Repeat("a", 256) + "/tags/list":  {},
	} {
		got, ok := parse(path)
		if ok != (want.object != "") || ok && got != want {
			t.Errorf("%s: %+v, %v", path, got, ok)
		}
	}
}

// Whatever a path is, what it is taken for names one repository and one object of it, and
// whoever may only read changes nothing.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/v2/", "/v2/a/b/c/tags/list", "/v2/a/blobs/uploads/b/manifests/c", "/v2/a/b/c/blobs/uploads/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r, ok := parse(path)
		if !ok || r.object == base {
			return
		}
		again := map[object]string{
			tags: "/v2/" + r.repository + "/tags/list", uploads: "/v2/" + r.repository + "/blobs/uploads/" + r.reference,
		}[r.object]
		if again == "" {
			again = "/v2/" + r.repository + "/" + string(r.object) + "/" + r.reference
		}
		if again != path || !repositoryForm.MatchString(r.repository) {
			t.Fatalf("%q is taken for %+v", path, r)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if !r.writes(method) {
				t.Fatalf("%s %q counts as reading", method, path)
			}
		}
	})
}

// A push ends before the file system is full: of its bytes, or of its files.
func TestRoomIsKept(t *testing.T) {
	t.Parallel()
	const block, gib = 4096, 1 << 18 // bytes, and blocks
	for name, c := range map[string]struct {
		fs   unix.Statfs_t
		full bool
	}{
		"enough":          {unix.Statfs_t{Bsize: block, Blocks: 100 * gib, Bavail: 10 * gib, Files: 100, Ffree: 10}, false},
		"below a tenth":   {unix.Statfs_t{Bsize: block, Blocks: 100 * gib, Bavail: 9 * gib, Files: 100, Ffree: 10}, true},
		"below 2 GiB":     {unix.Statfs_t{Bsize: block, Blocks: 10 * gib, Bavail: 2*gib - 1, Files: 100, Ffree: 10}, true},
		"too few files":   {unix.Statfs_t{Bsize: block, Blocks: 100 * gib, Bavail: 10 * gib, Files: 100, Ffree: 9}, true},
		"files uncounted": {unix.Statfs_t{Bsize: block, Blocks: 100 * gib, Bavail: 10 * gib}, false},
	} {
		err := roomOf(c.fs)
		if (fault.CodeOf(err) == "registry_full") != c.full || !c.full && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
