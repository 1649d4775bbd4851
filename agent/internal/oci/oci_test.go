package oci_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/agent/internal/blob"
	"gpuaas/agent/internal/oci"
	"gpuaas/agent/internal/oci/ocitest"
)

const (
	layerTar  = "application/vnd.oci.image.layer.v1.tar"
	layerGzip = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// folder is a new folder with something outside of it that must stay as it is.
func folder(t testing.TB) (*os.Root, func()) {
	t.Helper()
	outside := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(outside, "precious"), []byte("keep me"), 0o600),
		os.Mkdir(filepath.Join(outside, "in"), 0o700)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(outside, "in"))
	if err != nil {
		t.Fatal(err)
	}
	return root, func() {
		t.Helper()
		_ = root.Close()
		raw, err := os.ReadFile(filepath.Join(outside, "precious"))
		all, second := os.ReadDir(outside)
		if err := errors.Join(err, second); err != nil || string(raw) != "keep me" || len(all) != 2 {
			t.Errorf("something outside was changed: %q, %v, %v", raw, all, err)
		}
	}
}

func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		content := h.Name
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func put(root *os.Root, raw []byte) error {
	return oci.Put(root, oci.Layer{Type: layerTar, Bytes: int64(len(raw))}, bytes.NewReader(raw),
		&oci.Budget{Bytes: 1 << 20, Files: 100})
}

// Nothing that an archive says is written outside of its folder.
func TestAttackAnArchiveStaysInItsFolder(t *testing.T) {
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	for name, entries := range map[string][]tar.Header{
		"up":               {{Name: "../precious"}},
		"up in the middle": {{Name: "a/../../precious"}},
		"absolute":         {{Name: "/precious"}},
		"a link out":       {link("a", "../precious")},
		"an absolute link": {link("a", "/etc/passwd")},
		"a link far out":   {link("a/b/c", "../../../x")},
		"a link behind a link": {
			{Typeflag: tar.TypeDir, Name: "z", Mode: 0o755}, link("d/e", "../z"), link("d/e/f", "../../precious"),
		},
		"a link up behind a link": {link("s", "."), link("x", "s/s/s/../../../../etc/shadow")},
		"a link up behind a name": {link("x", "a/../../precious")},
		"a name that is deep":     {{Name: strings.Repeat("a/", 100) + "b"}},
		"a second name of out":    {{Typeflag: tar.TypeLink, Name: "a", Linkname: "../precious"}},
		"a second name of a link": {
			link("a", "b"), {Typeflag: tar.TypeLink, Name: "c", Linkname: "a"},
		},
		"a device":       {{Typeflag: tar.TypeBlock, Name: "sda", Devmajor: 8}},
		"a terminal":     {{Typeflag: tar.TypeChar, Name: "tty", Devmajor: 5}},
		"a pipe":         {{Typeflag: tar.TypeFifo, Name: "pipe"}},
		"whiteout of up": {{Name: "a/.wh..."}},
		"empty whiteout": {{Name: "a/.wh."}},
	} {
		t.Run(name, func(t *testing.T) {
			root, unchanged := folder(t)
			defer unchanged()
			var bad *oci.Refused
			if err := put(root, archive(t, entries...)); !errors.As(err, &bad) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// What a link within points to is followed within only.
func TestLinksWithin(t *testing.T) {
	root, unchanged := folder(t)
	defer unchanged()
	if err := put(root, archive(t,
		tar.Header{Name: "usr/bin/tool", Mode: 0o4777},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "bin", Linkname: "usr/bin"},
		tar.Header{Name: "bin/other"},
		tar.Header{Typeflag: tar.TypeLink, Name: "second", Linkname: "usr/bin/tool"},
	)); err != nil {
		t.Fatal(err)
	}
	info, err := root.Lstat("usr/bin/tool")
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v: set-id bits and rights to write must be dropped", info.Mode(), err)
	}
	for _, name := range []string{"usr/bin/other", "second"} {
		if _, err := root.Lstat(name); err != nil {
			t.Error(err)
		}
	}
}

func TestABombIsRefused(t *testing.T) {
	var many []tar.Header
	for i := range 50 {
		many = append(many, tar.Header{Name: fmt.Sprintf("%d/%d/%d", i, i, i)}) // folders count, too
	}
	zeros := func() []byte {
		var out, packed bytes.Buffer
		w := tar.NewWriter(&out)
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: 64 << 20, Mode: 0o644})
		_, _ = w.Write(make([]byte, 64<<20))
		_ = w.Close()
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(out.Bytes())
		_ = z.Close()
		return packed.Bytes()
	}()
	for name, layer := range map[string]struct {
		kind string
		raw  []byte
	}{"files": {layerTar, archive(t, many...)}, "bytes": {layerGzip, zeros}} {
		root, unchanged := folder(t)
		var bad *oci.Refused
		err := oci.Put(root, oci.Layer{Type: layer.kind}, bytes.NewReader(layer.raw), &oci.Budget{Bytes: 1 << 20, Files: 100})
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), "more "+name) {
			t.Errorf("%s: %v", name, err)
		}
		unchanged()
	}
}

