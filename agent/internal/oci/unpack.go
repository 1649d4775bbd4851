package oci

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"gpuaas/agent/internal/blob"
)

// Budget bounds what an artifact may become. It is used up by all layers together.
type Budget struct {
	Bytes int64
	Files int
	// KeepFree is how much of the file system is left to others.
	KeepFree int64
}

// Layers of an image that take something away are told by names.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// Put writes what a layer holds into a folder: the files of an archive, or the file
// that the layer is. Nothing is written outside, whatever the archive says.
func Put(root *os.Root, l Layer, from io.Reader, b *Budget) error {
	u := &unpacking{root: root, budget: b, ours: map[string]bool{}}
	switch {
	case strings.HasSuffix(l.Type, ".tar"), strings.HasSuffix(l.Type, "+tar"):
		return u.archive(from)
	case strings.HasSuffix(l.Type, "tar+gzip"), strings.HasSuffix(l.Type, "tar.gzip"):
		plain, err := gzip.NewReader(from)
		if err != nil {
			return refuse("a layer is not compressed as it says: %v", err)
		}
		return u.archive(plain)
	case strings.HasSuffix(l.Type, "zstd"):
		return refuse("layers that are compressed with zstd are not read; push it with gzip")
	case l.Title == "":
		return refuse("a layer of the type %q is no archive and has no name", l.Type)
	}
	return u.entry(&tar.Header{Typeflag: tar.TypeReg, Name: l.Title, Mode: 0o644, Size: l.Bytes}, from)
}

// unpacking is one layer on its way into a folder.
type unpacking struct {
	root   *os.Root
	budget *Budget
	ours   map[string]bool // what this layer wrote: what it takes away is of layers before
}

func (u *unpacking) archive(from io.Reader) error {
	archive := tar.NewReader(from)
	for {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return refuse("a layer is no sound archive: %v", err)
		}
		if err := u.entry(h, archive); err != nil {
			return err
		}
	}
}

func (u *unpacking) entry(h *tar.Header, from io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := inside(h.Name)
	if err != nil || name == "." {
		return err
	}
	u.budget.Files--
	for at := path.Dir(name); at != "." && !u.ours[at]; at = path.Dir(at) {
		u.budget.Files-- // a folder that nobody named
	}
	if u.budget.Files < 0 {
		return refuse("it has more files than are allowed")
	}
	if u.budget.Bytes -= max(h.Size, 0); u.budget.Bytes < 0 {
		return refuse("its files have more bytes than are allowed")
	}
	if base := path.Base(name); strings.HasPrefix(base, whiteout) {
		return u.takeAway(path.Dir(name), base)
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return unwritten(name, err)
	}
	if err := u.write(h, name, from); err != nil {
		return unwritten(name, err)
	}
	for at := name; at != "."; at = path.Dir(at) {
		u.ours[at] = true
	}
	return nil
}

// unwritten says which file was not written, unless the archive is to blame.
func unwritten(name string, err error) error {
	var bad *Refused
	if errors.As(err, &bad) {
		return err
	}
	return fmt.Errorf("write %s: %w", name, err)
}

func (u *unpacking) write(h *tar.Header, name string, from io.Reader) error {
	was, err := u.root.Lstat(name)
	there := err == nil
	if h.Typeflag == tar.TypeDir && there && was.IsDir() {
		return u.root.Chmod(name, mode(h)|0o700)
	}
	if there {
		if err := u.root.RemoveAll(name); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return errors.Join(u.root.Mkdir(name, 0o755), u.root.Chmod(name, mode(h)|0o700))
	case tar.TypeReg:
		return u.file(h, name, from)
	case tar.TypeSymlink:
		return u.link(h, name)
	case tar.TypeLink:
		return u.second(h, name)
	default:
		return refuse("%s is a device or something else that is no file, folder or link", name)
	}
}

// mode drops what gives power: set-id bits, and rights to write for group and others.
func mode(h *tar.Header) fs.FileMode { return fs.FileMode(h.Mode&0o755) | 0o400 }

