package hostexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/hostexec/hosttest"
	"gpuaas/testkit"
)

// escaped is the process that left its program, once it has.
func escaped(t *testing.T, m *hosttest.Machine) (pid int) {
	t.Helper()
	testkit.Succeeds(t, "an escaped process", testkit.Patience, func() error {
		raw, err := os.ReadFile(m.Path("/started"))
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(string(raw))
		return err
	})
	return pid
}

// alive says whether a process runs; one that is only not yet taken leave of does not.
func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))[0]
	return state != "Z" && state != "X"
}

func wantGone(t *testing.T, pid int) {
	t.Helper()
	testkit.Succeeds(t, "the end of a process", testkit.Patience, func() error {
		if alive(pid) {
			return fmt.Errorf("process %d still runs", pid)
		}
		return nil
	})
}

func profile(args ...string) hostexec.Profile {
	return hostexec.Profile{
		Path: "/usr/bin/ipcrm", Args: args, Output: 1 << 20, UID: os.Getuid(), GID: os.Getgid(),
		OnLine: func(bool, []byte) {},
	}
}

// endsAll runs programs that leave their process group and session, and wants nothing of
// them to be left.
func endsAll(t *testing.T) {
	t.Helper()
	m, host := machine(t)
	m.Mkdir("/run")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := host.RunProfile(ctx, profile("escape"))
		ended <- err
	}()
	pid := escaped(t, m)
	cancel(hostexec.ErrTimeout)
	if err := <-ended; !errors.Is(err, hostexec.ErrTimeout) {
		t.Errorf("a program that was ended: %v", err)
	}
	wantGone(t, pid)

	m, host = machine(t)
	exit, err := host.RunProfile(t.Context(), profile("escape", "and end"))
	if exit != 0 || err != nil {
		t.Errorf("a program that ends by itself: %d, %v", exit, err)
	}
	if raw, err := os.ReadFile(m.Path("/started")); err == nil { // it may have been ended before it came so far
		pid, err := strconv.Atoi(string(raw))
		if err != nil {
			t.Fatal(err)
		}
		wantGone(t, pid)
	}
	if exit, err := host.RunProfile(t.Context(), profile("status")); exit != 7 || err != nil {
		t.Errorf("the status of a program: %d, %v", exit, err)
	}
}

func TestAttackNothingOfAProgramOutlivesIt(t *testing.T) { endsAll(t) }

// The same in a cgroup of version 2, in a mount namespace of its own, where one can be
// seen.
func TestAttackNothingOfAProgramOutlivesItsCgroup(t *testing.T) {
	const inside = "GPUAAS_TEST_IN_CGROUP"
	folder := os.Getenv(inside)
	if folder == "" {
		if os.Geteuid() != 0 {
			return // nobody else can mount
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("none", folder, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	own := make(chan string, 1)
	_, host := machine(t)
	p := profile("groups")
	p.OnLine = func(_ bool, line []byte) {
		if _, group, found := strings.Cut(string(line), "0::"); found {
			own <- group
		}
	}
	if exit, err := host.RunProfile(t.Context(), p); exit != 0 || err != nil {
		t.Fatal(exit, err)
	}
	if group := <-own; !strings.HasPrefix(filepath.Base(group), "gpuaas-run-") {
		t.Errorf("the program was in %s, and not in a cgroup of its own", group)
	}
	endsAll(t)
	left, err := filepath.Glob(filepath.Join(folder, "gpuaas-run-"+strconv.Itoa(os.Getpid())+"-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// What a held program started ends with its time, and stays if it ends by itself.
func TestAHeldProgramLeavesNothingAfterItsTime(t *testing.T) {
	m, host := machine(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := host.Do(ctx, hostexec.Command{Program: "ipcrm", Args: []string{"escape"}, Held: true})
		ended <- err
	}()
	pid := escaped(t, m)
	cancel(hostexec.ErrTimeout)
	if err := <-ended; !errors.Is(err, hostexec.ErrTimeout) {
		t.Errorf("a program that was ended: %v", err)
	}
	wantGone(t, pid)

	m, host = machine(t)
	if _, err := host.Do(t.Context(), hostexec.Command{
		Program: "ipcrm", Args: []string{"escape", "and end"}, Held: true, Timeout: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	pid = escaped(t, m)
	if !alive(pid) {
		t.Error("what the program left was ended")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	var exit *hostexec.ExitError
	_, err := host.Do(t.Context(), hostexec.Command{Program: "ipcrm", Args: []string{"status"}, Held: true})
	if !errors.As(err, &exit) || exit.Exit != 7 || exit.Stderr != "last words" {
		t.Errorf("the status of a program: %v", err)
	}
}
