package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return storageCleanup{h} }, agentwire.TypeStorageCleanup)

// storageCleanup removes what tenants left on disks and mounts.
type storageCleanup struct{ host }

// localFolders are always emptied. Parameters add others.
var localFolders = []string{"/tmp", "/var/tmp", "/scratch"}

// Check implements task.Handler. Empty folders before the task mean nothing:
// only the task's own work counts as done.
func (h storageCleanup) Check(_ context.Context, t *task.Task) (any, bool, error) {
	return recall[agentwire.StorageCleanupOutput](t)
}

// Apply implements task.Handler. What could not be removed is residue, not a
// failure: the caller decides what it means.
func (h storageCleanup) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.StorageCleanupParams](t)
	if err != nil {
		return nil, err
	}
	mounts, err := h.machine.Mounts()
	if err != nil && (h.Host.Real() || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	out := agentwire.StorageCleanupOutput{
		Scope: p.Scope, Unmounted: []string{}, ConfigRemoved: []string{}, Residue: []string{},
		Folders: []agentwire.FolderCleaned{}, Devices: []agentwire.DeviceSanitized{},
	}
	// Weka first: a mount below a scratch folder would be in the way.
	if p.Scope != "local" {
		if err := step(t, "weka", func() (string, error) { return h.cleanWeka(ctx, mounts, &out) }); err != nil {
			return nil, err
		}
	}
	// Then disks: what is erased with them need not be removed piece by piece.
	if p.Disks == agentwire.DisksSanitize {
		if err := h.sanitizeDisks(ctx, t, p, mounts, &out); err != nil {
			return nil, err
		}
	}
	if p.Scope != "weka" {
		if err := h.cleanLocal(ctx, t, p, mounts, &out); err != nil {
			return nil, err
		}
	}
	return out, remember(t, out)
}

func (h storageCleanup) cleanLocal(ctx context.Context, t *task.Task, p *agentwire.StorageCleanupParams,
	mounts []inspect.Mount, out *agentwire.StorageCleanupOutput,
) error {
	folders := slices.Clone(localFolders)
	for _, s := range p.Scratch {
		if !slices.Contains(folders, s) {
			folders = append(folders, s)
		}
	}
	for _, folder := range folders {
		if err := step(t, "empty "+folder, func() (
			string, error,
		) {
			return h.emptyFolder(ctx, folder, mounts, out)
		}); err != nil {
			return err
		}
	}
	removed, residue := h.removeShared(slices.Concat(sharedMemory, spools), tenantUID)
	out.EntriesRemoved += removed
	out.Residue = append(out.Residue, residue...)
	return nil
}

// emptyFolder empties one folder and adds the evidence of it.
func (h storageCleanup) emptyFolder(ctx context.Context, folder string, mounts []inspect.Mount,
	out *agentwire.StorageCleanupOutput,
) (string, error) {
	left := func(outcome, format string, args ...any) (string, error) {
		one := agentwire.FolderCleaned{Path: folder, Outcome: outcome, Reason: fmt.Sprintf(format, args...)}
		out.Folders = append(out.Folders, one)
		if outcome == agentwire.OutcomeSkipped {
			out.Residue = append(out.Residue, folder+": "+one.Reason)
		}
		return outcome + ": " + one.Reason, nil
	}
	if m, ok := inspect.Holding(mounts, folder); ok && m.Shared() {
		return left(agentwire.OutcomeSkipped, "it lies on a %s file system that other machines may use, and is not emptied",
			m.Type)
	}
	top, err := openFolder(h.Host, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return left(agentwire.OutcomeNotThere, "this machine has no such folder")
	}
	if err != nil {
		return left(agentwire.OutcomeSkipped, "%v", bare(err))
	}
	defer top.Close()
	s := sweeper{top: top, name: folder, keep: keepInTemp, stop: ctx.Err}
	err = s.sweep()
	out.EntriesRemoved += s.entries
	out.BytesFreed += s.bytes
	out.Residue = append(out.Residue, s.residue...)
	if err != nil {
		return "", fmt.Errorf("empty %s: %w", folder, err)
	}
	one := agentwire.FolderCleaned{
		Path: folder, EntriesRemoved: s.entries, BytesFreed: s.bytes,
		Outcome: agentwire.OutcomeEmptied,
	}
	if len(s.residue) > 0 {
		one.Outcome, one.Reason = agentwire.OutcomeIncomplete,
			fmt.Sprintf("%d entries could not be removed, the first: %s", len(s.residue), s.residue[0])
	}
	out.Folders = append(out.Folders, one)
	return fmt.Sprintf("%d entries, %d bytes", s.entries, s.bytes), nil
}

// systemEntries at the top of temporary folders belong to running services, and
// tenants cannot write into them.
var systemEntries = []string{"systemd-private-", "snap-private-tmp", "lost+found"}

func keepInTemp(name string, info fs.FileInfo) bool {
	return info.IsDir() && stat(info).Uid == 0 &&
		slices.ContainsFunc(systemEntries, func(p string) bool { return strings.HasPrefix(name, p) })
}
