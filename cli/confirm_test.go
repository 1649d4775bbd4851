package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
)

// Nothing is destroyed because a script, a pipe or a file stands where somebody would answer.
func TestNothingIsDestroyedUnasked(t *testing.T) {
	pipe, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := feed.WriteString("yes\nn\n"); err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{pipe, feed, null, log} {
		defer f.Close()
	}
	screen := &buffer{}
	for name, c := range map[string]struct {
		in       io.Reader
		err      io.Writer
		terminal func(io.Writer) bool
	}{
		"echo n |":   {pipe, screen, func(w io.Writer) bool { return w == screen }},
		"</dev/null": {null, screen, func(w io.Writer) bool { return w == screen }},
		"2>file":     {strings.NewReader("yes\n"), log, frame.IsTerminal},
	} {
		f := newFakeAPI(t)
		b := signedIn(t, f)
		b.around.Terminal = c.terminal
		code := run(t.Context(), Program{
			Version: "1.2.3", Args: []string{"node", "reset", "c07u31", "--reason", "r"}, In: c.in, Out: &buffer{}, Err: c.err,
			Environ: b.environ, Server: serverCommands(),
		}, b.around)
		begun := slices.ContainsFunc(f.received(), func(r received) bool { return r.operation == "decommission-node" })
		if code != failure.Unconfirmed || begun {
			t.Errorf("%s: exit code %d, begun %v", name, code, begun)
		}
	}
	if said := screen.String(); !strings.Contains(said, "nothing was done") || !strings.Contains(said, "--yes") {
		t.Errorf("said %q", said)
	}
}

// To end what a tenant has destroys the tenant's work, also where the mode itself destroys nothing.
func TestATenantsWorkIsNotEndedUnasked(t *testing.T) {
	for _, args := range [][]string{
		{"node", "drain", "c07u31"},
		{"decommission", "batch", "start", "--mode", "drain", "--node", "c07u31"},
	} {
		f := newFakeAPI(t)
		b := signedIn(t, f)
		args = append(args, "--reason", "r")
		if got := b.run(args...); got.exit != failure.OK {
			t.Errorf("%v destroys nothing, yet: %+v", args, got)
		}
		begun := len(f.received())
		ending := slices.Concat(args, []string{"--end-allocation"})
		if got := b.run(ending...); got.exit != failure.Unconfirmed || !strings.Contains(got.err, "--yes") {
			t.Errorf("%v: %+v", ending, got)
		}
		for _, r := range f.received()[begun:] {
			if r.operation == "drain-node" || r.operation == "create-decommission-batch" {
				t.Errorf("%v: begun", ending)
			}
		}
		if got := b.run(append(args, "--under-maintenance")...); got.exit != failure.Unconfirmed {
			t.Errorf("%v --under-maintenance: %+v", args, got)
		}
		if got := b.run(append(ending, "--yes")...); got.exit != failure.OK {
			t.Errorf("%v --yes: %+v", ending, got)
		}
	}
}

// asked cancels once it is shown the question.
type asked struct {
	buffer
	stop context.CancelFunc
}

func (a *asked) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "Type yes") {
		a.stop()
	}
	return a.buffer.Write(p)
}

// Ctrl-C and SIGTERM end the context. The program must not wait for an answer then.
func TestASignalAtTheQuestionEndsTheProgram(t *testing.T) {
	f := newFakeAPI(t)
	b := signedIn(t, f)
	b.around.Terminal = func(io.Writer) bool { return true }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	silent, feed := io.Pipe()
	defer feed.Close()
	seen := &asked{stop: stop}
	code := run(ctx, Program{
		Version: "1.2.3", Args: []string{"node", "reset", "c07u31", "--reason", "r"}, In: silent, Out: &buffer{}, Err: seen,
		Environ: b.environ, Server: serverCommands(),
	}, b.around)
	begun := slices.ContainsFunc(f.received(), func(r received) bool { return r.operation == "decommission-node" })
	if code != failure.Interrupted || begun {
		t.Errorf("exit code %d, begun %v: %s", code, begun, seen.String())
	}
}

func TestANodeIsShownAsOfThePast(t *testing.T) {
	f := newFakeAPI(t)
	b := signedIn(t, f)
	if got := b.run("node", "show", "c07u31", "--at", "2h"); got.exit != failure.OK ||
		!strings.Contains(got.err, "as of 2026-03-04T03:09:07Z") {
		t.Errorf("%+v", got)
	}
	for _, future := range []string{"2030-01-01", "-2h"} {
		if got := b.run("node", "show", "c07u31", "--at="+future); got.exit != failure.Usage {
			t.Errorf("%s: %+v", future, got)
		}
	}
}

// A hint names no reason, so that it can be pasted: somebody at a terminal is asked for it, a
// script is told which flag is missing.
func TestAReasonThatIsMissingIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		in       string
		terminal bool
		exit     int
	}{
		"somebody answers":      {"cable replaced\n", true, failure.OK},
		"somebody says nothing": {"\n", true, failure.Usage},
		"a script":              {"cable replaced\n", false, failure.Usage},
	} {
		f := newFakeAPI(t)
		b := signedIn(t, f)
		b.in, b.around.Terminal = c.in, func(io.Writer) bool { return c.terminal }
		got := b.run("onboarding", "retry", onboardingID)
		sent := slices.ContainsFunc(f.received(), func(r received) bool {
			return strings.Contains(r.body, `"cable replaced"`)
		})
		asked := strings.Contains(got.err, "--reason (the reason, ")
		if got.exit != c.exit || sent != (c.exit == failure.OK) || asked != c.terminal {
			t.Errorf("%s: sent %v: %+v", name, sent, got)
		}
	}
}
