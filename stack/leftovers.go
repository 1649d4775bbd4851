package stack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The kernel told the children of a killed launcher to end. PostgreSQL gets
// time to write its checkpoint. The others lose nothing when they are killed,
// and Temporal takes long once its database is gone.
const (
	postgresPatience = 15 * time.Second
	leftoverPatience = 2 * time.Second
)

// endLeftovers waits for the children of an earlier, killed launcher and kills
// those that do not end. A process counts only if the record names it and its
// command line names this state folder, because process ids are reused.
func endLeftovers(ctx context.Context, f folder, r *record) error {
	for engine, pid := range r.pids() {
		ours := func() []int {
			if belongsTo(pid, f) {
				return []int{pid}
			}
			return nil
		}
		patience := leftoverPatience
		if engine == Postgres {
			patience = postgresPatience
		}
		if err := outlast(ctx, patience, ours); err != nil {
			return fmt.Errorf("end %s of the last run: %w", engine, err)
		}
	}
	return r.forgetPIDs()
}

// outlast returns when find finds no process any more. It kills those that are
// left when patience ends.
func outlast(ctx context.Context, patience time.Duration, find func() []int) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		left := find()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			deadline.Reset(patience)
		case <-ctx.Done():
			return fmt.Errorf("wait for processes %v: %w", left, ctx.Err())
		}
	}
}

func belongsTo(pid int, f folder) bool {
	return f.namedIn(commandLine(pid))
}

// folderMark precedes the state folder among the parameters of PostgreSQL,
// which gets its folder as an open file and not by name.
const folderMark = "gpuaas.state="

func (f folder) namedIn(line []string) bool {
	return slices.ContainsFunc(line, func(arg string) bool {
		return arg == string(f) || arg == folderMark+string(f) || strings.HasPrefix(arg, string(f)+"/")
	})
}

// processesWhere finds processes by their command lines, which everybody may
// read. A zombie has none.
func processesWhere(matches func(line []string) bool) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if line := commandLine(pid); len(line) > 0 && matches(line) {
			found = append(found, pid)
		}
	}
	return found
}

// dying finds processes of a program that are ending: the kernel frees their
// memory after their command line is gone and before they are zombies.
func dying(program string) []int {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var found []int
	for _, file := range files {
		b, err := os.ReadFile(file)
		var pid int
		if _, scanErr := fmt.Sscan(string(b), &pid); err != nil || scanErr != nil {
			continue
		}
		ended := bytes.HasPrefix(b, fmt.Appendf(nil, "%d (%s) Z", pid, program)) ||
			bytes.HasPrefix(b, fmt.Appendf(nil, "%d (%s) X", pid, program))
		if bytes.HasPrefix(b, fmt.Appendf(nil, "%d (%s) ", pid, program)) && !ended && len(commandLine(pid)) == 0 {
			found = append(found, pid)
		}
	}
	return found
}

// commandLine is empty for a process that does not exist or is a zombie.
func commandLine(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	b = bytes.TrimRight(b, "\x00")
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(string(b), "\x00")
}
