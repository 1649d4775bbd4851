package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/contract/agentwire"
)

const (
	fileName    = "journal.log"
	damagedName = "journal.damaged"
	formerName  = "journal.former" // of the node that the machine was before

	keepSent   = 24 * time.Hour
	keepUnsent = 7 * 24 * time.Hour
	// maxSize limits the file. Above it, new tasks are not accepted.
	maxSize = 16 << 20
	// compactAbove is the size below which a rewrite does not pay.
	compactAbove = 256 << 10
)

// ErrFull refuses a new task because too many are remembered already.
var ErrFull = errors.New("the task journal has reached its largest size")

// Entry is what the journal knows of one task.
type Entry struct {
	id          string
	Envelope    agentwire.Envelope
	Checkpoints map[string]string
	Steps       []agentwire.Step
	Result      *agentwire.ResultRequest // nil while the task is not finished
	Sent        bool                     // the control plane has the result
}

// ID returns the id of the task, even if its envelope was lost to damage.
func (e Entry) ID() string { return e.id }

// Journal is safe for use by several goroutines.
type Journal struct {
	dir string
	now func() time.Time

	mu      sync.Mutex
	file    *os.File
	content content
	size    int64  // intended size of the file
	synced  int64  // bytes that are certainly on the disk
	torn    bool   // the file may be longer than size
	backlog []byte // lines that must be written before any other
	compact int64  // size at which the file is rewritten
	notes   []string
}

// Open reads the journal of a node in dir and prepares it for writing. It moves
// the journal of another node aside. Damage is no error; Damage reports it.
// Open fails only if the folder cannot be used.
func Open(dir, node string, now func() time.Time) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make journal folder: %w", err)
	}
	removeLeftovers(dir)
	f, data, err := load(dir)
	if err != nil {
		return nil, err
	}
	c := read(data)
	if c.node != "" && c.node != node {
		if err := errors.Join(f.Close(), os.Rename(filepath.Join(dir, fileName),
			filepath.Join(dir, formerName))); err != nil {
			return nil, fmt.Errorf("put journal of node %s aside: %w", c.node, err)
		}
		if f, data, err = load(dir); err != nil {
			return nil, err
		}
		c = read(data)
	}
	j := &Journal{
		dir: dir, now: now, file: f, content: c, size: c.good, torn: c.torn, compact: compactAbove,
		notes: c.damage,
	}
	if len(c.damage) > 0 {
		j.keepDamaged(data)
	}
	j.forget()
	if j.content.dropForeign() || len(c.damage) > 0 || j.size > j.compact {
		j.noteError("rewrite journal", j.rewrite())
	}
	// What a killed process wrote may not be on the disk yet.
	if err := errors.Join(j.file.Sync(), atomicfile.SyncFolder(dir)); err != nil {
		return nil, fmt.Errorf("sync journal: %w", errors.Join(err, j.file.Close()))
	}
	j.synced = j.size
	if c.node == "" {
		j.noteError("write down the node", j.must(record{Kind: kindGeneration, Node: node}))
	}
	return j, nil
}

func load(dir string) (*os.File, []byte, error) {
	f, err := os.OpenFile(filepath.Join(dir, fileName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, 4*maxSize))
	if err != nil {
		return nil, nil, fmt.Errorf("read journal: %w", errors.Join(err, f.Close()))
	}
	return f, data, nil
}

// Look reads the journal in dir without changing it, for people who want to
// know while an agent uses it.
func Look(dir string) (unfinished, unsent int, damage []string, err error) {
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil, nil
	}
	if err != nil {
		return 0, 0, nil, fmt.Errorf("read journal: %w", err)
	}
	c := read(data)
	for _, e := range c.tasks {
		switch {
		case e.Result == nil:
			unfinished++
		case !e.Sent:
			unsent++
		}
	}
	return unfinished, unsent, c.damage, nil
}

// removeLeftovers removes rewrites that a crash interrupted.
func removeLeftovers(dir string) {
	left, err := filepath.Glob(filepath.Join(dir, "."+fileName+".*"))
	if err != nil {
		return
	}
	for _, l := range left {
		_ = os.Remove(l) // it only costs space
	}
}

