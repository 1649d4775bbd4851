package steps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/task"
)

// endTimeout is how long the processes of a user may take to end.
const endTimeout = 20 * time.Second

// endProcesses ends everything that runs as a user and returns how many
// processes it ended.
func (h host) endProcesses(ctx context.Context, uid int) (ended int, err error) {
	if uid < 1 {
		return 0, fmt.Errorf("refuse to end the processes of uid %d", uid)
	}
	h.killSlice(uid)
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	seen := map[int]bool{}
	for {
		left, err := h.processesOf(uid)
		if err != nil {
			return len(seen), err
		}
		if len(left) == 0 {
			return len(seen), nil
		}
		for _, p := range left {
			seen[p.PID] = true
			if err := h.kill(h.machine, p.PID, uid); err != nil {
				return len(seen), err
			}
		}
		select {
		case <-ctx.Done():
			return len(seen), task.Fail("processes_remain",
				fmt.Sprintf("%d processes of uid %d do not end, the first is %d (%s)", len(left), uid, left[0].PID, left[0].Name),
				"they wait for a device or a file system: find out which, or restart the machine", ctx.Err())
		case <-tick.C:
		}
	}
}

// processesOf lists the processes of a user. A fake machine without processes
// has none.
func (h host) processesOf(uid int) ([]inspect.Process, error) {
	all, err := h.machine.Processes()
	if errors.Is(err, os.ErrNotExist) && !h.Host.Real() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var of []inspect.Process
	for _, p := range all {
		if p.Belongs(uid) {
			of = append(of, p)
		}
	}
	return of, nil
}

// killSlice ends all sessions of a user in one step, so that no process can
// start another in between. If there is no such slice, the loop above does it
// alone.
func (h host) killSlice(uid int) {
	slice := "user-" + strconv.Itoa(uid) + ".slice"
	f, err := os.OpenFile(h.Host.Path("/sys/fs/cgroup/user.slice/"+slice+"/cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteString("1")
	_ = f.Close()
}

// killProcess ends a process. Its number may belong to another process by now,
// so killProcess opens the process first and checks it again.
func killProcess(m inspect.Machine, pid, uid int) error {
	held, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("hold process %d: %w", pid, err)
	}
	defer held.Release() //nolint:errcheck // only gives the handle back
	if p, alive := m.Process(pid); !alive || !p.Belongs(uid) {
		return nil
	}
	if err := held.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}
