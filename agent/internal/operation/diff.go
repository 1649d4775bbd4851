package operation

import (
	"fmt"
	"strings"
)

const (
	maxDiffLines = 600 // of each side, without what is the same at both ends
	maxDiff      = 8 << 10
	around       = 3 // lines that are shown around a change
)

// diff shows what changes, line by line, as people know it: "-" goes, "+" comes.
func diff(before, after string) string {
	a, b := lines(before), lines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from := max(0, head-around)
	out := []string{fmt.Sprintf("@@ line %d @@", from+1)}
	for _, l := range a[from:head] {
		out = append(out, " "+l)
	}
	out = append(out, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail : min(len(a), len(a)-tail+around)] {
		out = append(out, " "+l)
	}
	text := strings.Join(out, "\n") + "\n"
	if len(text) > maxDiff {
		return strings.ToValidUTF8(text[:maxDiff], "") + "\n… cut off here\n"
	}
	return text
}

// middle is the longest common subsequence, written out.
func middle(a, b []string) []string {
	if len(a) > maxDiffLines || len(b) > maxDiffLines {
		return []string{fmt.Sprintf("… %d lines are replaced by %d others", len(a), len(b))}
	}
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out, i, j = append(out, " "+a[i]), i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			out, i = append(out, "-"+a[i]), i+1
		default:
			out, j = append(out, "+"+b[j]), j+1
		}
	}
	return out
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(strings.ToValidUTF8(s, "?"), "\n"), "\n")
}
