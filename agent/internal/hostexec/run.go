package hostexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	defaultTimeout = 2 * time.Minute
	maxOutput      = 1 << 20
	maxLine        = 256 << 10
	// grace is how long a program may take to end after it was asked to.
	grace = 5 * time.Second
)

// ErrTimeout says that a program took too long.
var ErrTimeout = errors.New("the program took too long and was ended")

// ErrStuck says that a program was killed and still exists.
var ErrStuck = errors.New("the program was killed but does not end: it waits for a device or a file system")

// Command is one program to start.
type Command struct {
	Program string // a name of the list, or the path of one of the agent's own programs
	Args    []string
	Stdin   []byte
	Env     []string // besides the clean environment
	// Timeout ends the program. Zero means two minutes.
	Timeout time.Duration
	// User is the account that the program runs as. Nil means the agent's own.
	User *User
	// OnLine gets each line of standard output. Then it is not collected.
	OnLine func(line []byte)
	// Held says that nothing of the program outlives its time, also if it leaves its
	// process group. What it leaves when it ends by itself stays.
	Held bool
}

// User is an account to run a program as.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// Output is what a program printed, cut after one mebibyte.
type Output struct {
	Exit      int
	Stdout    []byte
	Stderr    []byte
	Truncated bool
}

// ExitError says that a program ended with a status other than 0.
type ExitError struct {
	Program string
	Exit    int // -1 if a signal ended it
	Stderr  string
}

func (e *ExitError) Error() string {
	how := fmt.Sprintf("%s ended with status %d", e.Program, e.Exit)
	if e.Exit < 0 {
		how = e.Program + " was ended by a signal"
	}
	if e.Stderr == "" {
		return how
	}
	return how + ": " + e.Stderr
}

// Do starts a program and waits for it. It returns an *ExitError for a status
// other than 0, ErrNoProgram if the program is not there, and ErrStuck if it
// cannot even be killed.
func (h Host) Do(ctx context.Context, c Command) (Output, error) {
	path, err := h.Program(c.Program)
	if err != nil {
		return Output{}, err
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	bounded, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s: %w", c.Program, ErrTimeout))
	defer cancel()
	return h.wait(bounded, h.command(bounded, path, c), c)
}

func (h Host) command(ctx context.Context, path string, c Command) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.Path(path), c.Args...) //nolint:gosec // the path comes from the list of programs, the arguments are never read by a shell
	cmd.Env = append(h.environment(), c.Env...)
	cmd.Dir = h.Path("/")
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.User != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.User.UID, Gid: c.User.GID, Groups: c.User.Groups}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	// Do not wait for pipes that a grandchild keeps open.
	cmd.WaitDelay = grace
	return cmd
}

// environment is all that a program inherits. It tells programs of a fake
// machine which machine that is.
func (h Host) environment() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C", "LC_ALL=C", "HOME=/"}
	if !h.Real() {
		env = append(env, "GPUAAS_HOST_ROOT="+h.Root)
	}
	return env
}

func (h Host) wait(ctx context.Context, cmd *exec.Cmd, c Command) (Output, error) {
	stdout, stderr := &bounded{}, &bounded{}
	cmd.Stderr = stderr
	lines := &lineWriter{onLine: c.OnLine}
	if cmd.Stdout = io.Writer(stdout); c.OnLine != nil {
		cmd.Stdout = lines
	}
	held := &tree{}
	if c.Held {
		var err error
		if held, err = supervised(cmd, true); err != nil {
			return Output{}, err
		}
		defer held.end()
	}
	err := cmd.Start()
	if c.Held {
		err = errors.Join(err, held.started(cmd))
	}
	if err != nil {
		return Output{}, fmt.Errorf("start %s: %w", c.Program, err)
	}
	ended, err := reap(ctx, cmd)
	if !ended {
		lines.silence()
		if !c.Held { // a supervisor sees to it
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		return Output{}, fmt.Errorf("run %s: %w: %w", c.Program, context.Cause(ctx), ErrStuck)
	}
	if ctx.Err() != nil {
		// Also kill what the program itself started.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return Output{}, fmt.Errorf("run %s: %w", c.Program, context.Cause(ctx))
	}
	lines.flush()
	out := Output{
		Exit: cmd.ProcessState.ExitCode(), Stdout: stdout.kept, Stderr: stderr.kept,
		Truncated: stdout.cut || stderr.cut || lines.cut,
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return out, &ExitError{Program: c.Program, Exit: out.Exit, Stderr: lastLine(out.Stderr)}
	case errors.Is(err, exec.ErrWaitDelay):
		return out, nil // it succeeded; something it started still holds its output
	case err != nil:
		return out, fmt.Errorf("run %s: %w", c.Program, err)
	}
	return out, nil
}

// reap waits for a program, but not for ever after it was killed: the kernel
// keeps a process that waits for a device. Then a goroutine waits for it, and
// nothing of cmd may be read.
func reap(ctx context.Context, cmd *exec.Cmd) (ended bool, err error) {
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	select {
	case err = <-waited:
		return true, err
	case <-ctx.Done():
	}
	select {
	case err = <-waited:
		return true, err
	case <-time.After(2 * grace): // one grace until it is killed, one until it is gone
		return false, nil
	}
}

// Run starts a program and passes each line of its output to onLine. A status
// other than 0 is no error; it is -1 if a signal ended the program. ctx limits
// the time.
func (h Host) Run(ctx context.Context, argv []string, onLine func([]byte)) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("no program named")
	}
	out, err := h.Do(ctx, Command{Program: argv[0], Args: argv[1:], OnLine: onLine, Timeout: 24 * time.Hour})
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Exit, nil
	}
	return out.Exit, err
}

// lastLine returns the last line of the output, short enough for a message.
func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := strings.ToValidUTF8(strings.TrimSpace(lines[len(lines)-1]), "?")
	if len(last) > 300 {
		last = last[:300] + "…"
	}
	return last
}

// bounded keeps the first bytes and drops the rest, so that a program that
// prints too much is neither blocked nor able to fill the memory.
type bounded struct {
	kept []byte
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), maxOutput-len(b.kept))
	b.kept = append(b.kept, p[:room]...)
	b.cut = b.cut || room < len(p)
	return len(p), nil
}

// lineWriter passes on whole lines and cuts lines that are too long.
type lineWriter struct {
	onLine func([]byte)

	mu     sync.Mutex
	silent bool
	part   []byte
	cut    bool
}

// silence drops what an abandoned program still prints.
func (w *lineWriter) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if w.silent {
		return n, nil
	}
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		if room := maxLine - len(w.part); len(piece) > room {
			piece, w.cut = piece[:room], true
		}
		w.part = append(w.part, piece...)
		if end < 0 {
			break
		}
		w.emit()
		p = p[end+1:]
	}
	return n, nil
}

func (w *lineWriter) flush() {
	if len(w.part) > 0 {
		w.emit()
	}
}

func (w *lineWriter) emit() {
	w.onLine(bytes.Clone(w.part))
	w.part = w.part[:0]
}
