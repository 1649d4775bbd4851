package steps

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gpuaas/agent/internal/sanitize"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return dataDisks{h} }, agentwire.TypeDataDisks)

// dataDisks looks at the disks that do not carry the system, and makes data disks
// of those that nothing uses.
type dataDisks struct{ host }

// Check implements task.Handler.
func (h dataDisks) Check(ctx context.Context, t *task.Task) (any, bool, error) {
	p, err := params[agentwire.DataDisksParams](t)
	if err != nil {
		return nil, false, err
	}
	if p.Action == agentwire.DataDisksInitialize {
		return recall[agentwire.DataDisksOutput](t)
	}
	f, targets, err := h.find(ctx)
	if err != nil {
		return nil, false, err
	}
	out := agentwire.DataDisksOutput{Action: p.Action, Disks: []agentwire.DataDisk{}}
	for _, target := range targets {
		out.Disks = append(out.Disks, h.look(ctx, f, target))
	}
	return out, true, ctx.Err()
}

// Apply implements task.Handler. A disk that cannot be initialized is part of the
// output: the others are not held up by it.
func (h dataDisks) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.DataDisksParams](t)
	if err != nil {
		return nil, err
	}
	f, targets, err := h.find(ctx)
	if err != nil {
		return nil, err
	}
	out := agentwire.DataDisksOutput{Action: p.Action, Disks: []agentwire.DataDisk{}}
	for _, target := range targets {
		d := h.look(ctx, f, target)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("look at %s: %w", d.Device, err)
		}
		begun := t.Reporter.Recall(initKey(target)) != ""
		if begun || d.State == agentwire.DataDiskBlank || p.Destroy && d.State == agentwire.DataDiskHoldsData {
			err := step(t, "initialize "+d.Device, func() (string, error) {
				return h.initialize(ctx, t, f, targets, target, &d)
			})
			if ctx.Err() != nil {
				return nil, fmt.Errorf("initialize %s: %w", d.Device, ctx.Err())
			}
			if err != nil {
				d.State, d.Reason = agentwire.DataDiskFailed, err.Error()
			}
		}
		out.Disks = append(out.Disks, d)
	}
	return out, remember(t, out)
}

// find lists the data disks, and the disks that could become some.
func (h dataDisks) find(ctx context.Context) (sanitize.Finder, []sanitize.Target, error) {
	mounts, err := h.machine.Mounts()
	if err != nil {
		return sanitize.Finder{}, nil, err
	}
	f := sanitize.Finder{Host: h.Host, Mounts: mounts, Table: h.machine.FileTable()}
	targets := f.Targets(ctx)
	return f, append(targets, f.Unclaimed(targets)...), ctx.Err()
}

// look says what is on a disk.
func (h dataDisks) look(ctx context.Context, f sanitize.Finder, t sanitize.Target) agentwire.DataDisk {
	d := agentwire.DataDisk{
		Device: t.Disk.Node, Serial: t.Disk.Serial, Model: t.Disk.Model, MountPoint: t.Point,
		State: agentwire.DataDiskMounted, Reason: t.Refused,
	}
	if !t.Unclaimed {
		return d
	}
	seen := f.Judge(ctx, t, "", h.Clock)
	d.SizeBytes, d.Reason, d.State = seen.SizeBytes, seen.Reason, agentwire.DataDiskUnknown
	switch {
	case t.Refused != "": // mounted somewhere else
		d.State = agentwire.DataDiskMounted
	case seen.Outcome == agentwire.OutcomeBlank:
		d.State = agentwire.DataDiskBlank
	case seen.SamplesUnclean > 0:
		d.State = agentwire.DataDiskHoldsData
	}
	return d
}

// begun is what is kept of a disk before it is changed, so that a repetition after
// a crash ends what was begun instead of finding data on it.
type begun struct {
	Number int    `json:"number"`
	UUID   string `json:"uuid"`
}

// initKey names a disk by what it is: after a reboot, another disk may have its name.
// One that nothing can be recognised by is known until then.
func initKey(t sanitize.Target) string {
	d := t.Disk
	if d.Identity == "" {
		return "init " + d.Node + " since " + d.Boot
	}
	return "init " + d.Identity + " " + d.Serial
}

func (h dataDisks) initialize(ctx context.Context, t *task.Task, f sanitize.Finder, all []sanitize.Target,
	target sanitize.Target, d *agentwire.DataDisk,
) (string, error) {
	var b begun
	if raw := t.Reporter.Recall(initKey(target)); raw != "" {
		if err := json.Unmarshal([]byte(raw), &b); err != nil {
			return "", fmt.Errorf("read what was begun: %w", err)
		}
	} else {
		b = begun{Number: h.freeShare(t, f, all), UUID: newUUID()}
		raw, err := json.Marshal(b)
		if err != nil {
			return "", fmt.Errorf("encode what is begun: %w", err)
		}
		if err := t.Reporter.Checkpoint(initKey(target), string(raw)); err != nil {
			return "", fmt.Errorf("remember what is begun: %w", err)
		}
	}
	target.Point, target.Filesystem = sharePoint(b.Number), sanitize.NewShare(b.Number, b.UUID)
	if target.Disk.Numbers == "" {
		return "", errors.New("the device is not known")
	}
	if err := f.Initialize(ctx, target); err != nil {
		return "", err
	}
	d.State, d.MountPoint, d.Reason = agentwire.DataDiskInitialized, target.Point, ""
	return "mounted at " + target.Point, nil
}

func sharePoint(number int) string { return fmt.Sprintf("/share%d", number) }

// freeShare is the first number that no mount, no line of /etc/fstab and no disk of
// this task has.
func (h dataDisks) freeShare(t *task.Task, f sanitize.Finder, all []sanitize.Target) int {
	var taken []string
	for _, m := range slices.Concat(f.Mounts, f.Table) {
		taken = append(taken, m.Point)
	}
	for _, other := range all {
		var b begun
		if raw := t.Reporter.Recall(initKey(other)); raw != "" && json.Unmarshal([]byte(raw), &b) == nil {
			taken = append(taken, sharePoint(b.Number))
		}
	}
	for n := 1; ; n++ {
		if !slices.Contains(taken, sharePoint(n)) {
			return n
		}
	}
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