func (j *Journal) keepDamaged(data []byte) {
	j.noteError("keep damaged journal", atomicfile.Write(filepath.Join(j.dir, damagedName), data, 0o600))
}

func (j *Journal) noteError(doing string, err error) {
	if err != nil {
		j.notes = append(j.notes, doing+": "+err.Error())
	}
}

// Damage returns what was found damaged when the journal was opened.
func (j *Journal) Damage() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.notes)
}

// Generation returns the newest generation of the node that was seen.
func (j *Journal) Generation() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.content.generation
}

// RaiseGeneration stores a newer generation.
func (j *Journal) RaiseGeneration(generation int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if generation <= j.content.generation {
		return nil
	}
	return j.commit(record{Kind: kindGeneration, Generation: generation})
}

// Accept stores a task that will be carried out, or a newer attempt of a known
// one. If Accept fails, the task must not be started.
func (j *Journal) Accept(e agentwire.Envelope) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.size > maxSize {
		j.forget()
		if err := j.rewrite(); err != nil {
			return err
		}
		if j.size > maxSize {
			return ErrFull
		}
	}
	return j.commit(record{Kind: kindAccepted, Task: e.TaskID, Envelope: &e})
}

// Checkpoint stores a value of a running task.
func (j *Journal) Checkpoint(task, key, value string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.commit(record{Kind: kindCheckpoint, Task: task, Key: key, Value: value})
}

// Recall returns a checkpoint.
func (j *Journal) Recall(task, key string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e, ok := j.content.tasks[task]; ok {
		return e.Checkpoints[key]
	}
	return ""
}

// Step stores a step. A crash may lose it: only people read steps.
func (j *Journal) Step(task string, s agentwire.Step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := record{Kind: kindStep, Task: task, Step: &s}
	if line, err := encode(r); err == nil && j.content.apply(r) == nil && len(j.backlog) == 0 {
		_ = j.write(line, false) // best effort, see above
	}
}

// Finish stores the result of a task. If it cannot be written, this process
// still knows it and writes it as soon as possible.
func (j *Journal) Finish(task string, result agentwire.ResultRequest) error {
	return j.must(record{Kind: kindResult, Task: task, Result: &result})
}

// Sent stores that the control plane has the result, or does not want it.
func (j *Journal) Sent(task string) error { return j.must(record{Kind: kindSent, Task: task}) }

// Abandon forgets an accepted task that must not be finished here. It may be
// handed out again.
func (j *Journal) Abandon(task string) error { return j.must(record{Kind: kindAbandoned, Task: task}) }

// Flush writes what could not be written before.
func (j *Journal) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.backlog) == 0 {
		return nil
	}
	return j.write(nil, true)
}

// Lookup finds a task.
func (j *Journal) Lookup(task string) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.content.tasks[task]
	if !ok {
		return Entry{}, false
	}
	return e.copy(), true
}

// Unfinished lists the accepted tasks without a result, in the order of their
// acceptance.
func (j *Journal) Unfinished() []Entry {
	return j.list(func(e *Entry) bool { return e.Result == nil })
}

// Unsent lists the tasks whose results the control plane does not have.
func (j *Journal) Unsent() []Entry {
	return j.list(func(e *Entry) bool { return e.Result != nil && !e.Sent })
}

// Finished lists the tasks that have a result, sent or not.
func (j *Journal) Finished() []Entry {
	return j.list(func(e *Entry) bool { return e.Result != nil && e.Envelope.TaskID != "" })
}

func (j *Journal) list(which func(*Entry) bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Entry
	for _, id := range j.content.order {
		if e := j.content.tasks[id]; which(e) {
			out = append(out, e.copy())
		}
	}
	return out
}

func (e *Entry) copy() Entry {
	c := *e
	c.Checkpoints, c.Steps = nil, slices.Clone(e.Steps)
	return c
}

// Close writes what is outstanding and closes the file.
func (j *Journal) Close() error {
	err := j.Flush()
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(err, j.file.Close())
}

// Folder returns where the journal is.
func (j *Journal) Folder() string { return j.dir }
