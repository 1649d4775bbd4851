package sanitize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/contract/agentwire"
)

// Cleaner erases the data disks of a machine and creates empty file systems on
// them again.
type Cleaner struct {
	Finder
	Tool string
	// State is a folder of the machine that notes disks whose file system is
	// off, so that they are found again after any crash.
	State string
	// Foreign says which owners do not return.
	Foreign func(uid int) bool
	Clock   func() time.Time
	// Save and Recall keep values of this run across crashes.
	Save   func(key, value string) error
	Recall func(key string) string
	// Report is told the steps of a disk: started, succeeded, failed, skipped.
	Report func(point, status, message string)
	// Open opens a device for erasing. Nil means the device of the machine.
	Open func(path string, d Disk) (OpenDevice, error)
	Poll time.Duration
}

// OpenDevice is a device that must be closed.
type OpenDevice interface {
	Device
	Close() error
}

// progress is what is stored of one disk.
type progress struct {
	Record Record `json:"record"`
	Ended  bool   `json:"ended"`
}

// Run works on all disks at the same time: each may take long, and they do not
// slow each other down. It continues where an earlier run of the same task
// stopped. An error says that Run was stopped.
func (c Cleaner) Run(ctx context.Context) ([]agentwire.DeviceSanitized, error) {
	targets, err := c.targets(ctx)
	if err != nil {
		return nil, err
	}
	evidence := make([]agentwire.DeviceSanitized, len(targets))
	fails := make([]error, len(targets))
	var group sync.WaitGroup
	for i, t := range targets {
		group.Go(func() { evidence[i], fails[i] = c.disk(ctx, t) })
	}
	group.Wait()
	return evidence, errors.Join(fails...)
}

const targetsKey = "disks"

// targets looks for the disks once, before anything is changed.
func (c Cleaner) targets(ctx context.Context) ([]Target, error) {
	var targets []Target
	if raw := c.Recall(targetsKey); raw != "" {
		if err := json.Unmarshal([]byte(raw), &targets); err != nil {
			return nil, fmt.Errorf("read list of disks: %w", err)
		}
		return targets, nil
	}
	targets = c.withLeftovers(c.Targets(ctx))
	targets = append(targets, c.claim(ctx, c.Unclaimed(targets))...)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("look for disks: %w", err) // an incomplete search is not stored
	}
	return targets, c.put(targetsKey, targets)
}

func (c Cleaner) put(key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	if err := c.Save(key, string(raw)); err != nil {
		return fmt.Errorf("write %s down: %w", key, err)
	}
	return nil
}

// disk cleans one disk to the end.
func (c Cleaner) disk(ctx context.Context, t Target) (agentwire.DeviceSanitized, error) {
	key := "disk " + t.name()
	p := progress{Record: Record{Plan: t.Plan, Evidence: t.Evidence(c.Tool)}}
	if raw := c.Recall(key); raw != "" {
		p = progress{}
		if err := json.Unmarshal([]byte(raw), &p); err != nil {
			return p.Record.Evidence, fmt.Errorf("read what was done to %s: %w", t.name(), err)
		}
	}
	if p.Ended {
		return p.Record.Evidence, nil
	}
	err := c.erase(ctx, t, key, &p)
	e := &p.Record.Evidence
	if err == nil && p.Record.Stage == StageJudged && !t.Bare {
		err = c.restore(ctx, t, e)
	}
	if err != nil {
		c.Report(t.name(), "failed", err.Error())
		return *e, err
	}
	p.Ended = true
	status := map[string]string{
		agentwire.OutcomeSanitized: "succeeded", agentwire.OutcomeBlank: "succeeded",
		agentwire.OutcomeRefused: "skipped",
	}[e.Outcome]
	if status == "" {
		status = "failed"
	}
	c.Report(t.name(), status, strings.TrimSpace(e.Method+" "+e.Reason))
	return *e, c.put(key, p)
}

// erase takes the file system off and carries the record to its end. A disk
// that was not touched yet is given up for any reason. After it was touched, a
// failure becomes evidence.
func (c Cleaner) erase(ctx context.Context, t Target, key string, p *progress) error {
	if p.Record.Stage == StageJudged {
		return nil
	}
	if t.Unclaimed {
		p.Record.Evidence = c.Judge(ctx, t, c.Tool, c.Clock)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("look at disk: %w", err)
		}
		return nil
	}
	dev, err := c.takeOff(t)
	if err != nil {
		c.giveUp(p, err)
		return nil
	}
	defer func() { _ = dev.Close() }() // everything is on the device
	return Run(ctx, dev, &p.Record, Options{
		Save: func(r Record) error { return c.put(key, progress{Record: r}) },
		Progress: func(phase string, percent int) {
			c.Report(t.name(), "started", fmt.Sprintf("%s: %d %%", phase, percent))
		},
		Clock: c.Clock, Poll: c.Poll,
	})
}

