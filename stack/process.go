package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// spawner starts children from one thread that lives as long as the process:
// the kernel sends the parent-death signal when the *thread* that forked ends,
// and the Go runtime may end threads at any time.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func startChild(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	spawner() <- func() { result <- cmd.Start() }
	return <-result
}

// nursery starts the processes of the stack and records them.
type nursery struct {
	folder folder
	record *record
}

// program is one executable and how it is run.
type program struct {
	engine Engine
	path   string
	args   []string
	dir    string
	stop   syscall.Signal      // how it is asked to end
	user   *syscall.Credential // account to run as; nil: the launcher's
	folder *os.File            // the child finds it open at inheritedFolder; nil: none
}

// inheritedFolder is where a child finds the folder that it inherits open. It
// can use that folder even if it may not enter those above, and reaches nothing
// else in them. So no permission is changed and no capability given.
const inheritedFolder = "/proc/self/fd/3"

// process is a running child.
type process struct {
	program program
	cmd     *exec.Cmd
	log     string
	offset  int64         // where its lines begin in the log
	exited  chan struct{} // closed when the process is gone and the record says so
	err     error         // how it ended; read it after exited
}

// spawn starts a child that dies with this process. A terminal's Ctrl-C does
// not reach it: the launcher decides the order of the end.
func (n *nursery) spawn(p program) (*process, error) {
	log, offset, err := openLog(n.folder, p.engine)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := n.command(p, log)
	if err := startChild(cmd); err != nil {
		return nil, fmt.Errorf("run %s: %w", p.path, err)
	}
	child := &process{program: p, cmd: cmd, log: log.Name(), offset: offset, exited: make(chan struct{})}
	recorded := n.record.setPID(p.engine, cmd.Process.Pid)
	go func() {
		child.err = cmd.Wait()
		child.err = errors.Join(child.err, n.record.clearPID(p.engine, cmd.Process.Pid))
		close(child.exited)
	}()
	if recorded != nil {
		child.kill()
		return nil, recorded
	}
	return child, nil
}

// run starts a child and waits for its end.
func (n *nursery) run(ctx context.Context, p program) error {
	child, err := n.spawn(p)
	if err != nil {
		return err
	}
	select {
	case <-child.exited:
	case <-ctx.Done():
		child.kill()
		<-child.exited
		return ctx.Err()
	}
	if child.err != nil {
		return child.obituary()
	}
	return nil
}

func (n *nursery) command(p program, log *os.File) *exec.Cmd {
	cmd := exec.Command(p.path, p.args...) //nolint:gosec,noctx // the programs are ours; an engine outlives the call that starts it
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = log, log
	// A fixed environment: the caller's PGPASSWORD, VAULT_ADDR or GODEBUG must
	// not change what the engines do.
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + p.dir, "LC_ALL=C.UTF-8", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  p.stop,
		Setpgid:    true,
		Credential: p.user,
	}
	if p.folder != nil {
		cmd.ExtraFiles = []*os.File{p.folder}
	}
	return cmd
}

func (p *process) done() <-chan struct{} { return p.exited }

// kill ends the process and what it started in its group. It leaves a process
// alone that has ended, because its id may belong to another one.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// stop asks the process to end, and kills it when ctx ends.
func (p *process) stop(ctx context.Context) {
	_ = p.cmd.Process.Signal(p.program.stop)
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.kill()
		<-p.exited
	}
}

// hopeless marks an answer that repeating the question will not change.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// answers waits until probe succeeds. It gives up, and ends the process, if the
// process dies, the answer is hopeless or ctx ends.
func (p *process) answers(ctx context.Context, probe func(context.Context) error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		var final hopeless
		if errors.As(err, &final) {
			p.kill()
			<-p.exited
			return final.error
		}
		select {
		case <-p.exited:
			return p.obituary()
		case <-ctx.Done():
			p.kill()
			<-p.exited
			return fmt.Errorf("wait for an answer: %w (last: %w)", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// obituary says how the process ended and what it printed last.
func (p *process) obituary() error {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	said := strings.TrimSpace(tail(p.log, p.offset, 2000))
	if said == "" {
		said = "(nothing)"
	}
	return fmt.Errorf("%s ended too early (%s); it wrote to %s: %s", p.program.path, how, p.log, said)
}
