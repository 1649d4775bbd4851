package hostexec_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/hostexec/hosttest"
	"gpuaas/testkit"
)

// hold traces a process until its own input ends. The tracer hears of the end
// of a process first, so for its parent the process looks like one that the
// kernel does not end.
func hold(pid string) int {
	runtime.LockOSThread()
	number, err := strconv.Atoi(pid)
	if err == nil {
		err = unix.PtraceSeize(number)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	os.Stdout.WriteString("held\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// held makes a process one that does not end. release undoes it.
func held(t *testing.T, m *hosttest.Machine, pid int) (release func()) {
	t.Helper()
	tracer := exec.CommandContext(t.Context(), m.Path("/usr/bin/ipcrm"), "hold", strconv.Itoa(pid))
	tracer.Env = []string{"GPUAAS_HOST_ROOT=" + m.Root}
	tracer.Stderr = os.Stderr
	in, err := tracer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := tracer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
		t.Fatalf("process %d is not held: %q, %v", pid, said, err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(in.Close(), tracer.Wait()); err != nil {
			t.Error(err)
		}
	}
}

var shellPID = regexp.MustCompile(`pid=([0-9]+)\.`)

func shownPID(t *testing.T, shell io.Reader) int {
	t.Helper()
	var shown []byte
	for buffer := make([]byte, 1024); ; {
		n, err := shell.Read(buffer)
		shown = append(shown, buffer[:n]...)
		if found := shellPID.FindSubmatch(shown); found != nil {
			pid, _ := strconv.Atoi(string(found[1])) // digits
			return pid
		}
		if err != nil {
			t.Fatalf("the shell says %q, then %v", shown, err)
		}
	}
}

func awaitReaped(t *testing.T, pid int) {
	t.Helper()
	testkit.Succeeds(t, "the process to be waited for", testkit.Patience, func() error {
		if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); !errors.Is(err, os.ErrNotExist) {
			return errors.New("it is still there")
		}
		return nil
	})
}

// A program that does not end even when it is killed holds nobody up. It is
// reaped once it ends after all.
func TestAProgramThatCannotBeEnded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can hold any process")
		return
	}
	t.Parallel()
	m, host := machine(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := host.Do(ctx, hostexec.Command{Program: "ipcrm", Args: []string{"deaf"}, OnLine: func([]byte) {}})
		done <- err
	}()
	pid := 0
	testkit.Succeeds(t, "the program to start", testkit.Patience, func() (err error) {
		raw, _ := os.ReadFile(m.Path("started")) // nothing before it is there
		pid, err = strconv.Atoi(string(raw))
		return err
	})
	release := held(t, m, pid)
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, hostexec.ErrStuck) || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it is waited for without end")
	}
	release()
	awaitReaped(t, pid)
}

// A tenant can trace their own shell from outside its session.
func TestAShellThatCannotBeEnded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can hold any process")
		return
	}
	t.Parallel()
	m, host := machine(t)
	shell, err := host.StartShell(t.Context(), hostexec.ShellStart{
		Program: "/bin/sh", Name: "alice", Home: "/", User: hostexec.User{UID: 20001, GID: 20001}, Columns: 80, Rows: 24,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	if _, err := shell.Write([]byte("echo pid=$$.\n")); err != nil {
		t.Fatal(err)
	}
	pid := shownPID(t, shell)
	release := held(t, m, pid)
	done := make(chan int, 1)
	go func() { done <- shell.End() }()
	select {
	case exit := <-done:
		if exit != -1 {
			t.Errorf("exit %d", exit)
		}
	case <-time.After(30 * time.Second):
		t.Error("it is waited for without end")
	}
	release()
	awaitReaped(t, pid)
	if exit := shell.End(); exit != -1 {
		t.Errorf("asked again: exit %d", exit)
	}
}

// waits returns nil if a process that is to enter a folder waits for its file system.
func waits(folder string) error {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, of := range all {
		said, _ := os.ReadFile(of) // it may have ended
		if !bytes.HasPrefix(said, []byte("gpuaas-login\x00")) || !bytes.Contains(said, []byte(folder)) {
			continue
		}
		where, err := os.ReadFile(filepath.Join(filepath.Dir(of), "stack"))
		if err == nil && bytes.Contains(where, []byte("fuse")) {
			return nil
		}
		return fmt.Errorf("it is at %q, %w", where, err)
	}
	return errors.New("there is no such process")
}

// A user whose home is a file system of their own that never answers gets a shell that
// does not begin, and holds nobody up: other programs start, and the shell is ended.
func TestAHomeThatNeverAnswers(t *testing.T) {
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Log("this machine has no file systems of users, or the test is not root:", err)
		return
	}
	m, host := machine(t)
	home := m.Path("/home/eve")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	for folder := home; folder != "/"; folder = filepath.Dir(folder) {
		if where, err := os.Stat(folder); err != nil || where.Mode()&0o001 == 0 {
			if err := errors.Join(err, os.Chmod(folder, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Nobody ever reads what the kernel asks.
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device.Fd())
	if err := unix.Mount("eve", home, "fuse", 0, options); err != nil {
		t.Fatal(err)
	}
	answers := sync.OnceFunc(func() { _ = errors.Join(device.Close(), unix.Unmount(home, unix.MNT_DETACH)) })
	t.Cleanup(answers)
	impatient := time.AfterFunc(testkit.Patience, answers) // so that a test that fails does not hang
	defer impatient.Stop()
	shell, err := host.StartShell(t.Context(), hostexec.ShellStart{
		Program: "/bin/sh", Name: "eve", Home: "/home/eve", User: hostexec.User{UID: 20001, GID: 20001},
		Columns: 80, Rows: 24,
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Succeeds(t, "the shell to wait for its home", testkit.Patience, func() error { return waits(home) })
	if err := exec.CommandContext(t.Context(), "/bin/true").Run(); err != nil {
		t.Error("no other program starts:", err)
	}
	if exit := shell.End(); exit != -1 {
		t.Errorf("a shell that never began ended with %d", exit)
	}
	if !impatient.Stop() {
		t.Error("something waited for the home")
	}
	answers()
	if err := shell.Close(); err != nil {
		t.Error(err)
	}
}
