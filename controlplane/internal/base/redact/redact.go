// Package redact holds the one type that carries secrets inside a process.
// However it is printed, logged or encoded, it shows only that it is a secret.
package redact

import (
	"fmt"
	"log/slog"
)

// Placeholder appears where the secret would have been.
const Placeholder = "[redacted]"

// Secret is a value that must never be shown. Only Reveal returns it, so every
// place that handles the plain value is easy to find.
type Secret struct{ plain string }

// New wraps a plain value.
func New(plain string) Secret { return Secret{plain: plain} }

// Reveal returns the plain value, for the one call that needs it.
func (s Secret) Reveal() string { return s.plain }

// IsZero reports whether there is no secret at all.
func (s Secret) IsZero() bool { return s.plain == "" }

func (s Secret) shown() string {
	if s.plain == "" {
		return ""
	}
	return Placeholder
}

// Format covers every verb of package fmt, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.shown())) }

// String shows that there is a secret, not which.
func (s Secret) String() string { return s.shown() }

// LogValue is what slog prints.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.shown()) }

// MarshalText is what JSON and YAML encoders print.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown()), nil }

// UnmarshalText lets configuration decoders fill a secret.
func (s *Secret) UnmarshalText(b []byte) error {
	s.plain = string(b)
	return nil
}
