package operation

import (
	"regexp"
	"strings"
)

// secretForms are texts that are secrets wherever they appear. The node takes out the
// secrets that it was given; this takes out what looks like one all the same.
var secretForms = regexp.MustCompile(`(?i)` +
	`-----BEGIN [A-Z ]*PRIVATE KEY-----.*` +
	`|\b(authorization:\s*(?:bearer|basic)\s+)[^\s"']+` +
	`|\b((?:password|passwd|secret|token|api[_-]?key)["']?\s*[=:]\s*["']?)[^\s"',;]{6,}` +
	`|\b(?:ghp|gho|glpat|hf|xox[abp])[_-][A-Za-z0-9_-]{16,}` +
	`|\bAKIA[0-9A-Z]{16}\b` +
	`|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*`)

// scrub takes out of a line what looks like a secret.
func scrub(line string) string {
	if !suspicious(line) {
		return line
	}
	return secretForms.ReplaceAllString(line, "${1}${2}[redacted]")
}

// beginnings are how the words of secretForms begin, in lower case, by their first
// letter. What begins with none of them holds no secret form.
var beginnings = func() (by ['z' + 1][]string) {
	for _, word := range []string{
		"authorization:", "password", "passwd", "secret", "token", "api_key", "api-key", "apikey", "ghp", "gho", "glpat",
		"hf_", "hf-", "xox", "akia", "eyj",
	} {
		by[word[0]] = append(by[word[0]], word)
	}
	return by
}()

// suspicious reports whether a line may hold a secret form. The expressions cost a
// hundred times as much, and hardly any line needs them.
func suspicious(line string) bool {
	inWord := false
	for i := range len(line) {
		c := line[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == '-' && strings.HasPrefix(line[i:], "-----"):
			return true
		case c >= 0x80 && (strings.HasPrefix(line[i:], "ſ") || strings.HasPrefix(line[i:], "K")):
			return true // these count as s and k where case does not
		}
		letter := 'a' <= c && c <= 'z'
		if letter && !inWord && beginsWithAny(line[i:], beginnings[c]) {
			return true
		}
		inWord = letter || '0' <= c && c <= '9' || c == '_'
	}
	return false
}

func beginsWithAny(text string, words []string) bool {
	for _, w := range words {
		if len(text) >= len(w) && strings.EqualFold(text[:len(w)], w) {
			return true
		}
	}
	return false
}
