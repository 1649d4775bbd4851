package frame

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"gpuaas/cli/internal/output"
)

// Redraw precedes each picture on a terminal: what stood there is erased.
const Redraw = "\r\x1b[J"

// Size is how many columns and lines a terminal has.
type Size struct{ Columns, Lines int }

// Screen is the size of the terminal. If it cannot be asked, COLUMNS and LINES say it.
func (a *App) Screen() Size {
	if f, ok := a.Program.Out.(*os.File); ok {
		if columns, lines, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && lines > 0 {
			return Size{columns, lines}
		}
	}
	said := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(a.Env[name]); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	return Size{said("COLUMNS", 80), said("LINES", 24)}
}

// Draw shows a picture in the place of the one before it. Everything above stays on the
// terminal. A note ends a picture: the next one is drawn below the note.
func (a *App) Draw(picture string) error {
	back := ""
	if n := a.drawn.Swap(0); n > 0 {
		back = fmt.Sprintf("\x1b[%dA", n)
	}
	text := fit(strings.TrimRight(picture, "\n"), a.Screen()) + "\n"
	if err := output.Write(a.Program.Out, back+Redraw+text); err != nil {
		return err
	}
	a.drawn.Store(int64(strings.Count(text, "\n")))
	return nil
}

// DrawWhat draws what a function prints.
func (a *App) DrawWhat(show func() error) error {
	var picture bytes.Buffer
	out, err, drawn := a.Program.Out, a.Program.Err, a.drawn.Load()
	a.Program.Out, a.Program.Err = &picture, &picture
	failed := show()
	a.Program.Out, a.Program.Err = out, err
	a.drawn.Store(drawn) // notes are part of this picture
	if failed != nil {
		return failed
	}
	return a.Draw(picture.String())
}

// fit shortens a picture to the size of the terminal, so that nothing wraps or scrolls.
func fit(picture string, screen Size) string {
	lines := strings.Split(picture, "\n")
	if most := max(screen.Lines-1, 1); len(lines) > most { // the cursor stands in the last line
		hidden := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("… and %d more lines", hidden))
	}
	for i, line := range lines {
		lines[i] = Shorten(line, screen.Columns)
	}
	return strings.Join(lines, "\n")
}

// Shorten cuts a line that has more columns than there are.
func Shorten(line string, columns int) string {
	runes := []rune(line)
	if len(runes) <= columns {
		return line
	}
	return strings.TrimRight(string(runes[:max(columns-1, 0)]), " ") + "…"
}
