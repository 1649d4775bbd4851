package stack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// launcherVariable makes the test binary a launcher: tests that kill one, or
// run one as another user, need it as a separate process.
const launcherVariable = "GPUAAS_STACK_TEST_LAUNCHER"

func TestMain(m *testing.M) {
	if options := os.Getenv(launcherVariable); options != "" {
		if err := launcherMain(options); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if targets := os.Getenv(strangerVariable); targets != "" {
		os.Exit(strangerMain(targets))
	}
	os.Exit(m.Run())
}

// launcherMain starts a stack, says what happens, and stops when stdin closes.
func launcherMain(raw string) error {
	var o Options
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		return err
	}
	o.Progress = func(p Progress) { fmt.Printf("%s %s %s\n", p.Engine, p.Phase, p.Detail) }
	s, err := Start(context.Background(), o)
	if err != nil {
		return err
	}
	fmt.Println("all ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Stop(context.Background())
}

// launcher is a launcher in a process of its own.
type launcher struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	seen  []string
}

func startLauncher(t *testing.T, binary string, credential *syscall.Credential, o Options) *launcher {
	t.Helper()
	options, err := json.Marshal(struct {
		State, Servers string
		Throwaway      bool
		Only           []Engine
	}{o.State, o.Servers, o.Throwaway, o.Only})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Dir = "/"
	cmd.Env = []string{launcherVariable + "=" + string(options), "HOME=/nonexistent", "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := startChild(cmd); err != nil {
		t.Fatalf("start a launcher: %v", err)
	}
	l := &launcher{t: t, cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	t.Cleanup(l.kill)
	return l
}

// await reads until a line holds the text.
func (l *launcher) await(text string) {
	l.t.Helper()
	for l.lines.Scan() {
		l.seen = append(l.seen, l.lines.Text())
		if strings.Contains(l.lines.Text(), text) {
			return
		}
	}
	l.t.Fatalf("the launcher never said %q; it said:\n%s", text, strings.Join(l.seen, "\n"))
}

func (l *launcher) kill() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
}

// stop ends the launcher in an orderly way.
func (l *launcher) stop() {
	l.t.Helper()
	if err := l.stdin.Close(); err != nil {
		l.t.Fatal(err)
	}
	for l.lines.Scan() {
		l.seen = append(l.seen, l.lines.Text())
	}
	if err := l.cmd.Wait(); err != nil {
		l.t.Fatalf("the launcher ended with %v; it said:\n%s", err, strings.Join(l.seen, "\n"))
	}
}

// progress collects what a stack reports and lets tests wait for it.
type progress chan Progress

func newProgress() progress { return make(chan Progress, 1000) }

func (p progress) report(step Progress) { p <- step }

func (p progress) await(t *testing.T, e Engine, phase Phase) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		select {
		case step := <-p:
			if step.Engine == e && step.Phase == phase {
				return
			}
		case <-deadline.C:
			t.Fatalf("%s was never %s", e, phase)
		}
	}
}

// start runs a throwaway stack that ends with the test.
func start(t *testing.T, o Options) *Stack {
	t.Helper()
	o.Throwaway = true
	return startLasting(t, o)
}

// startLasting starts a stack with the settings of gpuaas up.
func startLasting(t *testing.T, o Options) *Stack {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

func stop(t *testing.T, s *Stack) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Fatalf("stop: %v", err)
	}
}

// state is a folder for a stack, in memory like every throwaway one.
func state(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(throwawayParent(), "gpuaas-stack-test-") //nolint:usetesting // t.TempDir is on disk and closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "state")
}
