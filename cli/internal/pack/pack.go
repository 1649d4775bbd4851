// Package pack makes layers of the files of a folder, without a copy of them on the disk:
// a layer is read once for its digest, and once more when it is sent. The same files make
// the same layers, wherever and whenever that is.
package pack

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// alone is the size from which a file is a layer of its own, so that large files are
	// sent and fetched side by side, and gone on with one by one.
	alone = 64 << 20
	// together is how many bytes of smaller files become one layer.
	together = 256 << 20
	// most is how many layers a node fetches.
	most = 500
)

// Layer is some of the files.
type Layer struct {
	Digest string // sha256:…
	Size   int64
	files  []file
}

type file struct {
	name, path string // in the archive, and on the disk
	info       fs.FileInfo
}

// Layers reads a file, or all files of a folder, and says which layers they make.
func Layers(root string) ([]Layer, error) {
	files, err := list(root)
	if err != nil {
		return nil, err
	}
	var out []Layer
	var bytes int64
	add := func(one file) { out[len(out)-1].files = append(out[len(out)-1].files, one) }
	out = append(out, Layer{})
	for _, f := range files { // the small ones first: their layer makes the folders
		if f.info.Size() >= alone {
			continue
		}
		if bytes += f.info.Size(); bytes > together {
			out, bytes = append(out, Layer{}), f.info.Size()
		}
		add(f)
	}
	if len(out[0].files) == 0 {
		out = nil
	}
	for _, f := range files {
		if f.info.Size() >= alone {
			out = append(out, Layer{})
			add(f)
		}
	}
	if len(out) > most {
		return nil, fmt.Errorf("%s has so many large files that they make %d layers, and nodes fetch %d at most: push it in parts",
			root, len(out), most)
	}
	for i := range out {
		if err := out[i].measure(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// list finds the files of a folder, in the order of their names.
func list(root string) ([]file, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() {
		return []file{{info.Name(), root, info}}, nil
	}
	var out []file
	regular := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case info.Mode().IsRegular():
			regular++
		case !info.IsDir():
			return fmt.Errorf("%s is neither a file nor a folder: put what it stands for in its place", path)
		}
		out = append(out, file{filepath.ToSlash(name), path, info})
		return nil
	})
	if err == nil && regular == 0 {
		err = fmt.Errorf("%s holds no file", root)
	}
	return out, err
}

func (l *Layer) measure() error {
	sum := sha256.New()
	n, err := l.WriteTo(sum)
	l.Digest, l.Size = "sha256:"+hex.EncodeToString(sum.Sum(nil)), n
	return err
}

// WriteTo implements io.WriterTo. It fails when a file has changed its size meanwhile.
func (l *Layer) WriteTo(to io.Writer) (int64, error) {
	counted := &counter{to: to}
	archive := tar.NewWriter(counted)
	for _, f := range l.files {
		if err := f.write(archive); err != nil {
			return counted.n, err
		}
	}
	return counted.n, archive.Close()
}

// Open answers a reader of the layer, which the caller closes.
func (l *Layer) Open() io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := l.WriteTo(w)
		_ = w.CloseWithError(err) // never fails
	}()
	return r
}

func (f file) write(archive *tar.Writer) (err error) {
	h := &tar.Header{Name: f.name, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if f.info.Mode()&0o100 != 0 {
		h.Mode = 0o755
	}
	if f.info.IsDir() {
		h.Typeflag, h.Mode, h.Name = tar.TypeDir, 0o755, f.name+"/"
		return archive.WriteHeader(h)
	}
	h.Typeflag, h.Size = tar.TypeReg, f.info.Size()
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	from, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if n, err := io.Copy(archive, io.LimitReader(from, h.Size)); err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	} else if n < h.Size {
		return fmt.Errorf("%s became shorter while it was read", f.path)
	}
	return nil
}

// counter counts what it passes on.
type counter struct {
	to io.Writer
	n  int64
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}
