package frame

import (
	"fmt"
	"time"

	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
)

// seldom is how often a wait is spoken of where nobody looks on.
const seldom = 30 * time.Second

// Pending is a wait that people are told of, so that no command is silent for long: on a
// terminal in one line that is written over, elsewhere in a line now and then.
type Pending struct {
	app         *App
	what        string
	began, told time.Time
}

// Await begins a wait for something, such as "the run".
func (a *App) Await(what string) *Pending {
	now := a.Now()
	return &Pending{app: a, what: what, began: now, told: now}
}

// GoesOn tells that it is not over yet.
func (p *Pending) GoesOn() {
	now := p.app.Now()
	line := fmt.Sprintf("waiting for %s, %s so far", p.what, moment.Short(now.Sub(p.began)))
	switch {
	case p.app.Terminal(p.app.Program.Err):
		_, _ = fmt.Fprint(p.app.Program.Err, Redraw+output.Harmless(line)) // it is only beside the output
		p.app.pending.Store(true)
	case now.Sub(p.told) >= seldom:
		p.told = now
		p.app.Note("%s", line)
	}
}

// Quiet takes the line of a wait off the terminal, for what is printed in its place.
func (a *App) Quiet() {
	if a.pending.Swap(false) {
		_, _ = fmt.Fprint(a.Program.Err, Redraw) // it is only beside the output
	}
}
