package rack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// client speaks to one LXD through its command line. Secrets go through the
// standard input, so that they do not appear in the list of processes.
type client struct {
	dir     string // LXD_DIR; empty: the LXD of this system
	project string
}

// call is one call of lxc. A flag names the project, because each command
// accepts it there.
type call struct {
	args   []string
	stdin  io.Reader
	global bool // not about the project
}

func (c client) run(ctx context.Context, k call) (string, error) {
	args := k.args
	if !k.global {
		args = append([]string{"--project", c.project}, args...)
	}
	cmd := exec.CommandContext(ctx, "lxc", args...)
	cmd.Env = c.environment()
	cmd.Stdin = k.stdin
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	err := cmd.Run()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		return out.String(), fmt.Errorf("run lxc %s: %w", k.verb(), ctx.Err())
	case errors.As(err, &failed):
		return out.String(), &ExitError{
			Program: "lxc " + k.verb(), Code: failed.ExitCode(),
			Output: strings.TrimSpace(problem.String()),
		}
	}
	return "", fmt.Errorf("run lxc %s: %w", k.verb(), err)
}

// environment is the caller's, without what would change lxc's answers.
func (c client) environment() []string {
	env := append(os.Environ(), "LC_ALL=C.UTF-8", "NO_COLOR=1")
	if c.dir != "" {
		env = append(env, "LXD_DIR="+c.dir, "LXD_CONF="+c.dir+"/client", "LXD_SOCKET=")
	}
	return env
}

// verb is what a call does, without its object.
func (k call) verb() string { return strings.Join(k.args[:min(2, len(k.args))], " ") }

func (c client) do(ctx context.Context, args ...string) error {
	_, err := c.run(ctx, call{args: args})
	return err
}

func (c client) global(ctx context.Context, args ...string) error {
	_, err := c.run(ctx, call{args: args, global: true})
	return err
}

// get reads an object of LXD's interface into v.
func (c client) get(ctx context.Context, path string, v any) error {
	out, err := c.run(ctx, call{args: []string{"query", path}, global: true})
	if err != nil {
		return fmt.Errorf("read %s of LXD: %w", path, err)
	}
	if err := json.Unmarshal([]byte(out), v); err != nil {
		return fmt.Errorf("read %s of LXD: %w", path, err)
	}
	return nil
}

// with returns a path of LXD's interface within the project.
func (c client) with(path string) string { return path + "?project=" + c.project }

// notFound says that LXD has no such thing.
func notFound(err error) bool {
	var failed *ExitError
	return errors.As(err, &failed) && strings.Contains(strings.ToLower(failed.Output), "not found")
}

// unless drops an error if it says that the goal is reached already.
func unless(gone bool, err error) error {
	if gone {
		return nil
	}
	return err
}
