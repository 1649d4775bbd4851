// Package durablefile is the store of the embedded OpenBao: its own file store,
// except that a power cut loses no write that was acknowledged.
package durablefile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	log "github.com/hashicorp/go-hclog"
	"github.com/openbao/openbao/sdk/v2/physical"
	physfile "github.com/openbao/openbao/sdk/v2/physical/file"
)

// Store writes a value to the disk under another name before it replaces the
// old one, and syncs the folder before the caller hears of it. The files are
// those of the file store, so stores of before go on.
type Store struct {
	*physfile.FileBackend
	path string
}

// entry is a file of the store.
type entry struct{ Value []byte }

// half ends the name of a file that is being written.
const half = ".temp"

// Open opens the store in a folder.
func Open(path string, logger log.Logger) (*Store, error) {
	backend, err := physfile.NewFileBackend(map[string]string{"path": path}, logger)
	if err != nil {
		return nil, err
	}
	files, ok := backend.(*physfile.FileBackend)
	if !ok {
		return nil, fmt.Errorf("the file store is a %T", backend)
	}
	s := &Store{FileBackend: files, path: path}
	return s, s.sweep()
}

// sweep removes what a crash left half written. The store would list it as a
// key of its own.
func (s *Store) sweep() error {
	return filepath.WalkDir(s.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), "_") || !strings.HasSuffix(d.Name(), half) {
			return err
		}
		return os.Remove(path)
	})
}

// Put stores a value durably. It implements physical.Backend.
func (s *Store) Put(ctx context.Context, e *physical.Entry) error {
	if strings.Contains(e.Key, "..") {
		return errors.New("the key names a parent folder")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	content, err := json.Marshal(entry{Value: e.Value})
	if err != nil {
		return err
	}
	s.Lock()
	defer s.Unlock()
	full := filepath.Join(s.path, e.Key)
	folder, file := filepath.Dir(full), filepath.Join(filepath.Dir(full), "_"+filepath.Base(full))
	if err := s.makeFolder(folder); err != nil {
		return err
	}
	if err := writeSynced(file+half, content); err != nil {
		return err
	}
	if err := os.Rename(file+half, file); err != nil {
		return err
	}
	return syncFolder(folder)
}

// Delete removes a value durably. It implements physical.Backend. The file store
// removes folders that became empty, so the nearest one that is left is synced.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.FileBackend.Delete(ctx, key); err != nil {
		return err
	}
	for folder := filepath.Dir(filepath.Join(s.path, key)); ; folder = filepath.Dir(folder) {
		err := syncFolder(folder)
		if !errors.Is(err, fs.ErrNotExist) || folder == s.path {
			return err
		}
	}
}

// makeFolder makes a folder and those above it, and syncs where it added one.
func (s *Store) makeFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && path != s.path:
		if err := s.makeFolder(filepath.Dir(path)); err != nil {
			return err
		}
		return s.makeFolder(path)
	case err != nil:
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) { // some file systems cannot
		err = nil
	}
	return errors.Join(err, d.Close())
}
