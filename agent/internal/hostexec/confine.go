package hostexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// confiner is the name under which the agent's own program prepares a process
// and then becomes the program that was asked for.
const confiner = "gpuaas-confine"

// ErrOutput says that a program printed more than it may.
var ErrOutput = errors.New("the program printed more than it may and was ended")

// Profile is a program of a signed command profile. It runs confined: it can
// gain no privileges, has an own /tmp, and its resources are limited.
type Profile struct {
	Path   string // of the program on the machine
	Args   []string
	Env    []string // besides the clean environment
	UID    int
	GID    int
	Output int64 // bytes of both streams together
	Limits map[int]uint64
	// OnLine gets each line of standard output and standard error.
	OnLine func(stderr bool, line []byte)
}

// spawn is what the confiner is told.
type spawn struct {
	Path   string
	Argv   []string
	Env    []string
	UID    int
	GID    int
	Tmp    []string // folders that become empty ones of their own
	Limits map[int]uint64
	Root   bool // it may change identity and mounts
}

// RunProfile starts a program of a command profile and waits for it. The exit
// code is -1 if a signal ended it. The context limits the time; at its end everything
// that came of the program is killed, also what left its process group.
func (h Host) RunProfile(ctx context.Context, p Profile) (exit int, err error) {
	if !executable(h.Path(p.Path)) {
		return 0, fmt.Errorf("%s: %w", p.Path, ErrNoProgram)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, "/proc/self/exe") // the agent itself
	cmd.Args = []string{confiner}
	cmd.Env = h.environment()
	cmd.Dir = h.Path("/")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	root := os.Geteuid() == 0
	if root {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	told, err := json.Marshal(spawn{
		Path: h.Path(p.Path), Argv: append([]string{p.Path}, p.Args...), Env: append(h.environment(), p.Env...),
		UID: p.UID, GID: p.GID, Tmp: []string{h.Path("/tmp"), h.Path("/var/tmp")}, Limits: p.Limits, Root: root,
	})
	if err != nil {
		return 0, fmt.Errorf("encode command: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("make pipe: %w", err)
	}
	cmd.ExtraFiles = []*os.File{read}
	held := newGroup()
	if held == nil {
		if held, err = supervised(cmd, false); err != nil {
			return 0, errors.Join(err, read.Close(), write.Close())
		}
	}
	defer held.end()
	var printed atomic.Int64
	stream := func(stderr bool) *lineWriter {
		return &lineWriter{onLine: func(line []byte) {
			if printed.Add(int64(len(line))+1) > p.Output {
				cancel(ErrOutput)
				return
			}
			p.OnLine(stderr, line)
		}}
	}
	stdout, stderr := stream(false), stream(true)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Start()
	_ = read.Close()
	if err := errors.Join(err, held.started(cmd)); err != nil {
		_ = write.Close() // a confiner that is told nothing starts nothing
		if cmd.Process != nil {
			_ = cmd.Wait()
		}
		return 0, fmt.Errorf("start %s: %w", p.Path, err)
	}
	_, writeErr := write.Write(told)
	_ = write.Close()
	ended, err := reap(ctx, cmd)
	// Also kill what the program left behind. A supervisor must live to do that.
	if held.lifeline == nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if !ended {
		stdout.silence()
		stderr.silence()
		return 0, fmt.Errorf("run %s: %w: %w", p.Path, context.Cause(ctx), ErrStuck)
	}
	if cause := context.Cause(ctx); cause != nil {
		return -1, fmt.Errorf("run %s: %w", p.Path, cause)
	}
	stdout.flush()
	stderr.flush()
	if cause := context.Cause(ctx); cause != nil {
		return -1, fmt.Errorf("run %s: %w", p.Path, cause)
	}
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) && !errors.Is(err, exec.ErrWaitDelay) {
		return 0, fmt.Errorf("run %s: %w", p.Path, err)
	}
	if cmd.ProcessState.ExitCode() == confinerFailed {
		return 0, fmt.Errorf("run %s: it could not be confined, so it was not started", p.Path)
	}
	if writeErr != nil {
		return 0, fmt.Errorf("tell the confiner what to start: %w", writeErr)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// confinerFailed is the exit code of a confiner that did not start its program.
const confinerFailed = 253

// Confine turns this process into a program if it was started for that, and
// does not return then. Every main program that links this package calls it
// first.
func Confine() {
	switch filepath.Base(os.Args[0]) {
	case supervisor:
		syscall.Exit(supervise())
	case loginStarter:
		fmt.Fprintf(os.Stderr, "login: %v\n", login())
		syscall.Exit(confinerFailed)
	case confiner:
	default:
		return
	}
	// Privileges belong to threads, and this one becomes the program.
	runtime.LockOSThread()
	fmt.Fprintf(os.Stderr, "confine: %v\n", confine())
	syscall.Exit(confinerFailed)
}

// confine returns only if the program was not started.
func confine() error {
	in := os.NewFile(3, "told")
	raw, err := io.ReadAll(in)
	if err := errors.Join(err, in.Close()); err != nil {
		return fmt.Errorf("read what to start: %w", err)
	}
	var s spawn
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("decode what to start: %w", err)
	}
	if s.Root {
		for _, folder := range s.Tmp {
			err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=1g")
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("give it a %s of its own: %w", folder, err)
			}
		}
		err := errors.Join(syscall.Setgroups([]int{s.GID}), syscall.Setgid(s.GID), syscall.Setuid(s.UID))
		if err != nil {
			return fmt.Errorf("become user %d: %w", s.UID, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	// Last, because this process itself might not live within them.
	var kinds []int
	for kind := range s.Limits {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		limit := syscall.Rlimit{Cur: s.Limits[kind], Max: s.Limits[kind]}
		if err := syscall.Setrlimit(kind, &limit); err != nil {
			return fmt.Errorf("set limit %d: %w", kind, err)
		}
	}
	err = syscall.Exec(s.Path, s.Argv, s.Env) //nolint:gosec // a program of a signed command profile
	return fmt.Errorf("start %s: %w", s.Path, err)
}
