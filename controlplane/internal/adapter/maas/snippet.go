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
	maxExamined = 8 << 10 // no more of an error page is looked at
)

var (
	tags = regexp.MustCompile(`<[^<>]*>`)
	// A refused signature is answered with the one that was expected.
	signatureText = regexp.MustCompile(`(?i)(expected signature base string|oauth_[a-z_]+|authorization|signature|token_secret|power_pass(?:word)?|password)("?\s*[:=]\s*).*`)
	// Keys of MAAS are 18 or 32 letters and digits without any separator.
	keyLike = regexp.MustCompile(`[A-Za-z0-9]{18,}`)
	escaped = regexp.MustCompile(`(?:%26|&)[A-Za-z0-9]{8,}`)
)

// Shown is text that MAAS was heard to say, such as an event, as it may be told
// to people and kept: one bounded line without anything that looks like a key.
func Shown(text string) string { return shown(text) }

// shown is a name or a word from MAAS, as it may appear in a message.
func shown(text string) string { return sanitise([]byte(text)) }

// sanitise makes text from outside fit for a log line and a person: one line,
// bounded, and without anything that looks like a key.
func sanitise(raw []byte, secrets ...string) string {
	if len(raw) > maxExamined {
		raw = raw[:maxExamined]
		raw = raw[:bytes.LastIndexAny(raw, " \n\t>")+1] // half a key is not recognised as one
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
