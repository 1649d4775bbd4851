package archtest

import (
	"go/scanner"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLinesAreShort(t *testing.T) {
	const most = 120
	for _, s := range sources(t) {
		if s.made {
			continue
		}
		excused := unbreakable(s.text)
		for i, line := range strings.Split(s.text, "\n") {
			if n := utf8.RuneCountInString(line); n > most && !excused[i+1] {
				t.Errorf("%s:%d has %d columns, more than %d", s.path, i+1, n, most)
			}
		}
	}
}

// unbreakable are the lines that hold something long which cannot go on in the next line: a raw
// string, a long word of a string or of a tag, an address, a word for the linter.
func unbreakable(text string) map[int]bool {
	const long = 60
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	out := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return out
		case tok == token.STRING && (len(lit) >= long || lit[0] == '`'),
			tok == token.COMMENT && (strings.Contains(lit, "nolint:") || strings.Contains(lit, "://")):
			for l := range strings.Count(lit, "\n") + 1 {
				out[file.Line(pos)+l] = true
			}
		}
	}
}
