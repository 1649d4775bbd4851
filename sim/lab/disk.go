package lab

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// disk holds the files of a host.
type disk interface {
	read(file string) ([]byte, error)
	write(file string, content []byte) error
	written(file string) (time.Time, bool)
	// records returns the records of the first boot in a folder, one after the
	// other.
	records(folder string) []byte
}

const (
	recordNames = "[0-9][0-9]-*.json"
	agentRecord = "01-agent-bootstrap.json"
)

// folderDisk is a disk in a folder. No path leaves it.
type folderDisk string

func inside(file string) string { return strings.TrimPrefix(path.Clean("/"+file), "/") }

func (d folderDisk) open() (*os.Root, error) {
	top, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, fmt.Errorf("open disk of machine: %w", err)
	}
	return top, nil
}

func (d folderDisk) read(file string) ([]byte, error) {
	top, err := d.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = top.Close() }()
	content, err := top.ReadFile(inside(file))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return content, nil
}

func (d folderDisk) write(file string, content []byte) error {
	top, err := d.open()
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	name := inside(file)
	err = top.MkdirAll(path.Dir(name), 0o755)
	if err == nil {
		err = top.WriteFile(name+".new", content, 0o600)
	}
	if err == nil {
		err = top.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func (d folderDisk) written(file string) (time.Time, bool) {
	top, err := d.open()
	if err != nil {
		return time.Time{}, false
	}
	defer func() { _ = top.Close() }()
	info, err := top.Stat(inside(file))
	if err != nil {
		return time.Time{}, false
	}
	return info.ModTime(), true
}

func (d folderDisk) records(folder string) []byte {
	top, err := d.open()
	if err != nil {
		return nil
	}
	defer func() { _ = top.Close() }()
	names, err := fs.Glob(top.FS(), inside(folder)+"/"+recordNames)
	if err != nil {
		return nil
	}
	var all []byte
	for _, name := range names {
		if f, err := top.Open(name); err == nil {
			content, _ := io.ReadAll(io.LimitReader(f, mostInput)) // a cut-off record is still being written
			_ = f.Close()
			all = append(all, content...)
		}
	}
	return all
}

// memoryDisk is the disk of a machine that is only an agent.
type memoryDisk struct {
	mu    sync.Mutex
	files map[string]heldFile
}

type heldFile struct {
	content []byte
	at      time.Time
}

func (d *memoryDisk) read(file string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.files[inside(file)]
	if !ok {
		return nil, fmt.Errorf("read %s: %w", file, fs.ErrNotExist)
	}
	return f.content, nil
}

func (d *memoryDisk) write(file string, content []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files == nil {
		d.files = map[string]heldFile{}
	}
	d.files[inside(file)] = heldFile{content, time.Now()}
	return nil
}

func (d *memoryDisk) remove(file string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, inside(file))
}

func (d *memoryDisk) written(file string) (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.files[inside(file)]
	return f.at, ok
}

func (d *memoryDisk) records(folder string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[inside(folder)+"/"+agentRecord].content
}
