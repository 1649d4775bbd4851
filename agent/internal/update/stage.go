package update

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/hostexec"
)

const (
	agentProgram = "gpuaas-agent"
	gpuProgram   = "gpuaas-gpu"
	digestFile   = "package.sha256"

	packagePrefix = "package-"

	maxUnpacked = 1 << 30
	maxEntries  = 64
)

// Package says what a package must be.
type Package struct {
	Version   string
	Digest    string // sha256:…
	SizeBytes int64
}

// PackageError says that a package must not be used.
type PackageError struct {
	Code   string // digest_mismatch, package_unsafe, package_broken
	Detail string
}

func (e *PackageError) Error() string { return e.Detail }

func refuse(code, format string, args ...any) error {
	return &PackageError{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Staged returns the folder of a version that is on disk already with exactly
// this package.
func (s *Store) Staged(p Package) (string, bool) {
	for _, name := range []string{p.Version, alternative(p)} {
		if s.digest(name) == p.Digest {
			return name, true
		}
	}
	return "", false
}

// Current returns the folder in use and the digest of its package. The digest
// is empty for a version that no update installed.
func (s *Store) Current() (version, digest string) {
	name := s.link(current)
	return name, s.digest(name)
}

func (s *Store) digest(name string) string {
	if name == "" {
		return ""
	}
	raw, err := os.ReadFile(s.host.Path(filepath.Join(folder, name, digestFile)))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// alternative is the folder for a version whose own folder holds another
// package, which may be the running one.
func alternative(p Package) string { return p.Version + "-" + p.Digest[len("sha256:"):][:12] }

// Stage unpacks a package beside the present versions, and proves that its
// program runs and has the right version. It changes nothing that is in use. It
// returns the folder of the version.
func (s *Store) Stage(ctx context.Context, p Package, body io.Reader) (string, error) {
	if name, ok := s.Staged(p); ok {
		return name, nil
	}
	root := s.host.Path(folder)
	if err := os.MkdirAll(root, 0o755); err != nil { //nolint:gosec // users may see which agent runs
		return "", fmt.Errorf("make %s: %w", folder, err)
	}
	archive, err := s.download(p, body)
	if err != nil {
		return "", err
	}
	defer os.Remove(archive)
	fresh, err := os.MkdirTemp(root, "staging-")
	if err != nil {
		return "", fmt.Errorf("make staging folder: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := unpack(ctx, archive, fresh); err != nil {
		return "", err
	}
	if err := s.prove(ctx, filepath.Base(fresh), p); err != nil {
		return "", err
	}
	return s.settle(p, fresh)
}

// download checks the digest before it does anything else with the bytes.
func (s *Store) download(p Package, body io.Reader) (path string, err error) {
	f, err := os.CreateTemp(s.host.Path(folder), packagePrefix)
	if err != nil {
		return "", fmt.Errorf("create file for the package: %w", err)
	}
	defer func() {
		if closing := f.Close(); err == nil && closing != nil {
			err = fmt.Errorf("write package: %w", closing)
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(body, p.SizeBytes+1))
	if err != nil {
		return "", fmt.Errorf("download package: %w", err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); n != p.SizeBytes || got != p.Digest {
		return "", refuse("digest_mismatch",
			"the package of version %s is not the one that was announced: %d bytes, %s instead of %d bytes, %s",
			p.Version, n, got, p.SizeBytes, p.Digest)
	}
	return f.Name(), nil
}

// unpack writes plain files with plain names into dir and refuses everything
// else that an archive can hold.
func unpack(ctx context.Context, archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("open package: %w", err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return refuse("package_broken", "the package is not compressed with gzip: %v", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open staging folder: %w", err)
	}
	defer root.Close()
	room := int64(maxUnpacked)
	files := tar.NewReader(zipped)
	for range maxEntries {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return atomicfile.SyncFolder(dir)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return refuse("package_broken", "the package cannot be read: %v", err)
		}
		if err := extract(root, header, files, &room); err != nil {
			return err
		}
	}
	return refuse("package_unsafe", "the package holds more than %d entries", maxEntries)
}

func extract(root *os.Root, header *tar.Header, from io.Reader, room *int64) error {
	name := filepath.Clean(header.Name)
	if header.Typeflag == tar.TypeDir && name == "." {
		return nil
	}
	if header.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || filepath.Base(name) != name || name == digestFile {
		return refuse("package_unsafe", "the package holds %q, which is not a plain file at its top", header.Name)
	}
	if *room -= header.Size; header.Size < 0 || *room < 0 {
		return refuse("package_unsafe", "the package is larger than %d bytes when unpacked", maxUnpacked)
	}
	mode := fs.FileMode(0o644)
	if name == agentProgram || name == gpuProgram {
		mode = 0o755
	}
	out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, fs.ErrExist) {
		return refuse("package_unsafe", "the package holds %q twice", name)
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	_, err = io.CopyN(out, from, header.Size)
	if err == nil {
		err = out.Sync()
	}
	if closing := out.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return nil
}

// prove starts the staged program once. A binary that is cut short or for
// another machine fails here and not after the change.
func (s *Store) prove(ctx context.Context, name string, p Package) error {
	version, err := s.ask(ctx, name)
	if err != nil {
		return err
	}
	if version != p.Version {
		return refuse("package_broken", "the package of version %s holds an agent of version %q", p.Version, version)
	}
	return nil
}

// ask asks the agent in a folder for its version.
func (s *Store) ask(ctx context.Context, name string) (string, error) {
	out, err := s.host.Do(ctx, hostexec.Command{
		Program: filepath.Join(folder, name, agentProgram), Args: []string{"version", "--json"}, Timeout: 20 * time.Second,
	})
	if ctx.Err() != nil {
		return "", err
	}
	if err != nil {
		return "", refuse("package_broken", "the agent in %s does not run on this machine: %v", name, err)
	}
	var build struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(out.Stdout, &build); err != nil || build.Version == "" {
		return "", refuse("package_broken", "the agent in %s does not say which version it is", name)
	}
	return build.Version, nil
}

// settle gives the staged folder its name. It writes the digest last, so that
// only a complete version counts as staged.
func (s *Store) settle(p Package, fresh string) (string, error) {
	name := p.Version
	if s.exists(name) {
		name = alternative(p)
	}
	place := s.host.Path(filepath.Join(folder, name))
	if name == s.link(current) {
		return "", refuse("package_broken", "version %s runs already but its folder %s is damaged; install the agent anew",
			p.Version, name)
	}
	if err := os.RemoveAll(place); err != nil {
		return "", fmt.Errorf("remove remains of version %s: %w", p.Version, err)
	}
	if err := os.Chmod(fresh, 0o755); err != nil { //nolint:gosec // users may see which agent runs
		return "", fmt.Errorf("open up %s: %w", name, err)
	}
	if err := os.Rename(fresh, place); err != nil {
		return "", fmt.Errorf("name version %s: %w", p.Version, err)
	}
	if err := atomicfile.Write(filepath.Join(place, digestFile), []byte(p.Digest), 0o644); err != nil {
		return "", fmt.Errorf("record digest of version %s: %w", p.Version, err)
	}
	return name, nil
}
