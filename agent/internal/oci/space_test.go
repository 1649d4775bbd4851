package oci_test

import (
	"archive/tar"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"gpuaas/agent/internal/blob"
	"gpuaas/agent/internal/oci"
	"gpuaas/agent/internal/oci/ocitest"
)

// No layer is fetched where the file system has no space for all of them and their files,
// and what was unpacked until space ran out is removed.
func TestAFileSystemWithoutSpace(t *testing.T) {
	r := ocitest.New(t)
	layer := r.Blob(archive(t, tar.Header{Name: "a"}))
	want := oci.Want{
		Sources: []string{r.URL + "/v2/team/model"}, Architecture: "amd64", MostBytes: 1 << 20,
		Digest: r.Manifest(layerTar, layer),
	}
	a, err := oci.Resolve(t.Context(), blob.Fetcher{}, want)
	if err != nil {
		t.Fatal(err)
	}
	work, unchanged := folder(t)
	defer unchanged()
	full := func(err error) {
		t.Helper()
		var bad *blob.Error
		if !errors.As(err, &bad) || bad.Reason != blob.NoSpace {
			t.Errorf("a full file system: %v", err)
		}
	}
	full(oci.Fetch{Want: want, KeepFree: 1 << 60}.Layers(t.Context(), work, a))
	if r.Asked(layer) != 0 {
		t.Error("a layer was asked for although there is no space")
	}
	if err := (oci.Fetch{Want: want}).Layers(t.Context(), work, a); err != nil {
		t.Fatal(err)
	}
	_, err = oci.Unpack(t.Context(), work, a, oci.Budget{Bytes: 1 << 20, Files: 10, KeepFree: 1 << 60})
	full(err)
	if err != nil && !strings.Contains(err.Error(), "write a: ") {
		t.Errorf("it does not say which file: %v", err)
	}
	if _, err := work.Stat(oci.TreeFolder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files that were unpacked are still there: %v", err)
	}
	tree, err := oci.Unpack(t.Context(), work, a, oci.Budget{Bytes: 1 << 20, Files: 10})
	if err != nil || tree.Files != 1 {
		t.Errorf("with space: %+v, %v", tree, err)
	}
}
