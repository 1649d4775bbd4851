package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
)

// MaxSource is how large the document of a definition may be.
const MaxSource = 256 << 10

var (
	typeForm    = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}(?:\.[a-z][a-z0-9_]{0,30}){1,4}$`)
	versionForm = regexp.MustCompile(`^v[1-9][0-9]{0,5}$`)
)

// Problem is one thing that is wrong with a document, and where.
type Problem struct {
	Path    string // such as steps.0.with.path; empty: the document as a whole
	Message string
}

// Problems is everything that is wrong with a document.
type Problems []Problem

func (p *Problems) add(path, format string, args ...any) {
	*p = append(*p, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// fault is the refusal of a document; nil: there are no problems.
func (p Problems) fault() error {
	if len(p) == 0 {
		return nil
	}
	fields := make([]fault.Field, len(p))
	for i, one := range p {
		fields[i] = fault.Field{Path: one.Path, Message: one.Message}
	}
	where := ""
	if p[0].Path != "" {
		where = p[0].Path + ": "
	}
	return fault.New(fault.Invalid, "operation_definition_invalid", "the definition cannot be accepted: %s%s", where,
		p[0].Message).WithFields(fields...).WithRemedy("fix what is named and try it: gpuaas operation definition validate -f FILE")
}

// Parse reads a document as YAML or JSON and checks it as a whole. The definition is
// complete: what the document leaves out has its default.
func Parse(source string) (Definition, error) {
	d, problems := checked(source)
	return d, problems.fault()
}

// checked reads a document and names everything that is wrong with it.
func checked(source string) (Definition, Problems) {
	d, problems, read := parse(source)
	if !read {
		return d, problems
	}
	for _, one := range Lint(d) {
		if !slices.ContainsFunc(problems, one.follows) {
			problems = append(problems, one)
		}
	}
	return d, problems
}

// follows reports whether a problem is there because of another one: a value of the wrong
// type is not there for whoever looks at it later.
func (p Problem) follows(from Problem) bool {
	return p.Path == from.Path || strings.HasPrefix(p.Path, from.Path+".")
}

// parse reads a document. If it could be read, what is wrong with its form is left out of
// the definition, and the rest can be looked at.
func parse(source string) (d Definition, problems Problems, read bool) {
	raw, err := toJSON(source)
	if err != nil {
		problems.add("", "%v", err)
		return d, problems, false
	}
	var document any
	if err := decodeNumbers(raw, &document); err != nil {
		problems.add("", "%v", err)
		return d, problems, false
	}
	if _, object := document.(map[string]any); !object {
		problems.add("", "must be an object")
		return d, problems, false
	}
	shape("", document, reflect.TypeFor[Definition](), &problems)
	if err := json.Unmarshal(raw, &d); err != nil && len(problems) == 0 { // otherwise the problems say so
		problems.add("", "%v", err)
		return d, problems, false
	}
	d.complete()
	return d, problems, true
}

// complete fills in what a document may leave out.
func (d *Definition) complete() {
	if d.Backend == "" {
		d.Backend = NodeAgent
	}
	if d.Approval == "" {
		d.Approval = NoApproval
	}
	if d.Safety.Rented == "" {
		d.Safety.Rented = RentedNone
	}
	if len(d.Inputs) == 0 {
		d.Inputs = json.RawMessage(`{"additionalProperties":false,"properties":{},"type":"object"}`)
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		if s.OnFailure == "" {
			s.OnFailure = Stop
		}
		if len(s.With) == 0 {
			s.With = json.RawMessage(`{}`)
		}
		if s.Retry != nil && s.Retry.Classes == nil {
			s.Retry.Classes = []string{transient}
		}
	}
}

// transient is the only class of failures that a node tries again by itself.
const transient = agentwire.FailureTransient

// toJSON reads a document and writes it as canonical JSON.
func toJSON(source string) ([]byte, error) {
	if len(source) > MaxSource {
		return nil, fmt.Errorf("the document has %d bytes, more than %d", len(source), MaxSource)
	}
	if strings.HasPrefix(strings.TrimSpace(source), "{") && json.Valid([]byte(source)) {
		canonical, err := agentwire.Canonical([]byte(source))
		if err != nil {
			return nil, fmt.Errorf("the JSON cannot be used: %w", err)
		}
		return canonical, nil
	}
	d := yaml.NewDecoder(strings.NewReader(source))
	var root, more yaml.Node
	if err := d.Decode(&root); errors.Is(err, io.EOF) {
		return nil, errors.New("the document is empty")
	} else if err != nil {
		return nil, fmt.Errorf("this is neither YAML nor JSON: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document: one file holds one version")
	}
	if len(root.Content) != 1 {
		return nil, errors.New("the document is empty")
	}
	value, err := plain(root.Content[0], 0)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	canonical, err := agentwire.Canonical(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the document cannot be used: %w", err)
	}
	return canonical, nil
}

// plain is the value of a YAML node. It takes only what JSON can say, too: what
// YAML alone can say means different things to different readers.
func plain(n *yaml.Node, depth int) (any, error) {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("line %d: %s", n.Line, fmt.Sprintf(format, args...))
	}
	if depth > 32 {
		return nil, refuse("nested deeper than 32")
	}
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return nil, refuse("anchors and aliases are not accepted: write the value out")
	}
	switch n.Kind {
	case yaml.MappingNode:
		return plainObject(n, depth, refuse)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := plain(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.ScalarNode:
		return plainScalar(n, refuse)
	default:
		return nil, refuse("this is no value")
	}
}

func plainObject(n *yaml.Node, depth int, refuse func(string, ...any) error) (any, error) {
	members := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if name.Kind != yaml.ScalarNode || name.ShortTag() == "!!merge" {
			return nil, refuse("a name must be a plain text")
		}
		if _, twice := members[name.Value]; twice {
			return nil, fmt.Errorf("line %d: the name %q occurs twice", name.Line, name.Value)
		}
		v, err := plain(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		members[name.Value] = v
	}
	return members, nil
}

var decimal = regexp.MustCompile(`^(?:0|-?[1-9][0-9]{0,15})$`)

func plainScalar(n *yaml.Node, refuse func(string, ...any) error) (any, error) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!bool":
		v, err := strconv.ParseBool(strings.ToLower(n.Value))
		if err != nil {
			return nil, refuse("%q is neither true nor false", n.Value)
		}
		return v, nil
	case "!!int":
		if !decimal.MatchString(n.Value) {
			return nil, refuse("%s is read as a number by some and as a text by others: write a text in quotation marks, "+
				"a number without leading zeros, signs and underscores", n.Value)
		}
		return json.Number(n.Value), nil
	case "!!null":
		return nil, refuse("there is a name without a value: leave it out")
	case "!!float":
		return nil, refuse("%s is no whole number; write a text in quotation marks", n.Value)
	default:
		return nil, refuse("the tag %s is not accepted", n.ShortTag())
	}
}

func decodeNumbers(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

var (
	rawType      = reflect.TypeFor[json.RawMessage]()
	acceptedType = reflect.TypeFor[Accepted]()
)

// shape compares a document with the type that it is for and names every field that
// the type does not have, and every value of another type.
func shape(at string, value any, t reflect.Type, problems *Problems) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	expected := ""
	switch v := value.(type) {
	case nil:
		problems.add(at, "null is no value: leave it out")
		return
	case map[string]any:
		expected = shapeObject(at, v, t, problems)
	case []any:
		expected = shapeList(at, v, t, problems)
	case string:
		if t != rawType && t != acceptedType && t.Kind() != reflect.String {
			expected = called(t)
		}
	case bool:
		if t.Kind() != reflect.Bool {
			expected = called(t)
		}
	case json.Number:
		if t.Kind() != reflect.Int && t.Kind() != reflect.Int64 {
			expected = called(t)
		} else if n, err := v.Int64(); err != nil || t.Kind() == reflect.Int && (n > 1<<31-1 || n < 0) {
			problems.add(at, "%s is out of range", v)
		}
	}
	if expected != "" {
		problems.add(at, "must be %s", expected)
	}
}

func shapeObject(at string, v map[string]any, t reflect.Type, problems *Problems) string {
	switch {
	case t == rawType:
		return ""
	case t.Kind() == reflect.Map:
		for _, name := range sortedNames(v) {
			shape(below(at, name), v[name], t.Elem(), problems)
		}
		return ""
	case t.Kind() != reflect.Struct:
		return called(t)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
	}
	for _, name := range sortedNames(v) {
		field, known := fields[name]
		if !known {
			problems.add(below(at, name), "there is no field of this name here; there are %s",
				strings.Join(sortedNames(fields), ", "))
			continue
		}
		shape(below(at, name), v[name], field, problems)
	}
	return ""
}

func shapeList(at string, v []any, t reflect.Type, problems *Problems) string {
	if t == rawType || t.Kind() != reflect.Slice {
		return called(t)
	}
	for i, item := range v {
		shape(below(at, strconv.Itoa(i)), item, t.Elem(), problems)
	}
	return ""
}

// called is what people call a type.
func called(t reflect.Type) string {
	switch t {
	case rawType:
		return "an object"
	case acceptedType:
		return "a text or a list of texts"
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}

func below(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func contains(list []string, one string) bool { return slices.Contains(list, one) }
