package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/sanitize"
	"gpuaas/contract/agentwire"
)

func (h validateClean) lookIPC(ctx context.Context, i *inspection) (looked, error) {
	objects, files := h.machine.IPC(), 0
	for _, o := range objects {
		if i.tenant(o.UID) || i.tenant(o.CUID) {
			i.found("ipc", o.Kind+" "+strconv.Itoa(o.ID), "of uid %d, made by uid %d", o.UID, o.CUID)
		}
	}
	for _, folder := range sharedMemory {
		files += h.lookFiles(ctx, i, "ipc", folder)
	}
	return count("%d System V objects, %d entries of shared memory", len(objects), files), nil
}

func (h validateClean) lookTemp(ctx context.Context, i *inspection) (looked, error) {
	mounts, err := h.machine.Mounts()
	if err != nil && (h.Host.Real() || !errors.Is(err, fs.ErrNotExist)) {
		return looked{}, err
	}
	return h.lookFolders(ctx, i, "tmp", mounts, localFolders), nil
}

// lookFolders looks at folders of this machine. It only names those that other
// machines use too.
func (h validateClean) lookFolders(ctx context.Context, i *inspection, kind string, mounts []inspect.Mount,
	folders []string,
) looked {
	files := 0
	var done, shared []string
	for _, folder := range folders {
		if m, ok := inspect.Holding(mounts, folder); ok && m.Shared() {
			shared = append(shared, folder)
			continue
		}
		done = append(done, folder)
		files += h.lookFiles(ctx, i, kind, folder)
	}
	detail := fmt.Sprintf("%d entries in %s", files, strings.Join(done, ", "))
	if len(done) == 0 {
		detail = "nothing of this machine alone"
	}
	if len(shared) > 0 {
		detail += "; shared with other machines and not looked at: " + strings.Join(shared, ", ")
	}
	return count("%s", detail)
}

// lookDisks looks at the data disks, and at the mount points where none is
// mounted. A disk that should be there and is not counts as not looked at.
func (h validateClean) lookDisks(ctx context.Context, i *inspection) (looked, error) {
	mounts, err := h.machine.Mounts()
	if err != nil && (h.Host.Real() || !errors.Is(err, fs.ErrNotExist)) {
		return looked{}, err
	}
	entries, err := os.ReadDir(h.Host.Path("/"))
	if err != nil {
		return looked{}, fmt.Errorf("list mount points of disks: %w", err)
	}
	var points []string
	for _, e := range entries {
		if point := "/" + e.Name(); sanitize.IsShare(point) {
			points = append(points, point)
		}
	}
	for _, w := range h.machine.FileTable() {
		mounted := slices.ContainsFunc(mounts, func(m inspect.Mount) bool { return m.Point == w.Point })
		if sanitize.IsShare(w.Point) && !mounted {
			i.found("disks", w.Point, "there should be a disk, and it is not mounted: it could not be looked at")
		}
	}
	blank := h.lookUnclaimed(ctx, i, mounts)
	if len(points) == 0 && blank == 0 {
		return none("this machine has no data disk"), nil
	}
	seen := h.lookFolders(ctx, i, "disks", mounts, points)
	if blank > 0 {
		seen.detail += fmt.Sprintf("; %d disks that are not mounted are blank", blank)
	}
	return seen, nil
}

// lookUnclaimed looks at the disks that are mounted nowhere. Unless they are
// blank, nobody can tell whose data they hold.
func (h validateClean) lookUnclaimed(ctx context.Context, i *inspection, mounts []inspect.Mount) (blank int) {
	finder := sanitize.Finder{Host: h.Host, Mounts: mounts}
	// lookMounts looks at disks that are mounted, but not as data disks.
	disks := slices.DeleteFunc(finder.Unclaimed(nil), func(t sanitize.Target) bool { return t.Refused != "" })
	seen := make([]agentwire.DeviceSanitized, len(disks))
	var group sync.WaitGroup
	for k, t := range disks {
		group.Go(func() { seen[k] = finder.Judge(ctx, t, "", h.Clock) })
	}
	group.Wait()
	for _, e := range seen {
		if e.Outcome == agentwire.OutcomeBlank {
			blank++
			continue
		}
		i.found("disks", e.Device, "%s", e.Reason)
	}
	return blank
}

// maxLooked limits a walk through a folder that tenants could fill.
const maxLooked = 1_000_000

// lookFiles looks for files of tenants and returns how many files it saw. What
// is there and cannot be looked at, such as a folder that was replaced by a
// link, is not clean.
func (h validateClean) lookFiles(ctx context.Context, i *inspection, kind, folder string) (seen int) {
	unseen := func(path string, err error) {
		if !errors.Is(err, fs.ErrNotExist) { // gone meanwhile, or never there
			i.found(kind, path, "could not be looked at: %v", bare(err))
		}
	}
	root := h.Host.Path(folder)
	top, err := os.Lstat(root)
	if err == nil && !top.IsDir() {
		err = errLink
	}
	if err != nil {
		unseen(folder, err)
		return 0
	}
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error { // it fails only if the function does
		if ctx.Err() != nil {
			return fs.SkipAll // the caller sees that too
		}
		shown := filepath.Join(folder, strings.TrimPrefix(path, root))
		if err != nil {
			unseen(shown, err)
			return nil
		}
		if seen++; seen > maxLooked {
			i.found(kind, folder, "more than %d entries: not looked at to the end", maxLooked)
			return fs.SkipAll
		}
		info, err := e.Info()
		if err != nil {
			unseen(shown, err)
			return nil
		}
		if !i.tenant(int(stat(info).Uid)) {
			return nil
		}
		i.found(kind, shown, "belongs to uid %d", stat(info).Uid)
		if e.IsDir() {
			return fs.SkipDir // it counts as one
		}
		return nil
	})
	return seen
}
