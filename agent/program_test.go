package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/agent/internal/planetest"
	"gpuaas/contract/agentwire"
)

// build makes the program as it is shipped.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "gpuaas-agent")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags",
		"-s -w -X main.version=9.8.7 -X main.commit=fed", "-o", program, "../cmd/gpuaas-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

func call(t *testing.T, program, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// The program as a person and systemd see it, and what it costs.
func TestTheProgram(t *testing.T) {
	program := build(t)
	info, err := os.Stat(program)
	if err != nil || info.Size() > 25_000_000 {
		t.Errorf("%d bytes, more than 25 MB; %v", info.Size(), err)
	}
	r := fresh(t)
	expect := func(status int, text, stdin string, args ...string) {
		t.Helper()
		out, errs, got := call(t, program, stdin, args...)
		if got != status || !strings.Contains(out+errs, text) {
			t.Errorf("gpuaas-agent %s: status %d, want %d with %q:\n%s%s", strings.Join(args, " "), got, status, text, out, errs)
		}
	}
	root := []string{"--host-root", r.root}
	with := func(command string, more ...string) []string {
		return append(append([]string{command}, root...), more...)
	}

	expect(0, `"version": "9.8.7"`, "", "version", "--json")
	expect(0, "exit status", "", "help")
	expect(2, "usage", "")
	expect(2, "no command", "", "dance")
	expect(2, "unexpected argument", "", with("enroll", "token-on-the-command-line")...)
	expect(3, "not enrolled", "", with("status")...)
	expect(3, "not enrolled", "", with("run")...)
	expect(1, "✗ identity", "", with("doctor")...)
	expect(1, "what to do", "wrong-token", with("enroll")...)
	expect(0, "This machine is node "+planetest.Node, r.Token()+"\n", with("enroll")...)
	expect(1, "stopped", "", with("status")...)
	expect(0, "", "", with("guard")...)

	agent := exec.CommandContext(t.Context(), program, with("run")...)
	log := &lines{}
	agent.Stderr = log
	agent.Env = append(os.Environ(), "GOGC=100") // its memory is measured
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill() })
	e := r.Envelope(agentwire.TypeHeartbeatCheck, agentwire.HeartbeatParams{}, nil)
	r.Deliver(e)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded || got.Build.Version != "9.8.7" {
		t.Errorf("result %+v", got)
	}
	expect(4, "another agent", "", with("run")...)
	expect(4, "systemctl stop", r.Token(), with("enroll")...)
	expect(0, "connected", "", with("status")...)
	var checks struct{ Checks []Check }
	out, _, _ := call(t, program, "", with("doctor", "--json")...)
	if err := json.Unmarshal([]byte(out), &checks); err != nil || len(checks.Checks) < 8 {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	footprint(t, agent.Process.Pid, info.Size())
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("ended with %v\n%s", err, log)
	}
}

// footprint measures an idle agent. GPUAAS_TEST_IDLE sets for how long.
func footprint(t *testing.T, pid int, size int64) {
	t.Helper()
	idle := 5 * time.Second
	if s := os.Getenv("GPUAAS_TEST_IDLE"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		idle = d
	}
	before := cpu(t, pid)
	<-time.After(idle)
	used := cpu(t, pid) - before
	resident := residentKiB(t, pid)
	t.Logf("binary %.1f MB, resident %.1f MiB, CPU %.3f %% over %s", float64(size)/1e6, float64(resident)/1024,
		100*float64(used)/float64(idle), idle)
	if resident > 25<<10 {
		t.Errorf("resident %d KiB, more than 25 MiB", resident)
	}
	// One tick of the kernel's clock is 10 ms, which is all that 5 s can show.
	if used > 10*time.Millisecond+idle/1000 {
		t.Errorf("used %s of CPU in %s", used, idle)
	}
}

func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func residentKiB(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
