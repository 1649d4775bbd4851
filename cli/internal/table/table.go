package table

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gpuaas/cli/internal/output"
)

// Column is one thing that people are shown about an object.
type Column[T any] struct {
	Title string
	Text  func(T) string
	// Detail columns are shown with a single object, not in lists.
	Detail bool
	// Wide columns are shown in lists only if somebody asks for wide ones.
	Wide bool
	// Brief is what other lists show instead of Text, if there is one.
	Brief func(T) string
	// Long columns hold sentences: other lists shorten them to what fits.
	Long bool
}

// listed are the columns of a list.
func listed[T any](columns []Column[T], wide bool) []Column[T] {
	return slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return c.Detail || c.Wide && !wide })
}

// Print prints objects for people, one a line.
func Print[T any](w io.Writer, columns []Column[T], objects []output.Object[T], headers, wide bool) error {
	columns = listed(columns, wide)
	rows := make([][]string, 0, len(objects)+1)
	if headers {
		rows = append(rows, titles(columns))
	}
	for _, o := range objects {
		rows = append(rows, cells(columns, o.Value, wide))
	}
	if !wide {
		fit(columns, rows)
	}
	return output.Write(w, Align(rows))
}

func titles[T any](columns []Column[T]) []string {
	var out []string
	for _, c := range columns {
		out = append(out, c.Title)
	}
	return out
}

func cells[T any](columns []Column[T], value T, wide bool) []string {
	var out []string
	for _, c := range columns {
		text := c.Text
		if c.Brief != nil && !wide {
			text = c.Brief
		}
		out = append(out, cmp.Or(output.Harmless(text(value)), "-"))
	}
	return out
}

// PrintOne prints one object for people, one property a line.
func PrintOne[T any](w io.Writer, columns []Column[T], value T) error {
	rows := make([][]string, 0, len(columns))
	for _, c := range columns {
		rows = append(rows, []string{c.Title, cmp.Or(output.Harmless(c.Text(value)), "-")})
	}
	return output.Write(w, Align(rows))
}

// Align puts cells under one another, two spaces apart, and none at the end of a line.
func Align(rows [][]string) string {
	widths := widthsOf(rows)
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
