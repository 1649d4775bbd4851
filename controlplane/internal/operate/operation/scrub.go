package operation

import "regexp"

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
	return secretForms.ReplaceAllString(line, "${1}${2}[redacted]")
}
