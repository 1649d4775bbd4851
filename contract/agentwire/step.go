package agentwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Impact is what a step does to its node.
type Impact string

// The impacts, from the least to the most.
const (
	ImpactNone    Impact = "none"    // nothing outside the task
	ImpactRead    Impact = "read"    // it looks
	ImpactMutate  Impact = "mutate"  // it changes the node
	ImpactDisrupt Impact = "disrupt" // it may end what runs on the node
)

// Changes says whether a step with this impact changes its node.
func (i Impact) Changes() bool { return i == ImpactMutate || i == ImpactDisrupt }

// StepParams are the parameters of one step: what stands under "with".
type StepParams interface {
	// Validate names what is wrong with values of the right form.
	Validate() StepProblems
}

// StepProblem is one thing that is wrong with the parameters of a step.
type StepProblem struct {
	Path    string `json:"path"` // within the parameters, such as args.0; empty: as a whole
	Message string `json:"message"`
}

// StepProblems is everything that is wrong with the parameters of a step.
type StepProblems []StepProblem //nolint:errname // a list for people, too

func (p StepProblems) Error() string {
	var all []string
	for _, one := range p {
		if one.Path == "" {
			all = append(all, one.Message)
			continue
		}
		all = append(all, one.Path+": "+one.Message)
	}
	return strings.Join(all, "; ")
}

