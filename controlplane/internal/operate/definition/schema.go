package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
)

const (
	dialect   = "https://json-schema.org/draft/2020-12/schema"
	schemaURL = "https://schemas.invalid/inputs"
	// MaxInputs is how large the inputs of a run may be.
	MaxInputs = 64 << 10
)

// Bounds that schemas must keep to.
const (
	maxSchemaDepth = 8
	maxText        = 64 << 10
	maxItems       = 1000
	maxPattern     = 500
)

// keywords are those that a schema of inputs may use. The list is closed: a word
// that is spelled wrong would otherwise bound nothing.
var keywords = []string{
	"$comment", "$defs", "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "const", "default",
	"dependentRequired", "description", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "items",
	"maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum",
	"multipleOf", "not", "oneOf", "pattern", "properties", "required", "title", "type", "uniqueItems",
}

// own are the formats that we add to those of the standard.
var own = map[string]*regexp.Regexp{
	"abs-path":       regexp.MustCompile(`^(?:/[A-Za-z0-9_@%+=:,.-]*[A-Za-z0-9_@%+=:,-][A-Za-z0-9_@%+=:,.-]*)+$`),
	"unit-name":      regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9:_.@\\-]{0,200}\.(?:service|socket|timer|target|mount|path)$`),
	"deb-name":       regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{1,100}$`),
	"deb-version":    regexp.MustCompile(`^(?:[0-9]{1,9}:)?[0-9][A-Za-z0-9.+~-]{0,100}$`),
	"oci-digest-ref": regexp.MustCompile(`^[a-z0-9.-]+(?::[0-9]{1,5})?(?:/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}$`),
}

var standardFormats = []string{
	"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "semver", "time", "uri", "uuid",
}

// nowhere refuses to load anything: a schema stands for itself.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside the document: a schema refers to its own $defs only", url)
}

// compile makes a schema that inputs can be checked with.
func compile(schema json.RawMessage, pointer string) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(nowhere{})
	for name, form := range own {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error {
			if text, is := v.(string); is && !form.MatchString(text) {
				return errors.New("it has another form")
			}
			return nil
		}})
	}
	if err := c.AddResource(schemaURL, document); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	return c.Compile(schemaURL + pointer)
}

// CheckInputs checks the inputs of a run and fills in the defaults of the schema.
// What it answers is what Resolve takes and a run keeps.
func (d Definition) CheckInputs(given json.RawMessage) (json.RawMessage, error) {
	refuse := func(fields ...fault.Field) error {
		return fault.New(fault.Invalid, "operation_inputs_invalid", "the inputs of %s cannot be accepted: %s: %s", d.Ref(),
			fields[0].Path, fields[0].Message).WithFields(fields...).
			WithRemedy("see what it takes: gpuaas operation definition show %s", d.Ref())
	}
	if len(given) == 0 {
		given = json.RawMessage(`{}`)
	}
	if len(given) > MaxInputs {
		return nil, refuse(fault.Field{Path: "inputs", Message: fmt.Sprintf("must have %d bytes at most", MaxInputs)})
	}
	canonical, err := agentwire.Canonical(given)
	if err != nil {
		return nil, refuse(fault.Field{Path: "inputs", Message: err.Error()})
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(canonical, &members); err != nil || members == nil {
		return nil, refuse(fault.Field{Path: "inputs", Message: "must be an object"})
	}
	var root node
	if err := json.Unmarshal(d.Inputs, &root); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", d.Ref(), err)
	}
	for name, property := range root.Properties {
		if _, there := members[name]; !there && property.Default != nil {
			members[name] = property.Default
		}
	}
	full, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("encode inputs: %w", err)
	}
	if canonical, err = agentwire.Canonical(full); err != nil {
		return nil, refuse(fault.Field{Path: "inputs", Message: err.Error()})
	}
	schema, err := compile(d.Inputs, "")
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s: %w", d.Ref(), err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(canonical)))
	if err != nil {
		return nil, fmt.Errorf("decode inputs: %w", err)
	}
	if fields := violations("inputs", schema.Validate(value)); len(fields) > 0 {
		return nil, refuse(fields...)
	}
	return canonical, nil
}

