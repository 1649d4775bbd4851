package maas

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpuaas/controlplane/internal/base/redact"
)

const (
	maxSnippet  = 300
	maxExamined = 8 << 10 // how much of an error page is looked at
)

var (
	tags = regexp.MustCompile(`<[^<>]*>`)
	// MAAS answers a refused signature with the one that it expected.
	signatureText = regexp.MustCompile(
		`(?i)(expected signature base string|oauth_[a-z_]+|authorization|signature|token_secret|power_pass(?:word)?|password)("?\s*[:=]\s*).*`)
	// Keys of MAAS are 18 or 32 letters and digits without a separator.
	keyLike = regexp.MustCompile(`[A-Za-z0-9]{18,}`)
	escaped = regexp.MustCompile(`(?:%26|&)[A-Za-z0-9]{8,}`)
)

// Shown makes text of MAAS, such as an event, fit to be shown and stored: one
// bounded line without anything that looks like a key.
func Shown(text string) string { return shown(text) }

// shown makes a name or word of MAAS fit for a message.
func shown(text string) string { return sanitise([]byte(text)) }

// sanitise makes text from outside fit for a log line and a person: one line,
// bounded, and without anything that looks like a key.
func sanitise(raw []byte, secrets ...string) string {
	if len(raw) > maxExamined {
		raw = raw[:maxExamined]
		raw = raw[:bytes.LastIndexAny(raw, " \n\t>")+1] // half a key would not be recognised as one
	}
	text := tags.ReplaceAllString(strings.ToValidUTF8(string(raw), " "), " ")
	for _, secret := range secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, redact.Placeholder)
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	text = signatureText.ReplaceAllString(text, "$1$2"+redact.Placeholder)
	text = escaped.ReplaceAllString(text, redact.Placeholder)
	text = keyLike.ReplaceAllStringFunc(text, func(run string) string {
		if strings.ContainsAny(run, "0123456789") && strings.ContainsFunc(run, unicode.IsLetter) {
			return redact.Placeholder
		}
		return run
	})
	if len(text) <= maxSnippet {
		return text
	}
	const mark = "…"
	cut := maxSnippet - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}
