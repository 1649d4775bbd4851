package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gpuaas/agent/internal/atomicfile"
)

// commit writes a record. Only then it counts.
func (j *Journal) commit(r record) error {
	line, err := encode(r)
	if err != nil {
		return err
	}
	if err := j.write(line, true); err != nil {
		return err
	}
	defer j.tidy()
	return j.content.apply(r)
}

// must applies a record before it is written, because it tells what has already
// happened.
func (j *Journal) must(r record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	line, err := encode(r)
	if err != nil {
		return err
	}
	if err := j.content.apply(r); err != nil {
		return err
	}
	j.backlog = append(j.backlog, line...)
	if err := j.write(nil, true); err != nil {
		return err
	}
	j.tidy()
	return nil
}

// write appends the backlog and then lines. After a failure it first cuts the
// file back to what is certain. So half a record never stands between whole
// ones, and a record whose caller was told that it failed does not come back.
func (j *Journal) write(lines []byte, sync bool) error {
	if j.torn {
		if err := j.file.Truncate(j.size); err != nil {
			return fmt.Errorf("cut torn record off the journal: %w", err)
		}
		j.torn = false
	}
	all := append(bytes.Clone(j.backlog), lines...)
	if _, err := j.file.WriteAt(all, j.size); err != nil {
		return j.failed("write journal", err)
	}
	if sync {
		if err := j.file.Sync(); err != nil {
			// The kernel may have dropped what was written since the last sync.
			j.size = min(j.size, j.synced)
			return j.failed("sync journal", err)
		}
		j.synced = j.size + int64(len(all))
	}
	j.size += int64(len(all))
	j.backlog = nil
	return nil
}

func (j *Journal) failed(doing string, err error) error {
	j.torn = true
	if cut := j.file.Truncate(j.size); cut == nil {
		j.torn = false
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func (j *Journal) forget() {
	now := j.now()
	j.content.drop(func(e *Entry) bool { return e.forgettable(now) })
}

// tidy rewrites a file that has grown. Call it after a record was applied,
// because it writes what is in memory.
func (j *Journal) tidy() {
	if j.size <= j.compact {
		return
	}
	j.forget()
	if err := j.rewrite(); err != nil {
		j.compact = 2 * j.size // do not try again at every record: the disk is probably full
	}
}

// rewrite replaces the file by the shortest one with the same content.
func (j *Journal) rewrite() error {
	var all []byte
	for _, r := range j.content.records() {
		line, err := encode(r)
		if err != nil {
			return err
		}
		all = append(all, line...)
	}
	f, err := os.CreateTemp(j.dir, "."+fileName+".*")
	if err != nil {
		return fmt.Errorf("rewrite journal: %w", err)
	}
	if _, err = f.Write(all); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(j.dir, fileName))
	}
	if err != nil {
		return fmt.Errorf("rewrite journal: %w", errors.Join(err, f.Close(), os.Remove(f.Name())))
	}
	old := j.file
	j.file, j.size, j.synced, j.torn, j.backlog = f, int64(len(all)), int64(len(all)), false, nil
	j.compact = max(compactAbove, 2*j.size)
	return errors.Join(old.Close(), atomicfile.SyncFolder(j.dir))
}
