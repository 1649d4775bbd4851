package agentwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Roots of references.
const (
	RootInputs = "inputs" // of the run; the control plane fills them in
	RootTarget = "target" // facts about the node; the control plane fills them in
	RootSteps  = "steps"  // outputs of earlier steps; the node fills them in
)

// Reference stands in a document for a value that is known later. It is always
// the whole of a string, so that no value can become a piece of another one.
type Reference struct {
	Root    string          // inputs, target or steps
	Path    []string        // names below the root; of steps the first is the id of the step
	Default json.RawMessage // a JSON scalar; nil if there is none
}

// maxReference limits the length of a reference.
const maxReference = 512

var referencePart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

// ParseReference reads a string of a document. is says whether it is a
// reference. A string that holds "${" otherwise than as a whole reference is an
// error; "$${" means the two characters themselves.
func ParseReference(s string) (r Reference, is bool, err error) {
	if !strings.HasPrefix(s, "${") {
		return r, false, noReferenceIn(s)
	}
	body, whole := strings.CutSuffix(s[2:], "}")
	if !whole || len(s) > maxReference {
		return r, true, fmt.Errorf("%q is not a reference: it must be the whole value and end with }; "+
			"write $${ for the characters themselves", clip(s))
	}
	body, fallback, has := strings.Cut(body, "|")
	if has {
		if r.Default, err = scalar(fallback); err != nil {
			return r, true, fmt.Errorf("the default of %q: %w", s, err)
		}
	}
	parts := strings.Split(body, ".")
	r.Root, r.Path = parts[0], parts[1:]
	if !slices.Contains([]string{RootInputs, RootTarget, RootSteps}, r.Root) {
		return r, true, fmt.Errorf("%q refers to nothing: references begin with inputs, target or steps", s)
	}
	if len(r.Path) == 0 || len(r.Path) > 8 || r.Root == RootSteps && len(r.Path) < 2 {
		return r, true, fmt.Errorf("%q does not say what of %s is meant", s, r.Root)
	}
	for _, p := range r.Path {
		if !referencePart.MatchString(p) {
			return r, true, fmt.Errorf("%q: %q is not a name", s, p)
		}
	}
	return r, true, nil
}

// String writes the reference as it stands in a document.
func (r Reference) String() string {
	s := "${" + r.Root + "." + strings.Join(r.Path, ".")
	if r.Default != nil {
		s += "|" + string(r.Default)
	}
	return s + "}"
}

func noReferenceIn(s string) error {
	for at := 0; ; {
		i := strings.Index(s[at:], "${")
		if i < 0 {
			return nil
		}
		if at+i == 0 || s[at+i-1] != '$' {
			return fmt.Errorf("%q has a reference inside a longer text: a reference fills the whole value; "+
				"write $${ for the characters themselves", clip(s))
		}
		at += i + 2
	}
}

func scalar(text string) (json.RawMessage, error) {
	raw, err := Canonical([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%w; it must be a JSON scalar, texts in quotes", err)
	}
	if raw[0] == '{' || raw[0] == '[' {
		return nil, errors.New("it must be a JSON scalar, not a list or an object")
	}
	return raw, nil
}

// Escape writes values so that nothing in them is taken for a reference. What a
// reference is replaced with passes through it.
func Escape(value json.RawMessage) (json.RawMessage, error) {
	return mapStrings(value, func(s string) (json.RawMessage, error) {
		return json.Marshal(strings.ReplaceAll(s, "${", "$${"))
	})
}

// mapStrings replaces each string of a document that is a value.
func mapStrings(document json.RawMessage, change func(string) (json.RawMessage, error)) (json.RawMessage, error) {
	v, err := parsed(document)
	if err != nil {
		return nil, err
	}
	out, err := changed(v, change)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return Canonical(raw)
}

func changed(v any, change func(string) (json.RawMessage, error)) (any, error) {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = changed(item, change); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			var err error
			if out[name], err = changed(item, change); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		return v, nil
	}
}

func unescape(s string) string { return strings.ReplaceAll(s, "$${", "${") }

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// Means reports whether a string of a document can stand for a value: it is the value,
// or a reference, which only the node can follow.
func Means(s, value string) bool {
	_, is, err := ParseReference(s)
	return err == nil && (is || unescape(s) == value)
}
