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

// What a byte of a line may be for secretForms.
const (
	apart   = iota // between two words
	inWord         // in a word; no word of secretForms begins with it
	begins         // the first letter of such a word
	suspect        // perhaps the beginning of something else that is looked for
)

var bytesAre = func() (of [256]byte) {
	for c := range of {
		lower := c | 0x20
		switch {
		case 'a' <= lower && lower <= 'z' && len(beginnings[lower]) > 0:
			of[c] = begins
		case 'a' <= lower && lower <= 'z' || '0' <= c && c <= '9' || c == '_':
			of[c] = inWord
		}
	}
	of['-'], of["\u017f"[0]], of["\u212a"[0]] = suspect, suspect, suspect
	return of
}()

// suspicious reports whether a line may hold a secret form. The expressions cost a
// hundred times as much, and hardly any line needs them.
func suspicious(line string) bool {
	before := byte(apart)
	for i := range len(line) {
		is := bytesAre[line[i]]
		switch {
		case is < begins:
		case is == suspect:
			if suspiciousAt(line[i:]) {
				return true
			}
			is = apart
		default:
			if before == apart && beginsWithAny(line[i:], beginnings[line[i]|0x20]) {
				return true
			}
			is = inWord
		}
		before = is
	}
	return false
}

// suspiciousAt reports whether a text begins with the frame of a key, or with a letter
// that counts as s or k where case does not.
func suspiciousAt(text string) bool {
	return strings.HasPrefix(text, "-----") || strings.HasPrefix(text, "\u017f") || strings.HasPrefix(text, "\u212a")
}

func beginsWithAny(text string, words []string) bool {
	for _, w := range words {
		if len(text) >= len(w) && strings.EqualFold(text[:len(w)], w) {
			return true
		}
	}
	return false
}
