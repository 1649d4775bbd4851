package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
	"gpuaas/contract/agentwire"
)

// wekaConfig is where the Weka client keeps the rights of a tenant.
var wekaConfig = []string{filepath.Join("/root", ".weka"), "/etc/weka/auth-token.json"}

const wekaType = "wekafs"

// wekaProgram speaks for the containers of Weka on the machine. Its commands are
// those of Weka's published documents; they were never run against a Weka.
const wekaProgram = "weka"

// wekaClient is how the names of containers begin that a mount makes. Others may
// serve storage to other machines.
const wekaClient = "client"

// wekaFolders are where containers keep their state, cache, logs and traces, by
// their names. The software of the client is elsewhere, and stays.
var wekaFolders = []string{"/opt/weka/data", "/opt/weka/logs", "/opt/weka/traces"}

// wekaTraces are what shows that a machine has a client, whether or not it can be
// asked.
var wekaTraces = []string{"/opt/weka", "/sys/module/wekafsio", "/sys/module/wekafsgw"}

func (h storageCleanup) cleanWeka(ctx context.Context, mounts []inspect.Mount, out *agentwire.StorageCleanupOutput) (
	string, error,
) {
	busy := false
	// Unmount the last one first: it may lie on an earlier one.
	for _, m := range slices.Backward(mounts) {
		if m.Type != wekaType {
			continue
		}
		_, err := h.Host.Do(ctx, hostexec.Command{Program: "umount", Args: []string{"--", m.Point}})
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("unmount %s: %w", m.Point, err)
		case err != nil:
			busy = true
			out.Residue = append(out.Residue, fmt.Sprintf("%s: %v", printable(m.Point), err))
		default:
			out.Unmounted = append(out.Unmounted, m.Point)
		}
	}
	if busy { // what was written there and not sent yet would be lost
		out.Residue = append(out.Residue, "weka: a file system is in use, so its client is left alone")
		return fmt.Sprintf("%d unmounted", len(out.Unmounted)), nil
	}
	if err := h.removeWekaClient(ctx, mounts, out); err != nil {
		return "", err
	}
	for _, path := range wekaConfig {
		if _, err := os.Lstat(h.Host.Path(path)); err != nil {
			continue
		}
		residue, err := removeTree(h.Host, path, ctx.Err)
		if err != nil {
			return "", fmt.Errorf("remove %s: %w", path, err)
		}
		out.Residue = append(out.Residue, residue...)
		if len(residue) == 0 {
			out.ConfigRemoved = append(out.ConfigRemoved, path)
		}
	}
	if err := h.forgetMounts(out); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d unmounted", len(out.Unmounted)), nil
}

// forgetMounts removes Weka file systems from /etc/fstab, so that they do not
// come back at the next boot.
func (h storageCleanup) forgetMounts(out *agentwire.StorageCleanupOutput) error {
	const table = "/etc/fstab"
	raw, err := os.ReadFile(h.Host.Path(table))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", table, err)
	}
	var kept strings.Builder
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) >= 3 && !strings.HasPrefix(fields[0], "#") && fields[2] == wekaType {
			out.ConfigRemoved = append(out.ConfigRemoved, table+" "+fields[1])
			continue
		}
		kept.WriteString(line)
	}
	if kept.Len() == len(raw) {
		return nil
	}
	if err := atomicfile.Write(h.Host.Path(table), []byte(kept.String()), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", table, err)
	}
	return nil
}

// removeWekaClient removes the containers of the client, and what they kept: the
// next mount makes new ones. What is there and not known how to clean is residue.
func (h storageCleanup) removeWekaClient(ctx context.Context, mounts []inspect.Mount,
	out *agentwire.StorageCleanupOutput,
) error {
	names, err := h.wekaContainers(ctx)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("list containers of Weka: %w", ctx.Err())
	case errors.Is(err, hostexec.ErrNoProgram):
		if traces := h.tracesOfWeka(mounts); len(traces) > 0 {
			out.Residue = append(out.Residue, fmt.Sprintf("weka: there are traces of a client (%s), and no program at %s that "+
				"could be asked: its state and cache are not removed", strings.Join(traces, ", "), "/usr/bin/weka"))
			return nil
		}
		out.Folders = append(out.Folders, agentwire.FolderCleaned{
			Path: "/opt/weka", Outcome: agentwire.OutcomeNotThere, Reason: "this machine has no client of Weka",
		})
		return nil
	case err != nil:
		out.Residue = append(out.Residue, fmt.Sprintf("weka: it does not say which containers there are: %v", err))
		return nil
	}
	before := len(out.Residue)
	for _, name := range names {
		if err := h.removeWekaContainer(ctx, name, out); err != nil {
			return err
		}
	}
	if len(out.Residue) > before {
		return nil // a container that may still run keeps its folders
	}
	for _, folder := range wekaFolders {
		if err := h.emptyOfWeka(ctx, folder, out); err != nil {
			return err
		}
	}
	return nil
}