// A layer takes away what layers before it wrote, and nothing of its own.
func TestWhiteouts(t *testing.T) {
	root, unchanged := folder(t)
	defer unchanged()
	for _, raw := range [][]byte{
		archive(t, tar.Header{Name: "a/one"}, tar.Header{Name: "a/two"}, tar.Header{Name: "b/one"},
			tar.Header{Name: "b/in/two"}),
		archive(t, tar.Header{Name: "a/.wh.one"}, tar.Header{Name: "b/in/new"}, tar.Header{Name: "b/.wh..wh..opq"},
			tar.Header{Name: "never/.wh..wh..opq"}),
	} {
		if err := put(root, raw); err != nil {
			t.Fatal(err)
		}
	}
	for name, there := range map[string]bool{
		"a/one": false, "a/two": true, "b/one": false, "b/in/two": false, "b/in/new": true,
	} {
		if _, err := root.Lstat(name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Any bytes at all end in a refusal or in files of the folder.
func FuzzPut(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "a"}, tar.Header{Typeflag: tar.TypeSymlink, Name: "b", Linkname: "a"}))
	f.Add(archive(f, tar.Header{Name: "../a"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		root, unchanged := folder(t)
		defer unchanged()
		_ = put(root, raw)
	})
}

func TestAnArtifactIsResolvedByDigestOnly(t *testing.T) {
	r := ocitest.New(t)
	layer := r.Blob(archive(t, tar.Header{Name: "a"}))
	manifest := r.Manifest(layerTar, layer)
	index := r.Index("linux", "riscv64", manifest)
	want := oci.Want{Sources: []string{r.URL + "/v2/team/model"}, Architecture: "riscv64", MostBytes: 1 << 20}
	for digest, sound := range map[string]bool{
		manifest: true, index: true, "sha256:" + strings.Repeat("0", 64): false, "latest": false,
	} {
		want.Digest = digest
		a, err := oci.Resolve(t.Context(), blob.Fetcher{}, want)
		if (err == nil) != sound || sound && (a.Digest != manifest || len(a.Layers) != 1) {
			t.Errorf("%s: %+v, %v", digest, a, err)
		}
	}
	want.Digest, want.Architecture = index, "s390x"
	var bad *oci.Refused
	if _, err := oci.Resolve(t.Context(), blob.Fetcher{}, want); !errors.As(err, &bad) {
		t.Errorf("another architecture: %v", err)
	}
	want.Digest, want.MostBytes = manifest, 10
	if _, err := oci.Resolve(t.Context(), blob.Fetcher{}, want); !errors.As(err, &bad) {
		t.Errorf("too large: %v", err)
	}
	// A registry that exchanges the manifest is caught.
	want.MostBytes = 1 << 20
	r.Replace(manifest, []byte(`{"schemaVersion":2}`))
	var wrong *blob.Error
	if _, err := oci.Resolve(t.Context(), blob.Fetcher{}, want); !errors.As(err, &wrong) || wrong.Reason != blob.Mismatch {
		t.Errorf("exchanged: %v", err)
	}
}

// Two readings of one folder agree, and every change is seen.
func TestASumSeesEveryChange(t *testing.T) {
	root, unchanged := folder(t)
	defer unchanged()
	if err := put(root, archive(t, tar.Header{Name: "a/b"}, tar.Header{Name: "c"})); err != nil {
		t.Fatal(err)
	}
	sum := func() string {
		t.Helper()
		tree, err := oci.Sum(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(tree)
		return string(raw)
	}
	was := sum()
	if sum() != was {
		t.Error("it is not stable")
	}
	for _, c := range []struct {
		name   string
		change func() error
	}{
		{"mode", func() error { return root.Chmod("c", 0o755) }},
		{"content", func() error { return root.WriteFile("a/b", []byte("x/y"), 0o644) }},
		{"name", func() error { return root.Rename("c", "d") }},
		{"link", func() error { return root.Symlink("a", "e") }},
		{"folder", func() error { return root.Mkdir("f", 0o755) }},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		now := sum()
		if now == was {
			t.Errorf("%s was not seen", c.name)
		}
		was = now
	}
}