func (c Cleaner) giveUp(p *progress, why error) {
	e := &p.Record.Evidence
	if p.Record.Stage == StageNew {
		Refuse(e, c.Clock(), why)
		return
	}
	e.Outcome, e.Verified, e.EndedAt = agentwire.OutcomeFailed, false, c.Clock().UTC()
	e.Reason = strings.Join(append(p.Record.Notes, why.Error()), "; ")
}

// takeOff unmounts a disk and opens it. If it cannot be opened, takeOff mounts
// it again: nothing has happened to it.
func (c Cleaner) takeOff(t Target) (OpenDevice, error) {
	if t.Refused != "" {
		return nil, errors.New(t.Refused)
	}
	if err := c.Same(t.Disk); err != nil {
		return nil, err
	}
	open := c.Open
	if open == nil {
		open = func(path string, d Disk) (OpenDevice, error) { return Open(path, d) }
	}
	if t.Bare {
		return open(c.Host.Path(t.Disk.Node), t.Disk)
	}
	if err := c.note(t); err != nil {
		return nil, err
	}
	if err := Unmount(c.Host, t); err != nil {
		return nil, errors.Join(err, c.forget(t))
	}
	dev, err := open(c.Host.Path(t.Disk.Node), t.Disk)
	if err != nil {
		if mounted := Remount(c.Host, t); mounted != nil {
			return nil, errors.Join(err, mounted)
		}
		return nil, errors.Join(err, c.forget(t))
	}
	return dev, nil
}

// restore creates the file system again. If it fails, that is evidence too.
func (c Cleaner) restore(ctx context.Context, t Target, e *agentwire.DeviceSanitized) error {
	err := errors.Join(c.Same(t.Disk), Unmount(c.Host, t))
	if err == nil {
		err = Restore(ctx, c.Host, t, c.Foreign)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("restore file system: %w", ctx.Err())
	}
	if err == nil {
		err = c.forget(t)
	}
	if err != nil {
		e.Reason = strings.TrimPrefix(e.Reason+"; the file system was not put back: "+err.Error(), "; ")
		return nil //nolint:nilerr // it is told in the evidence
	}
	e.FilesystemRestored = true
	return nil
}

func (c Cleaner) notePath(point string) string {
	return c.Host.Path(filepath.Join(c.State, strings.Trim(point, "/")+".json"))
}

func (c Cleaner) note(t Target) error {
	raw, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode disk: %w", err)
	}
	path := c.notePath(t.Point)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make folder for notes: %w", err)
	}
	if err := atomicfile.Write(path, raw, 0o600); err != nil {
		return fmt.Errorf("note disk: %w", err)
	}
	return nil
}

// forget removes the note of a disk, and what a crash left of writing it.
func (c Cleaner) forget(t Target) error {
	path := c.notePath(t.Point)
	torn, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".*"))
	if err != nil {
		return fmt.Errorf("forget disk: %w", err)
	}
	for _, p := range append(torn, path) {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forget disk: %w", err)
		}
	}
	return nil
}

// withLeftovers adds disks whose file system an earlier task took off and did
// not restore.
func (c Cleaner) withLeftovers(targets []Target) []Target {
	for _, file := range list(c.Host.Path(c.State)) {
		var t Target
		if strings.HasPrefix(file, ".") {
			continue // a crash left it
		}
		if json.Unmarshal([]byte(text(c.Host.Path(filepath.Join(c.State, file)))), &t) != nil || !IsShare(t.Point) {
			continue
		}
		known := -1
		for i, o := range targets {
			if o.Point == t.Point {
				known = i
			}
		}
		if known >= 0 && targets[known].Disk.Node != "" {
			continue // it is mounted, so what was found now is newer than the note
		}
		if err := c.again(&t); err != nil {
			t.Refused = err.Error()
		}
		if known >= 0 {
			targets[known] = t
		} else {
			targets = append(targets, t)
		}
	}
	return targets
}

// again looks at a disk without a file system.
func (c Cleaner) again(t *Target) error {
	t.Refused = ""
	if err := errors.Join(c.Same(t.Disk), c.usable(t.Disk)); err != nil {
		return err
	}
	d, err := Look(c.Host.Path(t.Disk.Node), t.Disk)
	if err != nil {
		return err
	}
	defer d.Close()
	t.Plan = Choose(d, t.Disk.isWhole(), c.Minimum)
	if why := t.Plan.Refusal(c.Minimum); why != "" {
		return errors.New(why)
	}
	return nil
}