func (h storageCleanup) tracesOfWeka(mounts []inspect.Mount) (traces []string) {
	for _, path := range wekaTraces {
		if _, err := os.Lstat(h.Host.Path(path)); err == nil {
			traces = append(traces, path)
		}
	}
	if slices.ContainsFunc(mounts, func(m inspect.Mount) bool { return m.Type == wekaType }) {
		traces = append(traces, "mounts")
	}
	return traces
}

// wekaContainers lists the containers of Weka on the machine.
func (h storageCleanup) wekaContainers(ctx context.Context) ([]string, error) {
	out, err := h.Host.Do(ctx, hostexec.Command{
		Program: wekaProgram, Args: []string{"local", "ps", "--json"}, Timeout: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	var list []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(out.Stdout, &list); err != nil {
		return nil, fmt.Errorf("decode its answer: %w", err)
	}
	var names []string
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names, nil
}

// removeWekaContainer stops and removes a container of the client. Its cache is in
// its memory, and goes with it.
func (h storageCleanup) removeWekaContainer(ctx context.Context, name string,
	out *agentwire.StorageCleanupOutput,
) error {
	left := func(format string, args ...any) {
		out.Residue = append(out.Residue, fmt.Sprintf("weka container %s: %s", printable(name), fmt.Sprintf(format, args...)))
	}
	if !strings.HasPrefix(name, wekaClient) || !containerName(name) {
		left("it is not a client's by its name, may serve storage to other machines, and is left alone")
		return nil
	}
	for _, verb := range []string{"stop", "rm"} {
		_, err := h.Host.Do(ctx, hostexec.Command{
			Program: wekaProgram, Args: []string{"local", verb, "--force", name}, Timeout: 5 * time.Minute,
		})
		if ctx.Err() != nil {
			return fmt.Errorf("remove container of Weka: %w", ctx.Err())
		}
		if err != nil {
			left("%s: %v", verb, err)
			return nil
		}
	}
	names, err := h.wekaContainers(ctx)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("list containers of Weka: %w", ctx.Err())
	case err != nil:
		left("whether it is gone is not known: %v", err)
	case slices.Contains(names, name):
		left("it was removed and is still there")
	default:
		out.ConfigRemoved = append(out.ConfigRemoved, "weka container "+name)
	}
	return nil
}

// containerName says whether a name can stand on a command line.
func containerName(name string) bool {
	return len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
	})
}

// emptyOfWeka removes what the containers of the client kept in a folder.
func (h storageCleanup) emptyOfWeka(ctx context.Context, folder string, out *agentwire.StorageCleanupOutput) error {
	one := agentwire.FolderCleaned{Path: folder, Outcome: agentwire.OutcomeEmptied}
	top, err := openFolder(h.Host, folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		one.Outcome, one.Reason = agentwire.OutcomeNotThere, "this machine has no such folder"
		out.Folders = append(out.Folders, one)
		return nil
	case err != nil:
		one.Outcome, one.Reason = agentwire.OutcomeSkipped, bare(err).Error()
		out.Folders, out.Residue = append(out.Folders, one), append(out.Residue, folder+": "+one.Reason)
		return nil
	}
	defer top.Close()
	s := sweeper{top: top, name: folder, stop: ctx.Err, keep: func(name string, _ fs.FileInfo) bool {
		return !strings.HasPrefix(name, wekaClient)
	}}
	if err := s.sweep(); err != nil {
		return fmt.Errorf("empty %s of what clients of Weka kept: %w", folder, err)
	}
	one.EntriesRemoved, one.BytesFreed = s.entries, s.bytes
	out.EntriesRemoved, out.BytesFreed = out.EntriesRemoved+s.entries, out.BytesFreed+s.bytes
	if len(s.residue) > 0 {
		one.Outcome, one.Reason = agentwire.OutcomeIncomplete,
			fmt.Sprintf("%d entries could not be removed, the first: %s", len(s.residue), s.residue[0])
	}
	out.Residue, out.Folders = append(out.Residue, s.residue...), append(out.Folders, one)
	return nil
}
