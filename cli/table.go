package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// column is one thing that people are shown about an object.
type column[T any] struct {
	title string
	text  func(T) string
	// detail columns are shown with a single object, not in lists.
	detail bool
}

// printTable prints objects for people, one a line.
func printTable[T any](w io.Writer, columns []column[T], objects []object[T], headers bool) error {
	rows := make([][]string, 0, len(objects)+1)
	if headers {
		rows = append(rows, titles(columns))
	}
	for _, o := range objects {
		rows = append(rows, cells(columns, o.value))
	}
	return write(w, align(rows))
}

func titles[T any](columns []column[T]) []string {
	var out []string
	for _, c := range columns {
		if !c.detail {
			out = append(out, c.title)
		}
	}
	return out
}

func cells[T any](columns []column[T], value T) []string {
	var out []string
	for _, c := range columns {
		if !c.detail {
			out = append(out, or(harmless(c.text(value)), "-"))
		}
	}
	return out
}

// printDetail prints one object for people, one property a line.
func printDetail[T any](w io.Writer, columns []column[T], value T) error {
	rows := make([][]string, 0, len(columns))
	for _, c := range columns {
		rows = append(rows, []string{c.title, or(harmless(c.text(value)), "-")})
	}
	return write(w, align(rows))
}

// align puts cells under one another, two spaces apart, and none at the end of a line.
func align(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// harmless makes a string that came from elsewhere safe to show on a terminal: what could
// move the cursor, change colours or reverse the direction of text is shown as an escape.
func harmless(s string) string {
	if !strings.ContainsFunc(s, dangerous) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if dangerous(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// harmlessLines is harmless for text of several lines, which keeps them.
func harmlessLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = harmless(l)
	}
	return strings.Join(lines, "\n")
}

func dangerous(r rune) bool { return !unicode.IsPrint(r) }

// harmlessJSON escapes what JSON allows to stand unescaped but a terminal may obey. The
// meaning stays the same: such characters can only be within strings.
func harmlessJSON(s string) string {
	obeyed := func(r rune) bool { return r >= 0x7f && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r) }
	if !strings.ContainsFunc(s, obeyed) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if obeyed(r) {
			_, _ = fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// when is a time as people read it: local, and how far away.
func (a *app) when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(a.zone).Format("2006-01-02 15:04") + " (" + distance(a.now().Sub(t)) + ")"
}

func (a *app) whenever(t *time.Time) string {
	if t == nil {
		return ""
	}
	return a.when(*t)
}

func distance(d time.Duration) string {
	if d < 0 {
		return "in " + short(-d)
	}
	return short(d) + " ago"
}

// short is a duration in its largest unit.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 2*day:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d/day)) + "d"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// compact is JSON on one line, for a cell.
func compact(v any) string {
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