var english = message.NewPrinter(language.English)

// violations says what a schema refuses, each at its place.
func violations(at string, err error) []fault.Field {
	if err == nil {
		return nil
	}
	var wrong *jsonschema.ValidationError
	if !errors.As(err, &wrong) {
		return []fault.Field{{Path: at, Message: err.Error()}}
	}
	var fields []fault.Field
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 || len(fields) >= 20 {
			return
		}
		path := strings.Join(append([]string{at}, e.InstanceLocation...), ".")
		switch k := e.ErrorKind.(type) {
		case *kind.Required:
			for _, name := range k.Missing {
				fields = append(fields, fault.Field{Path: path + "." + name, Message: "is missing"})
			}
		case *kind.AdditionalProperties:
			for _, name := range k.Properties {
				fields = append(fields, fault.Field{Path: path + "." + name, Message: "there is no such input"})
			}
		default:
			fields = append(fields, fault.Field{Path: path, Message: e.ErrorKind.LocalizedString(english)})
		}
	}
	walk(wrong)
	slices.SortFunc(fields, func(a, b fault.Field) int { return strings.Compare(a.Path+a.Message, b.Path+b.Message) })
	return fields
}

// node is what lint reads of a schema.
type node struct {
	Schema     string            `json:"$schema"`
	Ref        string            `json:"$ref"`
	Type       json.RawMessage   `json:"type"`
	Format     string            `json:"format"`
	Pattern    string            `json:"pattern"`
	Enum       []json.RawMessage `json:"enum"`
	Const      json.RawMessage   `json:"const"`
	Default    json.RawMessage   `json:"default"`
	MaxLength  *int64            `json:"maxLength"`
	MaxItems   *int64            `json:"maxItems"`
	MaxProps   *int64            `json:"maxProperties"`
	Properties map[string]*node  `json:"properties"`
	Required   []string          `json:"required"`
	Items      *node             `json:"items"`
	Additional json.RawMessage   `json:"additionalProperties"`
	Defs       map[string]*node  `json:"$defs"`
	OneOf      []*node           `json:"oneOf"`
	AnyOf      []*node           `json:"anyOf"`
	AllOf      []*node           `json:"allOf"`
	Not        *node             `json:"not"`

	names []string // of everything that was written
}

// UnmarshalJSON reads a schema, which must be an object.
func (n *node) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return errors.New("a schema must be an object: write its type and its bounds")
	}
	type fields node
	if err := json.Unmarshal(raw, (*fields)(n)); err != nil {
		return err
	}
	n.names = sortedNames(members)
	return nil
}

// kindOf is the one type of a schema; empty: it may be of several.
func (n *node) kindOf() string {
	var name string
	if json.Unmarshal(n.Type, &name) != nil {
		return ""
	}
	return name
}

func (n *node) bounded() bool { return n.Ref != "" || n.Enum != nil || n.Const != nil }

// at finds the schema of what a reference names; nil: there is none. sure says that
// the value is there in all inputs that the schema accepts.
func (n *node) at(path []string) (found *node, sure bool) {
	sure = true
	for i, name := range path {
		if n.Ref != "" || len(n.OneOf)+len(n.AnyOf)+len(n.AllOf) > 0 {
			return &node{}, false
		}
		switch n.kindOf() {
		case "object":
			property := n.Properties[name]
			if property == nil {
				return nil, false
			}
			sure = sure && (slices.Contains(n.Required, name) || i == 0 && property.Default != nil)
			n = property
		case "array":
			if _, err := strconv.ParseUint(name, 10, 16); err != nil || n.Items == nil {
				return nil, false
			}
			n, sure = n.Items, false
		default:
			return nil, false
		}
	}
	return n, sure
}
