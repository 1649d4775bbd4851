package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// TestStackVariable names, in the environment of test processes, the file that
// describes the stack they share.
const TestStackVariable = "GPUAAS_TEST_STACK"

// TestStack is what test processes need to share one stack.
type TestStack struct {
	Endpoints    Endpoints `json:"endpoints"`
	SuperuserURL string    `json:"superuser_url"`
}

// HandOver writes the description of a running stack for test processes, mode
// 0600, and returns its path.
func (s *Stack) HandOver() (string, error) {
	path := s.folder.path("test-stack.json")
	err := writeJSON(path, TestStack{Endpoints: s.Endpoints(), SuperuserURL: s.SuperuserURL()})
	if err != nil {
		return "", fmt.Errorf("describe stack for tests: %w", err)
	}
	return path, nil
}

// ReadTestStack reads what HandOver wrote.
func ReadTestStack(path string) (TestStack, error) {
	var t TestStack
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil {
		return TestStack{}, fmt.Errorf("read stack description: %w", err)
	}
	return t, nil
}

// Run runs a command in the foreground with extra environment variables and
// returns its exit code. When ctx ends, the command is asked to end.
func Run(ctx context.Context, command []string, environment ...string) (int, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // running the caller's command is the purpose; ctx asks it to end instead of killing it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := startChild(cmd); err != nil {
		return 0, fmt.Errorf("run %s: %w", command[0], err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	err := cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return 0, fmt.Errorf("wait for %s: %w", command[0], err)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil // as a shell reports it
	}
	return cmd.ProcessState.ExitCode(), nil
}
