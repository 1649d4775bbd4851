// Package update keeps the versions of the agent on disk and changes between
// them so that a machine always has an agent that works. A new version is
// staged and proven first. It is on trial until it has reached the control
// plane; if it does not reach it, the previous version returns.
//
//	/opt/gpuaas/agent/<version>/          the programs of one version
//	/opt/gpuaas/agent/current, previous   links to two of them
//	/var/lib/gpuaas/update.json           the last change, and how it went
package update

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/hostexec"
)

const (
	folder = "/opt/gpuaas/agent"
	record = "/var/lib/gpuaas/update.json"

	current  = "current"
	previous = "previous"
)

// TrialPeriod is how long a new version has to reach the control plane.
const TrialPeriod = time.Minute

// maxStarts is how often a version on trial may be started: if it is started
// again, it has failed before.
const maxStarts = 3

// ErrNoPrevious says that there is no version to go back to.
var ErrNoPrevious = errors.New("there is no earlier version of the agent on this machine")

// State says how far a change of versions has come.
type State string

// The states of a change.
const (
	OnTrial    State = "on_trial"
	Confirmed  State = "confirmed"
	RolledBack State = "rolled_back"
)

// Change is one change of versions.
type Change struct {
	TaskID string    `json:"task_id"`
	From   string    `json:"from"` // versions
	To     string    `json:"to"`
	Digest string    `json:"digest,omitempty"` // of the package of To
	Back   bool      `json:"back"`             // somebody asked to return to the previous version
	Folder string    `json:"folder"`           // of To, below the agent's folder
	Home   string    `json:"home"`             // folder of From
	Before string    `json:"before,omitempty"` // folder that previous pointed to
	State  State     `json:"state"`
	Starts int       `json:"starts"` // of To, while on trial
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Store is the agent's own place on disk. The loop and the handler of one
// process share one Store: the handler waits for what the loop finds out.
type Store struct {
	host    hostexec.Host
	running string
	now     func() time.Time

	mu      sync.Mutex
	settled chan struct{} // closed when a trial ends in this process
}

// New opens the store of a machine for an agent of version running.
func New(host hostexec.Host, running string, now func() time.Time) *Store {
	return &Store{host: host, running: running, now: now, settled: make(chan struct{})}
}

// Running returns the version of this process.
func (s *Store) Running() string { return s.running }

// Last returns the newest change. ok is false if there was none.
func (s *Store) Last() (c Change, ok bool, err error) {
	raw, err := os.ReadFile(s.host.Path(record))
	if errors.Is(err, fs.ErrNotExist) {
		return Change{}, false, nil
	}
	if err != nil {
		return Change{}, false, fmt.Errorf("read record of the last update: %w", err)
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return Change{}, false, fmt.Errorf("read record of the last update in %s: %w", record, err)
	}
	return c, true, nil
}

// Pending says whether this process is a version on trial. It must reach the
// control plane within TrialPeriod and call Confirm, or call Rollback and end.
func (s *Store) Pending() (Change, bool, error) {
	c, ok, err := s.Last()
	if err != nil || !ok || c.State != OnTrial {
		return Change{}, false, err
	}
	return c, s.link(current) == c.Folder && s.running == c.To, nil
}

// Confirm ends the trial of this version with success. It removes versions that
// are neither in use nor the way back.
func (s *Store) Confirm() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, pending, err := s.Pending()
	if err != nil || !pending {
		return err
	}
	c.State, c.At = Confirmed, s.now()
	if err := s.save(c); err != nil {
		return err
	}
	s.announce()
	s.prune()
	return nil
}

// Rollback ends the trial without success: the previous version starts next.
func (s *Store) Rollback(reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok, err := s.Last()
	if err != nil || !ok || c.State != OnTrial {
		return err
	}
	return s.giveWay(c, reason)
}

// giveWay writes the record before it changes the links. After a crash in
// between, Guard finishes the work before the next start.
func (s *Store) giveWay(c Change, reason string) error {
	c.State, c.Reason, c.At = RolledBack, reason, s.now()
	if err := s.save(c); err != nil {
		return err
	}
	if err := s.goBack(c); err != nil {
		return err
	}
	s.announce()
	return nil
}

func (s *Store) goBack(c Change) error {
	if err := s.point(current, c.Home); err != nil {
		return err
	}
	if c.Before == "" || !s.exists(c.Before) {
		return nil
	}
	return s.point(previous, c.Before)
}

// Guard runs in the previous version before each start of the current one. It
// counts the starts of a version on trial, and takes it back if it was started
// too often without being confirmed.
func (s *Store) Guard() (rolledBack bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok, err := s.Last()
	if err != nil || !ok || s.link(current) != c.Folder || c.State == Confirmed {
		return false, err
	}
	if c.State == RolledBack {
		return true, s.goBack(c)
	}
	if c.Starts >= maxStarts {
		return true, s.giveWay(c, fmt.Sprintf("version %s was started %d times and never reached the control plane", c.To,
			c.Starts))
	}
	c.Starts++
	return false, s.save(c)
}

// Settled is closed when the trial of this process has ended, either way.
func (s *Store) Settled() <-chan struct{} { return s.settled }

// announce must be called with the lock held.
func (s *Store) announce() {
	select {
	case <-s.settled:
	default:
		close(s.settled)
	}
}

// prune ignores failures: an old version too many does no harm.
func (s *Store) prune() {
	entries, err := os.ReadDir(s.host.Path(folder))
	if err != nil {
		return
	}
	for _, e := range entries {
		version := e.IsDir() && e.Name() != s.link(current) && e.Name() != s.link(previous)
		// Packages remain if the agent is killed while it fetches them.
		if version || e.Type().IsRegular() && strings.HasPrefix(e.Name(), packagePrefix) {
			_ = os.RemoveAll(s.host.Path(filepath.Join(folder, e.Name())))
		}
	}
}

func (s *Store) exists(version string) bool {
	info, err := os.Stat(s.host.Path(filepath.Join(folder, version)))
	return err == nil && info.IsDir()
}

// link returns the folder that current or previous points to, or nothing.
func (s *Store) link(name string) string {
	target, err := os.Readlink(s.host.Path(filepath.Join(folder, name)))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// point changes a link in one step.
func (s *Store) point(name, version string) error {
	place := s.host.Path(filepath.Join(folder, name))
	fresh := place + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("prepare link %s: %w", name, err)
	}
	if err := os.Symlink(version, fresh); err != nil {
		return fmt.Errorf("prepare link %s to version %s: %w", name, version, err)
	}
	if err := os.Rename(fresh, place); err != nil {
		return fmt.Errorf("point %s to version %s: %w", name, version, err)
	}
	return atomicfile.SyncFolder(filepath.Dir(place))
}

func (s *Store) save(c Change) error {
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode record of the update: %w", err)
	}
	if err := atomicfile.Write(s.host.Path(record), raw, 0o600); err != nil {
		return fmt.Errorf("write record of the update: %w", err)
	}
	return nil
}
