package rack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errInUse says that the process that started an LXD still lives.
var errInUse = errors.New("another process uses this rack")

// homes holds the state of private daemons. It is not in the rack's folder: the
// root of a container must be able to pass through every folder above its disk,
// and state folders are private. Sockets also get short names there.
func homes() string {
	if dir := os.Getenv("GPUAAS_RACK_HOME"); dir != "" {
		return dir
	}
	return "/var/lib/gpuaas-rack"
}

// daemon is our own LXD, without systemd.
type daemon struct {
	home   string
	lock   *os.File
	cmd    *exec.Cmd
	exited chan struct{}
}

func homeOf(id string) string { return filepath.Join(homes(), id) }

// startDaemon runs an LXD whose state is in home. It ends with this process: on
// SIGPWR, LXD stops its containers and itself.
func startDaemon(ctx context.Context, home string) (*daemon, error) {
	program, err := exec.LookPath("lxd")
	if err != nil {
		return nil, fmt.Errorf("start LXD: %w; install it with tools/install-deps.sh rack", err)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("start LXD: it needs root; run as root, start the LXD of this system, or take a rack of " +
			"processes")
	}
	if err := makeHome(home); err != nil {
		return nil, err
	}
	d := &daemon{home: home, exited: make(chan struct{})}
	if err := d.claim(ctx); err != nil {
		return nil, err
	}
	if err := d.launch(ctx, program); err != nil {
		d.release()
		return nil, err
	}
	return d, nil
}

func makeHome(home string) error {
	if err := os.MkdirAll(home, 0o711); err != nil { //nolint:gosec // containers pass through
		return fmt.Errorf("make folder of LXD: %w", err)
	}
	for _, path := range []string{filepath.Dir(home), home} {
		if err := os.Chmod(path, 0o711); err != nil { //nolint:gosec // whatever the umask is
			return fmt.Errorf("open folder of LXD: %w", err)
		}
	}
	return nil
}

// claim takes the home for this process. If the daemon of a dead process is
// still ending, claim waits for it.
func (d *daemon) claim(ctx context.Context) error {
	lock, err := os.OpenFile(filepath.Join(d.home, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open lock of LXD: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("take LXD in %s: %w: %w", d.home, errInUse, err), lock.Close())
	}
	d.lock = lock
	if err := awaitEnd(ctx, daemonPID(d.home)); err != nil {
		d.release()
		return err
	}
	return nil
}

func (d *daemon) release() { _ = d.lock.Close() }

func (d *daemon) launch(ctx context.Context, program string) error {
	log, err := os.OpenFile(filepath.Join(d.home, "lxd.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of LXD: %w", err)
	}
	defer log.Close()
	d.cmd = exec.Command(program, "--group", "root") //nolint:noctx // it outlives the call
	d.cmd.Env = append(os.Environ(), "LXD_DIR="+d.home)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGPWR}
	if err := startChild(d.cmd); err != nil {
		return fmt.Errorf("start LXD: %w", err)
	}
	recorded := os.WriteFile(filepath.Join(d.home, "pid"), []byte(strconv.Itoa(d.cmd.Process.Pid)), 0o600)
	go func() {
		_ = d.cmd.Wait() // its log says how it ended
		close(d.exited)
	}()
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ready := exec.CommandContext(wait, program, "waitready")
	ready.Env = d.cmd.Env
	answered := make(chan error, 1)
	go func() { answered <- ready.Run() }()
	select {
	case err = <-answered:
	case <-d.exited:
		cancel()
		<-answered
		err = errors.New("it ended at once")
	}
	if err = errors.Join(err, recorded); err != nil {
		d.stop(ctx)
		return fmt.Errorf("wait for LXD: %w; it wrote: %s", err, tail(log.Name()))
	}
	return nil
}

// throwaway is a file that marks a home as throwaway.
const throwaway = "throwaway"

func (d *daemon) mark(thrownAway bool) error {
	file := filepath.Join(d.home, throwaway)
	err := os.Remove(file)
	if thrownAway {
		err = os.WriteFile(file, nil, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mark state of LXD: %w", err)
	}
	return nil
}

// stop ends the daemon and, with it, the containers.
func (d *daemon) stop(ctx context.Context) {
	_ = d.cmd.Process.Signal(syscall.SIGPWR)
	select {
	case <-d.exited:
	case <-ctx.Done():
		_ = d.cmd.Process.Kill()
		<-d.exited
	}
}

// tail returns the end of a log.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(content[max(0, len(content)-1500):]))
}

// daemonPID returns the process id of the LXD on home, or 0.
func daemonPID(home string) int {
	content, err := os.ReadFile(filepath.Join(home, "pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(content))
	if err != nil {
		return 0
	}
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil || strings.TrimSpace(string(name)) != "lxd" || gone(pid) {
		return 0
	}
	return pid
}

// awaitEnd waits for a process that is not our child.
func awaitEnd(ctx context.Context, pid int) error {
	if pid == 0 {
		return nil
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if gone(pid) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of an earlier LXD (process %d): %w", pid, ctx.Err())
		case <-tick.C:
		}
	}
}

// gone says whether a process has ended and only waits to be reaped.
func gone(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}
