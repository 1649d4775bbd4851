package stack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func backup(t *testing.T, state string, to *bytes.Buffer) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(state, "admin-token"), []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := TakeBackup(t.Context(), BackupOptions{
		State: state, Version: "v1", Files: []string{"admin-token", "missing"}, Say: func(string) {},
	}, to)
	if err != nil {
		t.Fatal(err)
	}
	if b.Version != "v1" || time.Since(b.TakenAt) > time.Minute || b.Files == 0 {
		t.Errorf("the backup says %+v", b)
	}
}

// restoreAndFind makes an empty folder a state folder with everything in it that
// was put, except for what NATS held.
func restoreAndFind(t *testing.T, from *bytes.Buffer) {
	t.Helper()
	at := filepath.Join(state(t), "restored")
	whole := bytes.Clone(from.Bytes())
	taken, err := Restore(t.Context(), at, from)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Restore(t.Context(), at, bytes.NewReader(whole))
	if err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second restore into the folder gave %v", err)
	}
	s := startLasting(t, Options{State: at, Only: []Engine{Postgres, Temporal, OpenBao}})
	ends := s.Endpoints()
	err = errors.Join(findPostgresRow(t.Context(), ends), findTemporal(t.Context(), ends), findBao(t.Context(), ends))
	if err != nil {
		t.Error(err)
	}
	if token, err := os.ReadFile(filepath.Join(at, "admin-token")); err != nil || string(token) != "token" {
		t.Errorf("the admin token is %q, %v", token, err)
	}
	mark, err := s.Restored()
	if err != nil || mark == nil || !mark.TakenAt.Equal(taken.TakenAt) {
		t.Fatalf("the folder says that it came from %+v, %v", mark, err)
	}
	if err := s.ForgetRestored(); err != nil {
		t.Fatal(err)
	}
	if mark, err := s.Restored(); err != nil || mark != nil {
		t.Errorf("the mark is still there: %+v, %v", mark, err)
	}
	stop(t, s)
}

func TestDamagedBackupLeavesNothingBehind(t *testing.T) {
	for name, content := range map[string]string{
		"no backup":   "something else",
		"nothing":     "",
		"cut short":   string(written(t, func(b *backupWriter) error { return b.describe(backupBegin) })),
		"other files": string(written(t, func(b *backupWriter) error { return b.addContents(map[string][]byte{"a": nil}) })),
		"one file missing": string(written(t, func(b *backupWriter) error {
			b.Files = 1
			return errors.Join(b.describe(backupBegin), b.describe(backupEnd))
		})),
		"outside": string(written(t, func(b *backupWriter) error {
			return errors.Join(b.describe(backupBegin), b.addContents(map[string][]byte{"../a": nil}), b.describe(backupEnd))
		})),
		"of tomorrow": string(written(t, func(b *backupWriter) error {
			b.Format = backupFormat + 1
			return errors.Join(b.describe(backupBegin), b.describe(backupEnd))
		})),
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			if _, err := Restore(t.Context(), filepath.Join(parent, "state"), strings.NewReader(content)); err == nil {
				t.Error("it was restored")
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// written returns the bytes of a backup that was made by hand.
func written(t *testing.T, fill func(*backupWriter) error) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	b := &backupWriter{Backup: Backup{Format: backupFormat}, tar: tar.NewWriter(compressed)}
	if err := errors.Join(fill(b), b.tar.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A file that is replaced while a folder is read is read again: the backup has the
// folder as it was at one moment.
func TestSnapshotIsOfOneMoment(t *testing.T) {
	f := folder(t.TempDir())
	if err := os.MkdirAll(f.path("bao"), 0o700); err != nil {
		t.Fatal(err)
	}
	stopped, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stopped:
				done <- nil
				return
			case <-time.After(time.Millisecond):
			}
			// The second is written after the first: no moment has a newer second.
			for _, name := range []string{"a", "b"} {
				if err := writeFile(f.path("bao", name), fmt.Append(nil, n)); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	for range 50 {
		content := written(t, func(b *backupWriter) error {
			return errors.Join(b.describe(backupBegin), b.addSnapshot(t.Context(), f, "bao"), b.describe(backupEnd))
		})
		read := map[string]int{"bao/a": -1, "bao/b": -1}
		_, err := ReadBackup(t.Context(), bytes.NewReader(content), func(h *tar.Header, from io.Reader) error {
			if strings.HasPrefix(path.Base(h.Name), ".") {
				return nil // it is being written, and may be empty
			}
			n := 0
			_, err := fmt.Fscan(from, &n)
			read[h.Name] = n
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := read["bao/a"], read["bao/b"]; b > a || a > b+1 {
			t.Fatalf("the snapshot has %d and %d, which no moment had", a, b)
		}
	}
	close(stopped)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
