package hostexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// hangup is how long the programs on a terminal may take to end by
	// themselves.
	hangup = time.Second
	// killed is how long the kernel may take to end killed processes.
	killed  = 5 * time.Second
	lookout = 10 * time.Millisecond
)

// ErrRoot says that an interactive shell was asked for as root.
var ErrRoot = errors.New("there are no interactive shells for root")

// ShellStart describes the login shell of a user.
type ShellStart struct {
	Program       string // path of the shell on the machine
	Name          string
	User          User
	Home          string
	Columns, Rows int
}

// Shell is a login shell on a pseudo-terminal. Read returns what it shows;
// Write types.
type Shell struct {
	terminal *os.File
	cmd      *exec.Cmd
	ended    chan struct{}
	ending   sync.Once
	exit     int // set once ending is done
}

// StartShell starts the login shell of a user as that user, in a clean
// environment, as the leader of its own session on a new terminal.
func (h Host) StartShell(ctx context.Context, c ShellStart) (*Shell, error) {
	if c.User.UID == 0 || c.User.GID == 0 {
		return nil, ErrRoot
	}
	terminal, line, err := openTerminal()
	if err != nil {
		return nil, err
	}
	defer line.Close() // the shell has its own
	s := &Shell{terminal: terminal, ended: make(chan struct{})}
	if err := errors.Join(s.Resize(c.Columns, c.Rows), h.hand(line, c.User)); err != nil {
		return nil, errors.Join(fmt.Errorf("set up terminal: %w", err), terminal.Close())
	}
	s.cmd = h.shell(ctx, c, line)
	if program := s.cmd.Args[1]; !executable(program) {
		err = fmt.Errorf("%s: %w", program, ErrNoProgram)
	} else {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start shell %s of %s: %w", c.Program, c.Name, err), terminal.Close())
	}
	go s.watch()
	return s, nil
}

// loginStarter is the name under which the agent's own program, as a user, enters the
// home of that user and becomes the shell. Its arguments are the program, the name that
// it is started by (a dash tells a shell that it is a login shell) and the home.
const loginStarter = "gpuaas-login"

// login returns only if the shell was not started.
func login() error {
	if len(os.Args) != 4 {
		return errors.New("the agent was started by the name " + loginStarter)
	}
	// Without a home that it can enter, the shell begins at /, as with any login.
	_ = os.Chdir(os.Args[3])
	err := syscall.Exec(os.Args[1], os.Args[2:3], os.Environ()) //nolint:gosec // the shell of the account, as that account
	return fmt.Errorf("start %s: %w", os.Args[1], err)
}

// hand gives the terminal to its user, as a login does. It does nothing on a
// fake machine without root.
func (h Host) hand(line *os.File, u User) error {
	if os.Geteuid() != 0 && !h.Real() {
		return nil
	}
	return errors.Join(line.Chown(int(u.UID), int(u.GID)), line.Chmod(0o620))
}

// shell starts the agent's own program, which enters the home of the user and then
// becomes the shell. The agent itself must not enter it: the home may be a file system
// of the user that never answers, and no other program could be started meanwhile.
func (h Host) shell(ctx context.Context, c ShellStart, line *os.File) *exec.Cmd {
	program := h.Path(c.Program)
	if !h.Real() {
		program = h.borrowed(c.Program)
	}
	// The shell outlives the call. End ends it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/proc/self/exe")
	cmd.Args = []string{loginStarter, program, "-" + filepath.Base(c.Program), h.Path(c.Home)}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = line, line, line
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games", "TERM=xterm-256color", "LANG=C.UTF-8",
		"HOME=" + h.Path(c.Home), "USER=" + c.Name, "LOGNAME=" + c.Name, "SHELL=" + c.Program,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if os.Geteuid() == 0 || h.Real() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.User.UID, Gid: c.User.GID, Groups: c.User.Groups}
	}
	return cmd
}

// borrowed is the shell of a fake machine, which has none or only a link to
// one of this system. Its user may not enter the folder of the machine, and so
// could not follow the link.
func (h Host) borrowed(program string) string {
	own, err := filepath.EvalSymlinks(h.Path(program))
	if err != nil || !executable(own) {
		return program
	}
	return own
}

// openTerminal makes a pseudo-terminal. Its near end is non-blocking, so that
// closing it ends a read or write that waits.
func openTerminal() (near, far *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	near = os.NewFile(uintptr(fd), "/dev/ptmx")
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		far, err = os.OpenFile("/dev/pts/"+strconv.FormatUint(uint64(n), 10), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open terminal: %w", err), near.Close())
	}
	return near, far, nil
}

// Read reads what is shown. It returns io.EOF when no process holds the
// terminal any more.
func (s *Shell) Read(p []byte) (int, error) {
	n, err := s.terminal.Read(p)
	if errors.Is(err, syscall.EIO) || errors.Is(err, os.ErrClosed) {
		return n, io.EOF
	}
	return n, err
}

// Write types.
func (s *Shell) Write(p []byte) (int, error) { return s.terminal.Write(p) }

// Resize sets the size of the terminal and tells the programs on it.
func (s *Shell) Resize(columns, rows int) error {
	raw, err := s.terminal.SyscallConn()
	if err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}) //nolint:gosec // at most 1000
	})
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	return nil
}

// Ended is closed when the shell itself has ended. Other programs may still run
// on its terminal.
func (s *Shell) Ended() <-chan struct{} { return s.ended }

// watch leaves the shell a zombie: until somebody waits for it, no other
// session can get its number.
func (s *Shell) watch() {
	defer close(s.ended)
	for {
		err := unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// End ends everything that runs in the session of the shell: first with a
// hangup, then with a kill. Remaining output can still be read. End returns the
// status of the shell. It returns -1 if the shell was ended, or if it does not
// end because it waits for a device or is traced from outside. Then a goroutine
// waits for it.
func (s *Shell) End() (exit int) {
	s.ending.Do(func() {
		s.signal(syscall.SIGHUP)
		s.signal(syscall.SIGCONT) // a stopped process cannot handle the hangup
		if !s.emptied(hangup, func() {}) {
			s.emptied(killed, func() { s.signal(syscall.SIGKILL) })
		}
		reaped := make(chan struct{})
		go func() {
			_ = s.cmd.Wait() // the status is read below
			close(reaped)
		}()
		s.exit = -1
		select {
		case <-reaped:
			s.exit = s.cmd.ProcessState.ExitCode()
		case <-time.After(hangup):
		}
	})
	return s.exit
}

// Close closes the terminal, even if a process that left the session still
// holds its other end.
func (s *Shell) Close() error { return s.terminal.Close() }

// emptied waits until the session has no process left.
func (s *Shell) emptied(within time.Duration, again func()) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(lookout) {
		again()
		if len(sessionMembers(s.cmd.Process.Pid)) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func (s *Shell) signal(signal syscall.Signal) {
	for _, pid := range sessionMembers(s.cmd.Process.Pid) {
		_ = syscall.Kill(pid, signal) // it may be gone by now
	}
}

// sessionMembers finds the processes of a session that have not ended.
func sessionMembers(session int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is a constant
	var members []int
	for _, name := range stats {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (name) state ppid pgrp session …; the name may hold anything.
		fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
		if len(fields) < 4 || bytes.ContainsAny(fields[0], "ZX") || string(fields[3]) != strconv.Itoa(session) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			members = append(members, pid)
		}
	}
	return members
}
