package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"gpuaas/contract/agentwire"
)

// The roots that a reference may begin with. The control plane fills in what
// refers to inputs and to the target when it makes a run; what refers to steps
// the node fills in, because only it knows their results.
const (
	RefInputs = "inputs"
	RefTarget = "target"
	RefSteps  = "steps"
)

// Reference is a value that is filled in later, written as a whole string:
// "${inputs.port|8080}". It never is a piece of a longer string, so a value
// cannot become part of a path, an argument or a program.
type Reference struct {
	Root string
	// Path are the names below the root; a number is an item of a list.
	Path []string
	// Default is a JSON scalar that counts when there is no such value; nil: the
	// value must be there.
	Default json.RawMessage
}

const maxReference = 512

var refPath = regexp.MustCompile(`^(inputs|target|steps)((?:\.[A-Za-z0-9_-]{1,64}){1,8})$`)

// String is the reference as definitions write it.
func (r Reference) String() string {
	text := r.Root + "." + strings.Join(r.Path, ".")
	if r.Default != nil {
		text += "|" + string(r.Default)
	}
	return "${" + text + "}"
}

// ParseReference reads a string of a step's parameters. It reports whether the
// string is a reference; a string that holds "${" without being one is an error,
// unless it is written "$${".
func ParseReference(text string) (Reference, bool, error) {
	if !strings.HasPrefix(text, "${") {
		if bare(text) {
			return Reference{}, false, errors.New(`"${" stands inside a longer string: ` +
				`a reference fills a whole value; write "$${" for the characters themselves`)
		}
		return Reference{}, false, nil
	}
	if len(text) > maxReference {
		return Reference{}, true, fmt.Errorf("a reference has %d characters at most", maxReference)
	}
	inner, closed := strings.CutSuffix(text[2:], "}")
	if !closed {
		return Reference{}, true, errors.New(`a reference ends with "}" and fills the whole value`)
	}
	path, fallback, has := strings.Cut(inner, "|")
	m := refPath.FindStringSubmatch(path)
	if m == nil {
		return Reference{}, true, fmt.Errorf(
			"%q is no reference: write inputs.NAME, target.NAME or steps.ID.NAME, with a default after | if there is one", path)
	}
	r := Reference{Root: m[1], Path: strings.Split(m[2][1:], ".")}
	if has {
		canonical, err := agentwire.Canonical([]byte(fallback))
		if err != nil || len(canonical) == 0 || canonical[0] == '{' || canonical[0] == '[' {
			return Reference{}, true, fmt.Errorf(
				`default %q is not a JSON string, integer, true, false or null: a text needs quotation marks`, fallback)
		}
		r.Default = canonical
	}
	return r, true, nil
}

// bare reports whether a text holds "${" that is not written "$${".
func bare(text string) bool {
	for i := strings.Index(text, "${"); i >= 0; {
		if i == 0 || text[i-1] != '$' {
			return true
		}
		next := strings.Index(text[i+2:], "${")
		if next < 0 {
			return false
		}
		i += 2 + next
	}
	return false
}

