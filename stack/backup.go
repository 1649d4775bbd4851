package stack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// Backup is what a backup says about itself.
type Backup struct {
	Format  int       `json:"format"`
	Version string    `json:"version"`  // of the program that took it
	TakenAt time.Time `json:"taken_at"` // what happened afterwards may be missing
	Files   int       `json:"files,omitempty"`
}

// The first entry of a backup says what it is. The last one repeats it with the
// number of files, so that a backup without it is known to be incomplete.
const (
	backupFormat = 1
	backupBegin  = "gpuaas-backup.json"
	backupEnd    = "gpuaas-backup-end.json"
)

// BackupOptions say what is backed up.
type BackupOptions struct {
	State   string
	Version string
	Files   []string     // of the state folder, besides those of the engines; missing ones are left out
	Say     func(string) // progress
}

// TakeBackup writes what the engines of a state folder keep, while they run or
// not: the database cluster (the product's and Temporal's rows), the store of the
// secrets engine with its unseal key, passwords and certificates. Events that
// NATS holds for subscribers stay behind; the outbox has them.
//
// The database comes first and the secrets after it: what a row names was stored
// before the row, so it is in the backup.
func TakeBackup(ctx context.Context, o BackupOptions, to io.Writer) (Backup, error) {
	database, done, err := superDatabase(ctx, o.State)
	if err != nil {
		return Backup{}, err
	}
	f := database.nursery.folder
	b := &backupWriter{Backup: Backup{Format: backupFormat, Version: o.Version, TakenAt: time.Now().UTC()}}
	compressed, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return Backup{}, errors.Join(fmt.Errorf("compress backup: %w", err), done())
	}
	b.tar = tar.NewWriter(compressed)
	steps := []func() error{
		func() error { return b.describe(backupBegin) },
		func() error { o.Say("copying the database"); return b.addDatabase(ctx, database) },
		done, // the rest does not need it
		func() error {
			o.Say(fmt.Sprintf("copying secrets and certificates (%d files so far)", b.Files))
			return b.addSnapshot(ctx, f, "bao")
		},
		func() error { return b.addSnapshot(ctx, f, "secrets") },
		func() error { return b.addSnapshot(ctx, f, path.Join("temporal", "tls")) },
		func() error { return b.addFiles(f, o.Files) },
		func() error { return b.describe(backupEnd) },
		b.tar.Close, compressed.Close,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return Backup{}, fmt.Errorf("take backup of %s: %w", o.State, errors.Join(err, done()))
		}
	}
	return b.Backup, nil
}

// superDatabase opens the cluster of a state folder for a backup: the one that
// runs, otherwise one that is started for the moment. done can be called twice.
func superDatabase(ctx context.Context, state string) (*postgres, func() error, error) {
	if _, err := os.Stat(filepath.Join(state, "stack.json")); err != nil {
		return nil, nil, fmt.Errorf("%s is no state folder of gpuaas up: %w", state, err)
	}
	done := func() error { return nil }
	started, err := Start(ctx, Options{State: state, Only: []Engine{Postgres}})
	var running *AlreadyRunning
	switch {
	case err == nil:
		done = func() error { return started.Stop(context.WithoutCancel(ctx)) }
		return started.postgres(), done, nil
	case !errors.As(err, &running):
		return nil, nil, err
	}
	f, err := openFolder(state)
	if err != nil {
		return nil, nil, err
	}
	record, err := loadRecord(f)
	if err != nil {
		return nil, nil, err
	}
	p := &postgres{
		nursery: &nursery{folder: f, record: record}, port: record.port(string(Postgres)), passwords: map[string]string{},
	}
	if p.port == 0 || record.pid(Postgres) == 0 {
		return nil, nil, fmt.Errorf("state folder %s has no PostgreSQL of its own that runs: back up the database that the "+
			"settings name with its own tools", state)
	}
	if p.passwords[superuser], err = f.secret("postgres-" + superuser); err != nil {
		return nil, nil, err
	}
	p.bin, err = findPostgres(ctx, p.data())
	return p, done, err
}

// backupWriter adds entries to a backup and counts them.
type backupWriter struct {
	Backup
	tar *tar.Writer
}

