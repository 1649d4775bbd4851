package frame

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
)

// Program is everything a run of the command line takes from the world around it.
type Program struct {
	Version  string
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	Environ  []string
	// Server holds the commands that run or prepare a control plane rather than talk to one.
	Server []*cobra.Command
}

// Surroundings is what tests replace so that they need neither wait nor guess.
type Surroundings struct {
	Now      func() time.Time
	Zone     *time.Location
	Terminal func(io.Writer) bool
	Wait     func(context.Context, time.Duration) error
}

// App is one run of the command line.
type App struct {
	Surroundings
	Program Program
	Env     map[string]string
	Flags   struct {
		Output, Context, TokenFile, IdempotencyKey string
		NoHeaders                                  bool
	}
	connected *Connection // set once a control plane was chosen; errors name it

	drawn   atomic.Int64 // lines of the picture above the cursor
	pending atomic.Bool  // the cursor is behind a line about a wait
}

// New begins a run.
func New(p Program, around Surroundings) *App {
	a := &App{Surroundings: around, Program: p, Env: map[string]string{}}
	for _, kv := range p.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			a.Env[name] = value
		}
	}
	return a
}

// IsTerminal says whether somebody looks at what is written.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Wait waits, or returns the error of a context that ended.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Moment is a time, or one that lies so long before now.
func (a *App) Moment(text string) (time.Time, error) {
	return moment.Parse(text, a.Now().In(a.Zone))
}

func (a *App) output() string {
	return cmp.Or(a.Flags.Output, a.Env["GPUAAS_OUTPUT"], output.Table)
}

// Wide says whether tables have the columns that only some people want, such as ids.
func (a *App) Wide() bool { return a.output() == output.Wide }

// Format is how to print; an error when somebody asked for what there is not. A wide table is one.
func (a *App) Format() (string, error) {
	f := a.output()
	if f == output.Wide {
		return output.Table, nil
	}
	if !slices.Contains(output.Formats(), f) {
		return "", failure.New(failure.Usage, "usage", "use one of: "+strings.Join(output.Formats(), ", "),
			"there is no output format %q", f)
	}
	return f, nil
}

// Note tells people something beside the output.
func (a *App) Note(format string, args ...any) {
	a.Quiet()
	a.drawn.Store(0)
	_, _ = fmt.Fprintln(a.Program.Err, output.HarmlessLines(fmt.Sprintf(format, args...))) // it is only beside the output
}

// When is a time as people read it: local, and how far away.
func (a *App) When(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(a.Zone).Format("2006-01-02 15:04") + " (" + moment.Distance(a.Now().Sub(t)) + ")"
}

// Whenever is When of a time that may not be there.
func (a *App) Whenever(t *time.Time) string {
	if t == nil {
		return ""
	}
	return a.When(*t)
}
