package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/operation"
	"gpuaas/agent/internal/planetest"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

const (
	envRoot  = "GPUAAS_TEST_AGENT_ROOT"  // this process is an agent on that machine
	envCrash = "GPUAAS_TEST_AGENT_CRASH" // it kills itself at that point, once
)

func TestMain(m *testing.M) {
	hostexec.Confine()
	if root := os.Getenv(envRoot); root != "" {
		os.Exit(childAgent(root))
	}
	os.Exit(m.Run())
}

func childAgent(root string) int {
	o := Options{
		HostRoot: root, Build: testBuild, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), pollWait: 5 * time.Second,
		handlers: func(*Agent) map[string]task.Handler {
			return map[string]task.Handler{
				agentwire.TypeHealthProbe: counting{root: root, crash: crashAt},
				agentwire.TypeOperationRun: operation.New(operation.Deps{
					Host: hostexec.Host{Root: root}, Clock: time.Now, Hook: notedCrash(root),
				}),
			}
		},
		hook: crashAt,
	}
	if err := Run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, ErrInUse) {
			return 4
		}
		return 1
	}
	return 0
}

// notedCrash writes down every point that is passed, and kills this process at
// one of them.
func notedCrash(root string) func(point string) {
	return func(point string) {
		f, err := os.OpenFile(filepath.Join(root, "points"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, point)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			panic(err)
		}
		crashAt(point)
	}
}

// crashAt kills this process without any clean-up.
func crashAt(point string) {
	marker := filepath.Join(os.Getenv(envRoot), "crashed")
	if point != os.Getenv(envCrash) {
		return
	}
	if f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close()
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

var testBuild = agentwire.Build{Version: "1.2.3", Commit: "abc"}

// counting has an effect that can be counted.
type counting struct {
	root  string
	crash func(string)
}

func (c counting) effect(t *task.Task) string {
	return filepath.Join(c.root, "effect-"+t.TaskID)
}

func (c counting) Check(_ context.Context, t *task.Task) (any, bool, error) {
	_, err := os.Stat(c.effect(t))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return agentwire.HealthProbeOutput{Healthy: true, Checks: []agentwire.HealthCheck{}}, err == nil, err
}

func (c counting) Apply(ctx context.Context, t *task.Task) (any, error) {
	if err := c.count(t, "begun"); err != nil {
		return nil, err
	}
	if c.crash != nil {
		c.crash("in-apply")
	}
	if err := errors.Join(c.count(t, "done"), os.WriteFile(c.effect(t), nil, 0o600)); err != nil {
		return nil, err
	}
	out, _, err := c.Check(ctx, t)
	return out, err
}

func (c counting) count(t *task.Task, what string) error {
	f, err := os.OpenFile(filepath.Join(c.root, "counts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, what, t.TaskID)
	return errors.Join(err, f.Close())
}

func counts(t *testing.T, root, what string) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "counts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(raw), what+" ")
}

// rig is a machine with a control plane.
type rig struct {
	*planetest.Plane
	t    *testing.T
	root string
}

// newRig makes a rig whose machine has enrolled.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Plane: planetest.New(t), t: t}
	r.root = r.HostRoot()
	r.enroll()
	return r
}

func (r *rig) enroll() {
	r.t.Helper()
	if _, err := Enroll(r.t.Context(), Options{HostRoot: r.root, Build: testBuild}, r.Token(), nil); err != nil {
		r.t.Fatal(err)
	}
}

// running is an agent in this process.
type running struct {
	stop  func() error  // ends it and waits
	ended chan struct{} // closed when it has ended, by itself or not
	log   *lines
}

// start runs an agent until the test ends.
func (r *rig) start(handlers map[string]task.Handler, change ...func(*Options)) *running {
	r.t.Helper()
	log := &lines{}
	o := Options{
		HostRoot: r.root, Build: testBuild, Log: slog.New(
			slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		pollWait: 5 * time.Second, handlers: func(*Agent) map[string]task.Handler {
			all := map[string]task.Handler{agentwire.TypeHealthProbe: counting{root: r.root}}
			for name, h := range handlers {
				all[name] = h
			}
			return all
		},
	}
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &running{ended: make(chan struct{}), log: log}
	var end error
	go func() {
		defer close(a.ended)
		end = Run(ctx, o)
	}()
	a.stop = func() error {
		cancel()
		<-a.ended
		return end
	}
	r.t.Cleanup(func() {
		if err := a.stop(); r.t.Failed() {
			r.t.Logf("the agent ended with %v; its log:\n%s", err, log)
		}
	})
	return a
}

// child runs an agent in a process of its own.
func (r *rig) child(crash string) *exec.Cmd {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envRoot+"="+r.root, envCrash+"="+crash)
	log := &lines{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if r.t.Failed() {
			r.t.Logf("log of process %d:\n%s", cmd.Process.Pid, log)
		}
	})
	return cmd
}

// probe is a task of the handler that counts.
func (r *rig) probe(change func(*agentwire.Envelope)) agentwire.Envelope {
	return r.Envelope(agentwire.TypeHealthProbe, agentwire.HealthProbeParams{}, change)
}

func (r *rig) status() Status {
	r.t.Helper()
	s, err := ReadStatus(Options{HostRoot: r.root})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// scripted is a handler made of functions.
type scripted struct {
	check  func(context.Context, *task.Task) (any, bool, error)
	apply  func(context.Context, *task.Task) (any, error)
	finish func(context.Context, *task.Task) error
}

func (s scripted) Check(ctx context.Context, t *task.Task) (any, bool, error) {
	if s.check == nil {
		return nil, false, nil
	}
	return s.check(ctx, t)
}

func (s scripted) Apply(ctx context.Context, t *task.Task) (any, error) { return s.apply(ctx, t) }

// finishing has something left to do after its result.
type finishing struct{ scripted }

func (s finishing) Finish(ctx context.Context, t *task.Task) error { return s.finish(ctx, t) }

func healthy() agentwire.HealthProbeOutput {
	return agentwire.HealthProbeOutput{Healthy: true, Checks: []agentwire.HealthCheck{}}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func sha256Of(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func hostOfRoot(root string) hostexec.Host { return hostexec.Host{Root: root} }
