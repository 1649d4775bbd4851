package output

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Harmless makes a string that came from elsewhere safe to show on a terminal: what could
// move the cursor, change colours or reverse the direction of text is shown as an escape.
func Harmless(s string) string {
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

// HarmlessLines is harmless for text of several lines, which keeps them.
func HarmlessLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Harmless(l)
	}
	return strings.Join(lines, "\n")
}

func dangerous(r rune) bool { return !unicode.IsPrint(r) }

// HarmlessJSON escapes what JSON allows to stand unescaped but a terminal may obey. The
// meaning stays the same: such characters can only be within strings.
func HarmlessJSON(s string) string {
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
