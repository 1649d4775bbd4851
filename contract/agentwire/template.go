package agentwire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Template is a text with places for values. There is nothing else in it: no
// conditions, no loops, no calls.
type Template struct {
	// Texts and Names take turns: Texts[0], Names[0], Texts[1] and so on. There
	// is one more of Texts.
	Texts []string
	Names []string
}

// ParseTemplate reads a template.
func ParseTemplate(s string) (Template, error) {
	t := Template{}
	var text strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{{")
		text.WriteString(before)
		if !found {
			t.Texts = append(t.Texts, text.String())
			return t, nil
		}
		if after, literal := strings.CutPrefix(rest, "{{"); literal {
			text.WriteString("{{")
			s = after
			continue
		}
		name, after, closed := strings.Cut(rest, "}}")
		name = strings.TrimSpace(name)
		switch {
		case !closed:
			return Template{}, errors.New("{{ is not closed; write {{{{ for the characters themselves")
		case !templateName.MatchString(name):
			return Template{}, fmt.Errorf("{{%s}}: a name is a lower-case letter, then lower-case letters, digits and _",
				clip(name))
		case len(t.Names) >= 1000:
			return Template{}, errors.New("a template has at most 1000 places")
		}
		t.Texts, t.Names = append(t.Texts, text.String()), append(t.Names, name)
		text.Reset()
		s = after
	}
}

// TemplateNames lists the values that a template uses, each once.
func TemplateNames(s string) ([]string, error) {
	t, err := ParseTemplate(s)
	names := slices.Clone(t.Names)
	slices.Sort(names)
	return slices.Compact(names), err
}