func (p *StepProblems) add(path, format string, args ...any) {
	*p = append(*p, StepProblem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// StepKind is one thing that a node can do as a step of an operation.
type StepKind struct {
	Kind   string
	Title  string
	Impact Impact
	// Checks says in sentences what the step looks at before and after it does
	// something.
	Checks string
	// Interruptible says that a cancelled run stops in the middle of the step.
	// Others are finished first.
	Interruptible bool
	// Abstract says that the node's resolver configuration chooses the command
	// profile that carries the step out.
	Abstract bool

	// Sound holds parameters that must be accepted.
	Sound []string
	// Answer is the output that simulated agents give. If it is empty, they
	// answer {}.
	Answer string

	// chosen, if it is there, says what is wrong with a value that a reference
	// stands for, which the definition itself might have: nothing if it is empty.
	chosen func(path string, value json.RawMessage) string
	params func() StepParams
	output reflect.Type
}

var stepKinds []StepKind

// declareStep enters a kind of step into the catalog, which is sorted by kind.
// Each kind is declared in its own file, step_<name>.go.
func declareStep[P, O any, PP interface {
	*P
	StepParams
}](k StepKind) StepKind {
	k.params = func() StepParams { return PP(new(P)) }
	k.output = reflect.TypeFor[O]()
	at, taken := slices.BinarySearchFunc(stepKinds, k.Kind, func(k StepKind, name string) int {
		return strings.Compare(k.Kind, name)
	})
	if taken {
		panic("two kinds of steps are called " + k.Kind)
	}
	stepKinds = slices.Insert(stepKinds, at, k)
	return k
}

// StepKinds lists all kinds of steps.
func StepKinds() []StepKind { return slices.Clone(stepKinds) }

// LookupStep finds a kind of step.
func LookupStep(kind string) (StepKind, bool) {
	i := slices.IndexFunc(stepKinds, func(k StepKind) bool { return k.Kind == kind })
	if i < 0 {
		return StepKind{}, false
	}
	return stepKinds[i], true
}

// Placed is a reference with the place where it stands.
type Placed struct {
	Reference
	// Path is where it stands, such as values.port or args.0.
	Path string
	// Wants is the type of the value: string, integer, boolean, array, object,
	// secret, or any.
	Wants string
}

// Decode reads the parameters of a step strictly: it refuses unknown fields,
// trailing data and values out of range. References may stand for values; they
// are returned, their fields are empty, and what Validate says of those fields
// does not count. Whoever fills them in decodes again. The error is of type
// StepProblems.
func (k StepKind) Decode(with json.RawMessage) (StepParams, []Placed, error) {
	return k.decode(with, false)
}

// DecodeFilled reads parameters whose references were all filled in, so that
// fields for secrets hold handles.
func (k StepKind) DecodeFilled(with json.RawMessage) (StepParams, error) {
	p, left, err := k.decode(with, true)
	if err == nil && len(left) > 0 {
		return nil, StepProblems{{Path: left[0].Path, Message: left[0].String() + " has no value"}}
	}
	return p, err
}

func (k StepKind) decode(with json.RawMessage, filled bool) (StepParams, []Placed, error) {
	p := k.params()
	plain, placed, problems := reduce(with, reflect.TypeOf(p).Elem(), filled)
	if len(problems) > 0 {
		return nil, placed, problems
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, placed, StepProblems{{Message: wrongType(err)}}
	}
	for _, found := range p.Validate() {
		if !slices.ContainsFunc(placed, func(r Placed) bool { return related(found.Path, r.Path) }) {
			problems = append(problems, found)
		}
	}
	if len(problems) > 0 {
		return nil, placed, problems
	}
	return p, placed, nil
}

func wrongType(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("%s must be of the type %s, not %s", wrong.Field, wrong.Type, wrong.Value)
	}
	return "decode: " + err.Error()
}

// related says whether one path leads through the other.
func related(a, b string) bool {
	return a == "" || b == "" || a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// reduce takes the references out of a document and brings its texts into their
// plain form.
func reduce(with json.RawMessage, t reflect.Type, filled bool) (json.RawMessage, []Placed, StepProblems) {
	if len(with) == 0 {
		return json.RawMessage("{}"), nil, nil
	}
	v, err := parsed(with)
	if err != nil {
		return nil, nil, StepProblems{{Message: err.Error()}}
	}
	w := walk{handles: filled}
	out := w.value(v, t, "")
	if len(w.problems) > 0 {
		return nil, w.placed, w.problems
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, w.placed, StepProblems{{Message: err.Error()}}
	}
	return raw, w.placed, nil
}

// Finder finds the value of a reference. known is false if somebody else fills
// it in.
type Finder func(r Reference) (value Value, known bool, err error)

// Value is what a reference stands for.
type Value struct {
	JSON   json.RawMessage
	Secret bool // JSON is the handle of a secret, which only fields for secrets accept
}

// Fill replaces the references that find knows. A reference without a value
// becomes its default. What it puts in is escaped: a value never becomes a
// reference.
func (k StepKind) Fill(with json.RawMessage, find Finder) (json.RawMessage, error) {
	if len(with) == 0 {
		return with, nil
	}
	v, err := parsed(with)
	if err != nil {
		return nil, err
	}
	w := walk{find: find, chosen: k.chosen}
	out := w.value(v, reflect.TypeOf(k.params()).Elem(), "")
	if len(w.problems) > 0 {
		return nil, w.problems
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return Canonical(raw)
}

// Output reads the output of a step strictly.
func (k StepKind) Output(raw json.RawMessage) (any, error) {
	o := reflect.New(k.output).Interface()
	return o, strict(raw, o)
}

// OutputField says which type a field of the output has that a reference leads
// to, in the words of Placed. known is false if there is no such field.
func (k StepKind) OutputField(path []string) (kind string, known bool) {
	t := k.output
	for _, name := range path {
		if t = member(t, name); t == nil {
			return "", false
		}
	}
	return typeName(t), true
}

func member(t reflect.Type, name string) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		return fieldsOf(t)[name]
	case reflect.Map:
		return t.Elem()
	case reflect.Slice, reflect.Array:
		if _, err := strconv.ParseUint(name, 10, 16); err == nil && t.Elem().Kind() != reflect.Uint8 {
			return t.Elem()
		}
	case reflect.Interface:
		return t
	default: // has nothing inside
	}
	return nil
}

// Secret is the handle of a secret that credential.mint got on the node. The
// secret itself is in no document.
type Secret string

var (
	secretType = reflect.TypeFor[Secret]()
	rawType    = reflect.TypeFor[json.RawMessage]()
)

func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case secretType:
		return "secret"
	case rawType:
		return "any"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "integer"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	default:
		return "any"
	}
}

// parsed reads a document that has a canonical form.
func parsed(raw json.RawMessage) (any, error) {
	canonical, err := Canonical(raw)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(canonical))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return v, nil
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && f.IsExported() {
			fields[name] = f.Type
		}
	}
	return fields
}
