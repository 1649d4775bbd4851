package table

import (
	"strings"
	"unicode/utf8"
)

// The width that lists keep to, and the least that is left of a long text.
const (
	Width     = 120
	leastLong = 12
)

// fit shortens long texts until the rows are no wider than they should be. What is not long
// stays whole: half an id or half a name is of no use.
func fit[T any](columns []Column[T], rows [][]string) {
	widths := widthsOf(rows)
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > Width; total-- {
		widest := -1
		for i, c := range columns {
			if c.Long && widths[i] > leastLong && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = shortened(cell, widths[i])
		}
	}
}

func shortened(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:width-1]), " ,;:(") + "…"
}

func widthsOf(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}
