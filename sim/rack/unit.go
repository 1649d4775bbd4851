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
	"sync"
	"syscall"
	"time"
)

const (
	agentUnit    = "gpuaas-node-agent.service"
	agentCurrent = "opt/gpuaas/agent/current/gpuaas-agent"
	agentGuard   = "opt/gpuaas/agent/previous/gpuaas-agent"
	// maxLog is the size at which a new log begins.
	maxLog = 4 << 20
	// stopGrace is how long an agent may take to end.
	stopGrace = 10 * time.Second
)

// unit runs the agent of a process machine as systemd would: it starts the
// agent again however it ends, unless the machine's systemctl stopped it.
type unit struct {
	root, log string
	pause     time.Duration // between an end and the next start
	say       func(string, ...any)

	mu    sync.Mutex
	agent *os.Process // the one that runs
}

func (u *unit) file(kind string) string {
	return filepath.Join(u.root, "run/units", agentUnit+"."+kind)
}

// run keeps the agent alive until ctx ends. Then it ends the agent.
func (u *unit) run(ctx context.Context) {
	for _, left := range []string{"stopped", "pid"} { // a machine that boots starts its units
		_ = os.Remove(u.file(left))
	}
	for ctx.Err() == nil {
		if u.wanted() {
			if err := u.once(ctx); err != nil && ctx.Err() == nil {
				u.say("agent of machine ended", "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(u.pause):
		}
	}
}

// wanted says whether the unit is installed and was not stopped.
func (u *unit) wanted() bool {
	_, stopped := os.Stat(u.file("stopped"))
	_, installed := os.Stat(filepath.Join(u.root, agentCurrent))
	return errors.Is(stopped, fs.ErrNotExist) && installed == nil
}

// once runs the guard and then one life of the agent.
func (u *unit) once(ctx context.Context) error {
	log, err := openLog(u.log)
	if err != nil {
		return err
	}
	defer log.Close()
	guard := filepath.Join(u.root, agentGuard)
	if _, err := os.Stat(guard); err == nil {
		_ = u.start(ctx, log, guard, "guard", "--host-root", u.root) // its failure is not the unit's
	}
	return u.start(ctx, log, filepath.Join(u.root, agentCurrent), "run", "--host-root", u.root)
}

func (u *unit) start(ctx context.Context, log *os.File, argv ...string) error {
	cmd := program(ctx, u.root, argv)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := startChild(cmd); err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	u.remember(cmd.Process)
	defer u.remember(nil)
	if err := os.WriteFile(u.file("pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil { //nolint:gosec // no secret
		u.say("note agent of machine", "error", err)
	}
	err := cmd.Wait()
	_ = os.Remove(u.file("pid"))
	if err != nil {
		return fmt.Errorf("run agent: %w", err)
	}
	return nil
}

func (u *unit) remember(p *os.Process) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.agent = p
}

// program makes a command on a process machine. When ctx ends, it is asked to
// end, then killed.
func program(ctx context.Context, root string, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // programs of the machine's own disk
	cmd.Dir = root
	cmd.Env = []string{
		"PATH=" + filepath.Join(root, "usr/sbin") + ":" + filepath.Join(root, "usr/bin") + ":/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + filepath.Join(root, "root"), "LANG=C.UTF-8",
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} { // it trusts what this system does
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	return cmd
}

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("turn log of machine: %w", err)
		}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of machine: %w", err)
	}
	return log, nil
}

// kill ends the agent at once, if one runs.
func (u *unit) kill() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.agent != nil {
		_ = u.agent.Kill() // it may have ended, which is fine
	}
}
