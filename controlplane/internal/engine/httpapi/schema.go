package httpapi

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
)

const schemaPrefix = "#/components/schemas/"

// schemaName names a type in the contract by its package and its own name, so
// that two slices may both have a Member. If the type name begins with the
// package name, it is not repeated. The frame's own types have no prefix, and a
// list is named after its items.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Name() == "" {
		return capital(hint)
	}
	base, args, generic := strings.Cut(t.Name(), "[")
	if !generic {
		return qualified(t.PkgPath(), base)
	}
	inner := argumentNames(strings.TrimSuffix(args, "]"))
	if t.PkgPath() == framePath && base == "List" {
		return inner + "List"
	}
	return qualified(t.PkgPath(), base) + inner
}

var framePath = reflect.TypeFor[Problem]().PkgPath()

// argumentNames spells type arguments from the form in which reflection prints
// them: path/to/pkg.Name, []path/to/pkg.Name, other.Box[path/to/pkg.Name],
// string.
func argumentNames(args string) string {
	var out strings.Builder
	for _, part := range strings.FieldsFunc(args, func(r rune) bool { return strings.ContainsRune("[]*,", r) }) {
		dot := strings.LastIndex(part, ".")
		if dot < 0 {
			out.WriteString(capital(part))
			continue
		}
		out.WriteString(qualified(part[:dot], part[dot+1:]))
	}
	return out.String()
}

func qualified(pkgPath, name string) string {
	// A type declared inside a function carries a number after a middle dot.
	name, _, _ = strings.Cut(name, "·")
	pkg := pkgPath[strings.LastIndex(pkgPath, "/")+1:]
	if pkgPath == framePath || strings.HasPrefix(strings.ToLower(name), pkg) {
		return capital(name)
	}
	return capital(pkg) + capital(name)
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// notNil is a digit that the nil UUID does not have. Inside the program the nil
// UUID means "not set", so no caller may send it.
const notNil = "[1-9A-Fa-f]"

func refuseNil(s *huma.Schema) *huma.Schema {
	s.Pattern, s.PatternDescription = notNil, "an id; the nil UUID names nothing"
	s.PrecomputeMessages()
	return s
}

// uuidText stands in the contract for every typed id.
type uuidText struct{}

func (uuidText) Schema(huma.Registry) *huma.Schema {
	return refuseNil(&huma.Schema{
		Type: huma.TypeString, Format: "uuid", Examples: []any{"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c"},
	})
}

var idPath = reflect.TypeFor[id.Org]().PkgPath()

// nameIDs registers the typed ids of operations as UUIDs, because package id
// knows nothing of contracts.
func (a *API) nameIDs(types ...reflect.Type) {
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		if t.PkgPath() == idPath && t.Kind() == reflect.Array {
			a.OpenAPI().Components.Schemas.RegisterTypeAlias(t, reflect.TypeFor[uuidText]())
			return
		}
		switch t.Kind() { //nolint:exhaustive // the other kinds contain no types
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(t.Elem())
		case reflect.Map:
			walk(t.Key())
			walk(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				walk(t.Field(i).Type)
			}
		}
	}
	for _, t := range types {
		walk(t)
	}
}