// EscapeReferences writes a text so that nobody takes a part of it for a
// reference.
func EscapeReferences(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// unescape is the text that EscapeReferences wrote.
func unescape(text string) string { return strings.ReplaceAll(text, "$${", "${") }

// Finder finds the value of a reference. What is not there is nil without an
// error; then the default counts.
type Finder func(Reference) (json.RawMessage, error)

// FillInputs fills in what the control plane knows: references to inputs and to
// the target. References to steps stay. Texts that were filled in are escaped, so
// that what a caller gave as an input is never read as a reference on the node.
func FillInputs(with json.RawMessage, find Finder) (json.RawMessage, error) {
	return fill(with, find, false)
}

// FillSteps fills in what the node knows, the results of earlier steps, and writes
// every text as it is meant. What was filled in is not looked at again.
func FillSteps(with json.RawMessage, find Finder) (json.RawMessage, error) {
	return fill(with, find, true)
}

// References lists the references in the parameters of a step, each with the place
// where it stands, such as "args.port" or "packages[0].name".
func References(with json.RawMessage, each func(at string, r Reference)) error {
	document, err := looseValue(with)
	if err != nil {
		return err
	}
	var broken []error
	walk("", document, func(at, text string) {
		switch r, is, err := ParseReference(text); {
		case err != nil:
			broken = append(broken, &ReferenceError{At: at, Err: err})
		case is:
			each(at, r)
		}
	})
	return errors.Join(broken...)
}

// ReferenceError says where a reference is that cannot be read or filled in.
type ReferenceError struct {
	At  string
	Err error
}

func (e *ReferenceError) Error() string { return e.At + ": " + e.Err.Error() }

func (e *ReferenceError) Unwrap() error { return e.Err }

func walk(at string, value any, text func(at, text string)) {
	switch v := value.(type) {
	case string:
		text(at, v)
	case []any:
		for i, item := range v {
			walk(fmt.Sprintf("%s[%d]", at, i), item, text)
		}
	case map[string]any:
		for name, member := range v {
			walk(strings.TrimPrefix(at+"."+name, "."), member, text)
		}
	}
}

func looseValue(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	canonical, err := agentwire.Canonical(raw)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(canonical))
	d.UseNumber()
	var document any
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return document, nil
}

func fill(with json.RawMessage, find Finder, last bool) (json.RawMessage, error) {
	document, err := looseValue(with)
	if err != nil {
		return nil, err
	}
	filled, err := fillValue("", document, find, last)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(filled)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return agentwire.Canonical(raw)
}

func fillValue(at string, value any, find Finder, last bool) (any, error) {
	switch v := value.(type) {
	case string:
		return fillText(at, v, find, last)
	case []any:
		for i := range v {
			item, err := fillValue(fmt.Sprintf("%s[%d]", at, i), v[i], find, last)
			if err != nil {
				return nil, err
			}
			v[i] = item
		}
	case map[string]any:
		for name := range v {
			member, err := fillValue(strings.TrimPrefix(at+"."+name, "."), v[name], find, last)
			if err != nil {
				return nil, err
			}
			v[name] = member
		}
	}
	return value, nil
}

func fillText(at, text string, find Finder, last bool) (any, error) {
	r, is, err := ParseReference(text)
	switch {
	case err != nil:
		return nil, &ReferenceError{At: at, Err: err}
	case !is && last:
		return unescape(text), nil
	case !is, !last && r.Root == RefSteps:
		return text, nil
	case last && r.Root != RefSteps:
		return nil, &ReferenceError{At: at, Err: fmt.Errorf("%s was not filled in by the control plane", r)}
	}
	found, err := find(r)
	if err != nil {
		return nil, &ReferenceError{At: at, Err: err}
	}
	if found == nil {
		if r.Default == nil {
			return nil, &ReferenceError{At: at, Err: fmt.Errorf("%s has no value and no default", r)}
		}
		found = r.Default
	}
	value, err := looseValue(found)
	if err != nil {
		return nil, &ReferenceError{At: at, Err: err}
	}
	if !last {
		value = escaped(value)
	}
	return value, nil
}

// escaped escapes every text of a value.
func escaped(value any) any {
	switch v := value.(type) {
	case string:
		return EscapeReferences(v)
	case []any:
		for i := range v {
			v[i] = escaped(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = escaped(v[name])
		}
	}
	return value
}

// Follow follows the path of a reference, or what is left of it, through a JSON
// document: names of objects and numbers of items. It answers nil where the path
// leads nowhere.
func Follow(document json.RawMessage, path []string) (json.RawMessage, error) {
	value, err := looseValue(document)
	if err != nil {
		return nil, err
	}
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			member, there := v[step]
			if !there {
				return nil, nil
			}
			value = member
		case []any:
			i, ok := index(step, len(v))
			if !ok {
				return nil, nil
			}
			value = v[i]
		default:
			return nil, nil
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return agentwire.Canonical(raw)
}

// index reads the number of an item, which has one spelling only.
func index(text string, items int) (int, bool) {
	n := 0
	for i, c := range []byte(text) {
		if c < '0' || c > '9' || i > 0 && n == 0 || n > items {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, text != "" && n < items
}
