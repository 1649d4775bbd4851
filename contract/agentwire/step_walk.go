package agentwire

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// walk goes through a document and the type it is for. Without find it takes
// the references out and the escapes away; with find it fills references in.
type walk struct {
	find     Finder
	chosen   func(path string, value json.RawMessage) string // of StepKind
	handles  bool                                            // secrets are handles by now
	placed   []Placed
	problems StepProblems
}

// gone stands for a value that is left out.
type gone struct{}

func (w *walk) value(v any, t reflect.Type, path string) any {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case string:
		return w.text(v, t, path)
	case []any:
		return w.list(v, t, path)
	case map[string]any:
		return w.object(v, t, path)
	case nil:
		w.problems.add(path, "null is not a value: leave it out")
		return gone{}
	default:
		return v
	}
}

func (w *walk) text(s string, t reflect.Type, path string) any {
	r, is, err := ParseReference(s)
	wants := "any"
	if t != nil {
		wants = typeName(t)
	}
	switch {
	case err != nil:
		w.problems.add(path, "%v", err)
		return gone{}
	case !is && wants == "secret" && w.find == nil && !w.handles:
		w.problems.add(path, "a secret is never written down: refer to the step that mints it, as in ${steps.token.values.token}")
		return gone{}
	case !is && w.find == nil:
		return unescape(s)
	case !is:
		return s
	case w.find == nil:
		w.placed = append(w.placed, Placed{Reference: r, Path: path, Wants: wants})
		return gone{}
	default:
		return w.fill(s, r, wants, path)
	}
}

func (w *walk) fill(s string, r Reference, wants, path string) any {
	value, known, err := w.find(r)
	switch {
	case err != nil:
		w.problems.add(path, "%s: %v", r, err)
		return gone{}
	case !known:
		return s
	case value.Secret != (wants == "secret"):
		w.problems.add(path, "%s: a secret is accepted only by fields for secrets, and these accept nothing else", r)
		return gone{}
	case len(value.JSON) == 0 && r.Default == nil:
		w.problems.add(path, "%s has no value and no default", r)
		return gone{}
	case len(value.JSON) == 0:
		value.JSON = r.Default
	}
	if w.chosen != nil {
		if wrong := w.chosen(path, value.JSON); wrong != "" {
			w.problems.add(path, "%s: %s", r, wrong)
			return gone{}
		}
	}
	escaped, err := Escape(value.JSON)
	if err != nil {
		w.problems.add(path, "%s: %v", r, err)
		return gone{}
	}
	return escaped
}

func (w *walk) list(v []any, t reflect.Type, path string) any {
	var item reflect.Type
	switch {
	case open(t):
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		item = t.Elem()
	default:
		w.problems.add(path, "must be of the type %s, not a list", typeName(t))
		return gone{}
	}
	out := make([]any, 0, len(v))
	for i, one := range v {
		if got := w.value(one, item, below(path, strconv.Itoa(i))); got != any(gone{}) {
			out = append(out, got)
		} else {
			out = append(out, empty(item))
		}
	}
	return out
}

func (w *walk) object(v map[string]any, t reflect.Type, path string) any {
	var fields map[string]reflect.Type
	var all reflect.Type
	switch {
	case open(t):
	case t.Kind() == reflect.Struct:
		fields = fieldsOf(t)
	case t.Kind() == reflect.Map:
		all = t.Elem()
	default:
		w.problems.add(path, "must be of the type %s, not an object", typeName(t))
		return gone{}
	}
	out := make(map[string]any, len(v))
	for _, name := range sorted(v) {
		at := all
		if fields != nil {
			var known bool
			if at, known = fields[name]; !known {
				w.problems.add(below(path, name), "there is no field of this name here; there are %s",
					strings.Join(sorted(fields), ", "))
				continue
			}
		}
		if got := w.value(v[name], at, below(path, name)); got != any(gone{}) {
			out[name] = got
		} else if fields == nil {
			out[name] = empty(at)
		}
	}
	return out
}

// open says that anything may stand here.
func open(t reflect.Type) bool { return t == nil || t == rawType || t.Kind() == reflect.Interface }

// empty is what stands for a reference in a list or a map, whose other entries
// must keep their place.
func empty(t reflect.Type) any {
	if open(t) {
		return json.RawMessage(`""`)
	}
	switch typeName(t) {
	case "array":
		return json.RawMessage(`[]`)
	case "object":
		return json.RawMessage(`{}`)
	case "integer":
		return json.RawMessage(`0`)
	case "boolean":
		return json.RawMessage(`false`)
	default:
		return json.RawMessage(`""`)
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