func (b *backupWriter) describe(name string) error {
	content, err := json.Marshal(b.Backup)
	if err != nil {
		return fmt.Errorf("describe backup: %w", err)
	}
	return b.add(name, int64(len(content)), bytes.NewReader(content))
}

func (b *backupWriter) add(name string, size int64, content io.Reader) error {
	err := b.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, Format: tar.FormatPAX,
	})
	if err == nil {
		_, err = io.Copy(b.tar, content)
	}
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

func (b *backupWriter) addFolder(name string) error {
	err := b.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o700, Format: tar.FormatPAX})
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

// addDatabase passes on what pg_basebackup writes. The cluster goes on working;
// a start of the copy replays what happened meanwhile.
func (b *backupWriter) addDatabase(ctx context.Context, p *postgres) error {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "pg_basebackup"), //nolint:gosec // a program of the cluster
		"--host="+loopback, fmt.Sprintf("--port=%d", p.port), "--username="+superuser, "--no-password",
		"--pgdata=-", "--format=tar", "--wal-method=fetch", "--checkpoint=fast", "--no-manifest")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "PGSSLMODE=disable", "PGPASSWORD=" + p.passwords[superuser]}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	stream, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("run pg_basebackup: %w", err)
	}
	err = b.passOn(tar.NewReader(stream), path.Join("postgres", "data"))
	if err != nil {
		_ = cmd.Process.Kill()
	} else {
		_, err = io.Copy(io.Discard, stream) // padding after the end of the archive
	}
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return fmt.Errorf("copy the database: %w: %s", err, bytes.TrimSpace(complaints.Bytes()))
	}
	return nil
}

func (b *backupWriter) passOn(from *tar.Reader, below string) error {
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Join(below, h.Name) //nolint:gosec // a name in our archive; nothing is extracted here
		switch h.Typeflag {
		case tar.TypeDir:
			err = b.addFolder(name)
		case tar.TypeReg:
			b.Files++
			err = b.add(name, h.Size, from)
		default:
			err = fmt.Errorf("%s is neither a file nor a folder: tablespaces outside the state folder are not supported", name)
		}
		if err != nil {
			return err
		}
	}
}

// addSnapshot adds a folder as it was at one moment. Its files are replaced, never
// changed, so nothing happened in between if the folder lists the same before and
// after they were read; otherwise what changed is read again.
func (b *backupWriter) addSnapshot(ctx context.Context, f folder, below string) error {
	read := map[string][]byte{}
	before, err := listing(f, below)
	for err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		gone := false
		for name := range before {
			if _, ok := read[name]; ok {
				continue
			}
			content, readErr := os.ReadFile(f.path(filepath.FromSlash(name)))
			if errors.Is(readErr, fs.ErrNotExist) {
				gone = true
				continue
			}
			if readErr != nil {
				return readErr
			}
			read[name] = content
		}
		var after map[string]stamp
		if after, err = listing(f, below); err != nil {
			break
		}
		if !gone && maps.Equal(before, after) {
			return b.addContents(read)
		}
		for name := range read {
			if after[name] != before[name] {
				delete(read, name)
			}
		}
		before = after
	}
	return err
}

func (b *backupWriter) addContents(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b.Files++
		if err := b.add(name, int64(len(files[name])), bytes.NewReader(files[name])); err != nil {
			return err
		}
	}
	return nil
}

func (b *backupWriter) addFiles(f folder, names []string) error {
	files := map[string][]byte{}
	for _, name := range names {
		content, err := os.ReadFile(f.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		files[name] = content
	}
	return b.addContents(files)
}

// stamp tells a file from the one that replaced it.
type stamp struct {
	inode uint64
	size  int64
	at    time.Time
}

// listing returns the files below a folder of the state folder. A folder that is
// missing, or that vanishes meanwhile, has none.
func listing(f folder, below string) (map[string]stamp, error) {
	out := map[string]stamp{}
	err := filepath.WalkDir(f.path(below), func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				name, relErr := filepath.Rel(string(f), file)
				out[filepath.ToSlash(name)] = stamp{inodeOf(info), info.Size(), info.ModTime()}
				return relErr
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return out, err
}
