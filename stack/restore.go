package stack

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// restoredFile marks a state folder that came from a backup, until the control
// plane has noted it.
const restoredFile = "restored.json"

// Restored says which backup a state folder came from.
type Restored struct {
	TakenAt    time.Time `json:"taken_at"`
	RestoredAt time.Time `json:"restored_at"`
}

// ReadBackup reads a backup to its end and checks that it is complete. keep gets
// each of its files.
func ReadBackup(
	ctx context.Context, from io.Reader, keep func(h *tar.Header, content io.Reader) error,
) (Backup, error) {
	var b Backup
	compressed, err := gzip.NewReader(from)
	if err != nil {
		return b, fmt.Errorf("read backup: %w", err)
	}
	entries, files := tar.NewReader(compressed), 0
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return b, err
		}
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return b, errors.New("the backup is incomplete: it has no end; take another one")
		}
		switch {
		case err != nil:
		case first != (h.Name == backupBegin):
			return b, errors.New("this is no backup of gpuaas")
		case h.Name == backupBegin, h.Name == backupEnd:
			err = json.NewDecoder(entries).Decode(&b)
		case h.Typeflag == tar.TypeDir:
			err = keep(h, nil)
		default:
			files++
			err = keep(h, entries)
		}
		if err != nil {
			return b, fmt.Errorf("read backup: %w", err)
		}
		if b.Format != backupFormat {
			return b, fmt.Errorf("the backup has format %d, and this program reads %d: restore it with version %s", b.Format,
				backupFormat, b.Version)
		}
		if h.Name != backupEnd {
			continue
		}
		if b.Files != files {
			return b, fmt.Errorf("the backup holds %d files of %d: take another one", files, b.Files)
		}
		_, err = io.Copy(io.Discard, from) // whatever seals the backup checks its own end
		return b, err
	}
}

// Restore makes a state folder from a backup. The folder must not exist, or be
// empty; it appears whole or not at all.
func Restore(ctx context.Context, state string, from io.Reader) (Backup, error) {
	state, err := filepath.Abs(state)
	if err != nil {
		return Backup{}, fmt.Errorf("find state folder: %w", err)
	}
	if present, err := os.ReadDir(state); err == nil && len(present) > 0 {
		return Backup{}, fmt.Errorf("state folder %s is not empty: nothing was restored; name another folder with --state, or "+
			"move that one away", state)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Backup{}, fmt.Errorf("look into state folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(state), 0o700); err != nil {
		return Backup{}, fmt.Errorf("make folder: %w", err)
	}
	partial, err := os.MkdirTemp(filepath.Dir(state), ".restoring-") // mode 0700
	if err != nil {
		return Backup{}, fmt.Errorf("make folder: %w", err)
	}
	b, err := restoreInto(ctx, folder(partial), from)
	if err == nil {
		err = os.Rename(partial, state)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(state))
	}
	if err != nil {
		return Backup{}, fmt.Errorf("restore to %s: %w", state, errors.Join(err, os.RemoveAll(partial)))
	}
	return b, nil
}

func restoreInto(ctx context.Context, f folder, from io.Reader) (Backup, error) {
	b, err := ReadBackup(ctx, from, func(h *tar.Header, content io.Reader) error {
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%q would lie outside of the state folder", h.Name)
		}
		at := f.path(filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			return os.MkdirAll(at, 0o700)
		}
		if h.Typeflag != tar.TypeReg {
			return fmt.Errorf("%q is neither a file nor a folder", h.Name)
		}
		return restoreFile(at, content)
	})
	if err != nil {
		return b, err
	}
	account, err := databaseAccount()
	if err != nil {
		return b, err
	}
	err = filepath.WalkDir(f.path("postgres"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return account.own(path)
	})
	if err != nil {
		return b, fmt.Errorf("give the database to its account: %w", err)
	}
	// Whoever looks for a state folder looks for this file.
	err = writeJSON(f.path("stack.json"), recordData{})
	if err == nil {
		err = writeJSON(f.path(restoredFile), Restored{TakenAt: b.TakenAt, RestoredAt: time.Now().UTC()})
	}
	return b, err
}

func restoreFile(path string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Restored returns which backup the state folder came from, nil if from none, or
// if that was noted already.
func (s *Stack) Restored() (*Restored, error) {
	content, err := os.ReadFile(s.folder.path(restoredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r Restored
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("read which backup the state folder came from: %w", err)
	}
	return &r, nil
}

// ForgetRestored removes the mark, once the control plane knows.
func (s *Stack) ForgetRestored() error { return mark(s.folder.path(restoredFile)).clear() }

func inodeOf(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
