package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a running program of the product.
type process struct {
	cmd    *exec.Cmd
	output *journal      // standard output and error
	exited chan struct{} // closed when it is gone
	err    error         // how it ended; read after exited
}

// spawner starts children from one thread that lives as long as this process:
// they die with the thread that started them.
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

// begin starts gpuaas with these settings and nothing else of the caller's.
func begin(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), output: &journal{}, exited: make(chan struct{})}
	p.cmd.Env = append(neutralEnv(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	spawner() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatalf("start gpuaas %v: %v", args, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.exited
		if t.Failed() {
			t.Logf("gpuaas %s said:\n%s", strings.Join(args, " "), p.output.remarks(6_000))
		}
	})
	return p
}

// neutralEnv is the environment without settings of the product, except where
// its embedded servers are.
func neutralEnv() []string {
	var env []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		switch {
		case name == "GPUAAS_CACHE", name == "GPUAAS_SERVERS":
		case strings.HasPrefix(name, "GPUAAS_"), name == "XDG_CONFIG_HOME":
			continue
		}
		env = append(env, pair)
	}
	return env
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) pid() int { return p.cmd.Process.Pid }

// end asks the process to end and expects that it does so well.
func (p *process) end(t testing.TB, with syscall.Signal) {
	t.Helper()
	p.signal(with)
	if code := p.exit(t, time.Minute); code != 0 {
		t.Errorf("ended with exit code %d after %v, want 0", code, with)
	}
}

// exit waits for the end of the process.
func (p *process) exit(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(within):
		t.Fatalf("process %d has not ended within %s", p.pid(), within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// command runs gpuaas to its end and gives what it printed on standard output
// and on standard error.
func command(t testing.TB, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(neutralEnv(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("run gpuaas %v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// succeed runs gpuaas and gives what it printed.
func succeed(t testing.TB, env []string, args ...string) string {
	t.Helper()
	out, errs, code := command(t, env, args...)
	if code != 0 {
		t.Fatalf("gpuaas %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// journal collects what a process prints.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// remarks is the end of what was printed, without the requests that were served:
// they would bury what a test failed for.
func (j *journal) remarks(most int) string {
	var lines strings.Builder
	for line := range strings.Lines(j.String()) {
		if !strings.Contains(line, `"level":"INFO","msg":"request"`) {
			lines.WriteString(line)
		}
	}
	s := lines.String()
	return s[max(0, len(s)-most):]
}

func (j *journal) tail(most int) string {
	s := j.String()
	return s[max(0, len(s)-most):]
}
