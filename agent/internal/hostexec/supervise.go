package hostexec

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervisor is the name under which the agent's own program starts another one and
// sees to everything that comes of it.
const supervisor = "gpuaas-supervise"

// What becomes of what a program leaves behind when it ends by itself.
const (
	endRest  = "end"
	keepRest = "keep"
)

// supervise runs the program of its arguments. Orphans become its children, whatever
// they did to leave: nothing outlives it. It ends everything after a grace when it is
// told to end, and when the agent closes the lifeline or dies, unless the rest may stay.
// It returns an exit code.
func supervise() int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil || len(os.Args) < 5 {
		fmt.Fprintf(os.Stderr, "supervise: it cannot hold what its program starts: %v\n", err)
		return confinerFailed
	}
	lifeline := os.NewFile(3, "lifeline")
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	if more, err := strconv.Atoi(os.Args[2]); err == nil {
		for i := range more {
			files = append(files, os.NewFile(uintptr(4+i), "passed on"))
		}
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	child, err := os.StartProcess(os.Args[3], os.Args[4:], &os.ProcAttr{ //nolint:gosec // told by the agent
		Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "supervise: %v\n", err)
		return confinerFailed
	}
	for _, f := range files[3:] {
		_ = f.Close()
	}
	gone, ended := broken(lifeline), make(chan syscall.WaitStatus, 1)
	go reapAll(child.Pid, ended)
	status, told := syscall.WaitStatus(0), false
	var patience <-chan time.Time
	for waiting := true; waiting; {
		select {
		case status = <-ended:
			waiting = false
		case <-asked:
			_ = syscall.Kill(-child.Pid, syscall.SIGTERM)
			told, patience = true, time.After(grace)
		case <-patience:
			waiting = false
		case <-gone:
			if gone = nil; os.Args[1] == endRest { // otherwise it may go on without the agent
				told, waiting = true, false
			}
		}
	}
	if told || os.Args[1] == endRest {
		endDescendants()
	}
	if told || status.Signaled() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // as the program ended
	}
	return status.ExitStatus()
}

// broken is closed when nobody holds the other end of a pipe any more.
func broken(pipe *os.File) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		close(gone)
	}()
	return gone
}

// reapAll takes leave of every child, and says how one of them ended.
func reapAll(of int, ended chan<- syscall.WaitStatus) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // nobody is left
			return
		case pid == of:
			ended <- status
		}
	}
}

// endDescendants kills until nothing is left that came of this process.
func endDescendants() {
	for until := time.Now().Add(killed); time.Now().Before(until); time.Sleep(lookout) {
		all := descendants(os.Getpid())
		if len(all) == 0 {
			return
		}
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// descendants are the processes that a process and its children started, dead ones
// apart.
func descendants(of int) (all []int) {
	children := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		pid, errPID := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, errParent := strconv.Atoi(fields[1])
		if errPID == nil && errParent == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	for next := []int{of}; len(next) > 0; next = next[1:] {
		all = append(all, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return all
}
