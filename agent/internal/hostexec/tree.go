package hostexec

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// tree holds a program and everything that it starts, also what leaves its process
// group and session: a cgroup of its own, or, where the agent can make none, a
// supervisor that every orphan comes back to. Both end all of it.
type tree struct {
	folder   string   // of the cgroup; empty: there is a supervisor
	lifeline *os.File // the supervisor ends everything when it is closed
}

// groupPrefix begins the names of cgroups; the process that made one follows.
const groupPrefix = "gpuaas-run-"

var (
	groups   atomic.Int64
	noGroups atomic.Bool // processes could not be moved
)

// supervised has a command that was not started yet run below a supervisor. What its
// program leaves behind when it ends by itself is ended as well, unless keep says
// otherwise.
func supervised(cmd *exec.Cmd, keep bool) (*tree, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	what := keepRest
	if !keep {
		what = endRest
	}
	cmd.Args = append([]string{supervisor, what, strconv.Itoa(len(cmd.ExtraFiles)), cmd.Path}, cmd.Args...)
	cmd.Path = "/proc/self/exe" // the agent itself
	cmd.ExtraFiles = append([]*os.File{read}, cmd.ExtraFiles...)
	cmd.WaitDelay += grace / 2 // it kills the program itself after the grace
	return &tree{lifeline: write}, nil
}

// started lets go of what only the child needs, and puts it into its cgroup. The child
// does nothing yet.
func (t *tree) started(cmd *exec.Cmd) error {
	if t.lifeline != nil {
		return cmd.ExtraFiles[0].Close()
	}
	if cmd.Process == nil {
		return nil
	}
	err := os.WriteFile(filepath.Join(t.folder, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0)
	if err != nil {
		noGroups.Store(true) // the next one has a supervisor
		return fmt.Errorf("hold what it starts together: %w", err)
	}
	return nil
}

// end ends everything in the tree.
func (t *tree) end() {
	if t.lifeline != nil {
		_ = t.lifeline.Close()
		return
	}
	endGroup(t.folder)
}

// endGroup kills everything in a cgroup and removes it.
func endGroup(folder string) {
	if os.WriteFile(filepath.Join(folder, "cgroup.kill"), []byte("1"), 0) != nil {
		return // it is gone
	}
	for until := time.Now().Add(killed); time.Now().Before(until); time.Sleep(lookout) {
		if err := os.Remove(folder); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
	}
}

// newGroup makes a cgroup below that of the agent; nil: it cannot.
func newGroup() *tree {
	own := ownGroup()
	if own == "" || noGroups.Load() {
		return nil
	}
	folder := filepath.Join(own, fmt.Sprintf("%s%d-%d", groupPrefix, os.Getpid(), groups.Add(1)))
	if os.Mkdir(folder, 0o755) != nil { //nolint:gosec // cgroups are for all to see
		return nil
	}
	if _, err := os.Stat(filepath.Join(folder, "cgroup.kill")); err != nil { // kernels before 5.14 have none
		_ = os.Remove(folder)
		return nil
	}
	return &tree{folder: folder}
}

// ownGroup is the folder of the agent's own cgroup; empty: there are no cgroups of
// version 2, or they cannot be seen.
func ownGroup() string {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	_, path, found := strings.Cut("\n"+string(raw), "\n0::")
	if !found {
		return ""
	}
	path, _, _ = strings.Cut(path, "\n")
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = mounts.Close() }()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/")); ok {
			return filepath.Join(fields[4], below)
		}
	}
	return ""
}

// EndLeftovers ends programs of agents that died before their programs did.
func EndLeftovers() {
	own := ownGroup()
	if own == "" {
		return
	}
	all, err := filepath.Glob(filepath.Join(own, groupPrefix+"*"))
	if err != nil {
		return
	}
	for _, folder := range all {
		maker, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), groupPrefix), "-")
		pid, err := strconv.Atoi(maker)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			endGroup(folder)
		}
	}
}
