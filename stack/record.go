package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
)

// record is stack.json: what the next launcher and a curious operator need to
// know about this run.
type record struct {
	mu   sync.Mutex
	path string
	data recordData
}

type recordData struct {
	Launcher int            `json:"launcher"`
	Ports    map[string]int `json:"ports"`
	PIDs     map[Engine]int `json:"pids"`
}

func loadRecord(f folder) (*record, error) {
	r := &record{path: f.path("stack.json")}
	b, err := os.ReadFile(r.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read record of last run: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(b, &r.data); err != nil {
			return nil, fmt.Errorf("read %s: %w (it holds only ports and process ids: make sure that no engine of it runs, "+
				"then delete it)", r.path, err)
		}
	}
	if r.data.Ports == nil {
		r.data.Ports = map[string]int{}
	}
	if r.data.PIDs == nil {
		r.data.PIDs = map[Engine]int{}
	}
	return r, nil
}

func (r *record) port(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.Ports[name]
}

func (r *record) setPort(name string, port int) error {
	return r.change(func(d *recordData) { d.Ports[name] = port })
}

func (r *record) pid(e Engine) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.PIDs[e]
}

func (r *record) setPID(e Engine, pid int) error {
	return r.change(func(d *recordData) { d.PIDs[e] = pid })
}

func (r *record) clearPID(e Engine, pid int) error {
	return r.change(func(d *recordData) {
		if d.PIDs[e] == pid {
			delete(d.PIDs, e)
		}
	})
}

func (r *record) pids() map[Engine]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.data.PIDs)
}

func (r *record) forgetPIDs() error {
	return r.change(func(d *recordData) { clear(d.PIDs) })
}

func (r *record) change(edit func(*recordData)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit(&r.data)
	r.data.Launcher = os.Getpid()
	if err := writeJSON(r.path, r.data); err != nil {
		return fmt.Errorf("save record of this run: %w", err)
	}
	return nil
}