func (u *unpacking) file(h *tar.Header, name string, from io.Reader) error {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := blob.Room(f, h.Size, u.budget.KeepFree); err != nil {
		return errors.Join(err, f.Close())
	}
	n, err := io.Copy(f, io.LimitReader(from, h.Size))
	if err == nil && n != h.Size {
		err = refuse("%s ends early", name)
	}
	return errors.Join(err, f.Chmod(mode(h)), f.Close())
}

// link makes a symbolic link that leads nowhere outside.
func (u *unpacking) link(h *tar.Header, name string) error {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if info, err := u.root.Lstat(at); err != nil || !info.IsDir() {
			return refuse("the link %s lies behind another link", name)
		}
	}
	if leadsOut(name, h.Linkname) {
		return refuse("the link %s leads to %s, outside of the artifact", name, h.Linkname)
	}
	return u.root.Symlink(h.Linkname, name)
}

// leadsOut says whether a link may lead outside. Only its first steps may go up: what
// comes after a name depends on whether that is a link itself.
func leadsOut(name, to string) bool {
	up, down := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(to, "/") {
		switch part {
		case "", ".":
		case "..":
			if up--; down || up < 0 {
				return true
			}
		default:
			down = true
		}
	}
	return path.IsAbs(to) || strings.ContainsRune(to, 0)
}

// second gives a file that is there a second name.
func (u *unpacking) second(h *tar.Header, name string) error {
	old, err := inside(h.Linkname)
	if err != nil {
		return err
	}
	if info, err := u.root.Lstat(old); err != nil || !info.Mode().IsRegular() {
		return refuse("%s is a second name of %s, which is no file", name, old)
	}
	return u.root.Link(old, name)
}

// takeAway removes what layers before wrote.
func (u *unpacking) takeAway(folder, name string) error {
	if name == opaque {
		return u.clear(folder)
	}
	gone := strings.TrimPrefix(name, whiteout)
	if gone == "" || gone == "." || gone == ".." {
		return refuse("%s/%s takes away nothing", folder, name)
	}
	if gone = path.Join(folder, gone); u.ours[gone] {
		return nil
	}
	if err := u.root.RemoveAll(gone); err != nil {
		return fmt.Errorf("take away %s: %w", gone, err)
	}
	return nil
}

func (u *unpacking) clear(folder string) error {
	all, err := fs.ReadDir(u.root.FS(), folder)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("read %s: %w", folder, err)
	}
	for _, e := range all {
		at := path.Join(folder, e.Name())
		switch {
		case !u.ours[at]:
			err = u.root.RemoveAll(at)
		case e.IsDir():
			err = u.clear(at)
		}
		if err != nil {
			return fmt.Errorf("take away %s: %w", at, err)
		}
	}
	return nil
}

// deepest is how many folders a file may lie in.
const deepest = 64

// inside is the plain form of a name that stays in its folder.
func inside(name string) (string, error) {
	bad := name == "" || len(name) > 4000 || strings.Count(name, "/") > deepest || path.IsAbs(name) ||
		strings.ContainsRune(name, 0)
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == ".."
	}
	if bad {
		return "", refuse("the name %.200q leads outside of the artifact", name)
	}
	return path.Clean(name), nil
}

// Tree is what a folder holds, in one hash: names, kinds, modes, links and bytes.
type Tree struct {
	SHA256 string
	Files  int
	Bytes  int64
}

// Sum reads a folder.
func Sum(ctx context.Context, root *os.Root) (Tree, error) {
	var t Tree
	all := sha256.New()
	err := fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		info, err := root.Lstat(name)
		if err != nil {
			return err
		}
		says := ""
		switch {
		case info.Mode().IsRegular():
			says, err = digestOf(ctx, root, name)
			t.Bytes += info.Size()
		case info.Mode()&fs.ModeSymlink != 0:
			says, err = root.Readlink(name)
		}
		if name != "." {
			t.Files++
		}
		fmt.Fprintf(all, "%q %s %q\n", name, info.Mode(), says)
		return err
	})
	if err != nil {
		return t, fmt.Errorf("read what is there: %w", err)
	}
	t.SHA256 = hex.EncodeToString(all.Sum(nil))
	return t, nil
}

func digestOf(ctx context.Context, root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, blob.Reader{Ctx: ctx, From: f}); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
