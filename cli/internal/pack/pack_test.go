package pack_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/cli/internal/pack"
)

func write(t *testing.T, root, name string, size int64) {
	t.Helper()
	path := filepath.Join(root, name)
	f, err := os.Create(path)
	if err != nil {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			f, err = os.Create(path)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil { // holes: they are read as zeros
		t.Fatal(err)
	}
}

func TestLayersOfAFolder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "config.json", 3)
	write(t, root, "sub/run.sh", 5)
	write(t, root, "weights/one.bin", 64<<20)
	write(t, root, "weights/two.bin", 65<<20)
	if err := os.Chmod(filepath.Join(root, "sub/run.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	layers, err := pack.Layers(root)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, l := range layers {
		from := l.Open()
		sum := sha256.New()
		archive := tar.NewReader(io.TeeReader(from, sum))
		var names []string
		for {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Name == "sub/run.sh" && h.Mode != 0o755 || !h.ModTime.Equal(time.Unix(0, 0)) || h.Uname != "" {
				t.Errorf("%+v", h)
			}
			names = append(names, h.Name)
		}
		if _, err := io.Copy(sum, from); err != nil { // the end of the archive
			t.Fatal(err)
		}
		if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != l.Digest {
			t.Errorf("sent as %s, measured as %s", got, l.Digest)
		}
		got = append(got, names)
	}
	want := [][]string{{"config.json", "sub/", "sub/run.sh", "weights/"}, {"weights/one.bin"}, {"weights/two.bin"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("layers: %q, want %q", got, want)
	}
	again, err := pack.Layers(root)
	if err != nil || again[0].Digest != layers[0].Digest {
		t.Errorf("made again: %v, %v", again, err)
	}
}

func TestWhatCannotBePushed(t *testing.T) {
	t.Parallel()
	empty, links := t.TempDir(), t.TempDir()
	write(t, links, "a", 1)
	if err := os.Symlink("/etc/passwd", filepath.Join(links, "link")); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{
		empty: "holds no file", links: "neither a file nor a folder", filepath.Join(empty, "none"): "no such file",
	} {
		if _, err := pack.Layers(root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", root, err, want)
		}
	}
}

// A file that changes between the two times that it is read is noticed.
func TestAFileThatChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	layers, err := pack.Layers(file)
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	if err := os.WriteFile(file, []byte("now"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := layers[0].WriteTo(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "became shorter") {
		t.Errorf("it became shorter: %v", err)
	}
}
