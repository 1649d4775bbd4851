package definition

import (
	"encoding/json"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var inputForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// lintSchema checks the schema of the inputs and answers its root; nil: it cannot be
// read.
func lintSchema(schema json.RawMessage, problems *Problems) *node {
	var root node
	if err := json.Unmarshal(schema, &root); err != nil {
		problems.add("inputs", "%v", err)
		return nil
	}
	before := len(*problems)
	if root.Schema != "" && root.Schema != dialect {
		problems.add("inputs.$schema", "must be %s", dialect)
	}
	if root.kindOf() != "object" || string(root.Additional) != "false" {
		problems.add("inputs", "must have type: object and additionalProperties: false")
	}
	root.lint("inputs", 0, problems)
	for _, name := range sortedNames(root.Properties) {
		if !inputForm.MatchString(name) {
			problems.add("inputs.properties."+name, "an input is called by a lower-case letter, then lower-case letters, digits and _")
		}
	}
	if len(*problems) > before {
		return &root
	}
	if _, err := compile(schema, ""); err != nil {
		problems.add("inputs", "%s", strings.ReplaceAll(err.Error(), schemaURL, "inputs"))
		return &root
	}
	for _, name := range sortedNames(root.Properties) {
		lintDefault(schema, name, root.Properties[name], problems)
	}
	return &root
}

// lintDefault tries the default of an input on its own schema.
func lintDefault(schema json.RawMessage, name string, property *node, problems *Problems) {
	if property.Default == nil {
		return
	}
	own, err := compile(schema, "#/properties/"+name)
	if err != nil {
		problems.add("inputs.properties."+name, "%v", err)
		return
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(property.Default)))
	if err != nil {
		problems.add("inputs.properties."+name+".default", "%v", err)
		return
	}
	for _, f := range violations("inputs.properties."+name+".default", own.Validate(value)) {
		problems.add(f.Path, "%s", f.Message)
	}
}

func (n *node) lint(at string, depth int, problems *Problems) {
	if depth > maxSchemaDepth {
		problems.add(at, "is nested deeper than %d", maxSchemaDepth)
		return
	}
	for _, name := range n.names {
		switch {
		case name == "writeOnly" || strings.HasPrefix(name, "x-") && strings.Contains(name, "secret"):
			problems.add(at+"."+name, "a secret cannot be an input: a step of the kind credential.mint gets one on the node")
		case !slices.Contains(keywords, name):
			problems.add(at+"."+name, "there is no such keyword; there are %s", strings.Join(keywords, ", "))
		case depth > 0 && (name == "$schema" || name == "$defs"):
			problems.add(at+"."+name, "belongs at the top of the schema")
		}
	}
	n.lintFormat(at, problems)
	n.lintType(at, problems)
	for _, name := range sortedNames(n.Properties) {
		n.Properties[name].lint(at+".properties."+name, depth+1, problems)
	}
	for _, name := range sortedNames(n.Defs) {
		n.Defs[name].lint(at+".$defs."+name, depth+1, problems)
	}
	if n.Items != nil {
		n.Items.lint(at+".items", depth+1, problems)
	}
	for word, list := range map[string][]*node{"oneOf": n.OneOf, "anyOf": n.AnyOf, "allOf": n.AllOf} {
		for i, one := range list {
			one.lint(at+"."+word+"."+strconv.Itoa(i), depth+1, problems)
		}
	}
	if n.Not != nil {
		n.Not.lint(at+".not", depth+1, problems)
	}
}

func (n *node) lintFormat(at string, problems *Problems) {
	if n.Ref != "" && !strings.HasPrefix(n.Ref, "#/$defs/") {
		problems.add(at+".$ref", "must begin with #/$defs/: a schema refers to nothing outside")
	}
	if n.Format == "password" {
		problems.add(at+".format", "a secret cannot be an input: a step of the kind credential.mint gets one on the node")
	} else if _, ours := own[n.Format]; n.Format != "" && !ours && !slices.Contains(standardFormats, n.Format) {
		problems.add(at+".format", "there is no format %q; there are %s", n.Format,
			strings.Join(slices.Concat(sortedNames(own), standardFormats), ", "))
	}
	if n.Pattern == "" {
		return
	}
	if parsed, err := syntax.Parse(n.Pattern, syntax.Perl); err != nil || len(n.Pattern) > maxPattern {
		problems.add(at+".pattern", "must be a regular expression of RE2 with %d characters at most", maxPattern)
	} else if !anchored(parsed) {
		problems.add(at+".pattern", "must begin with ^ and end with $, with brackets around choices, such as ^(a|b)$: "+
			"otherwise it accepts every text that holds a match")
	}
}

// anchored reports whether an expression matches whole texts only.
func anchored(e *syntax.Regexp) bool {
	if e.Op == syntax.OpCapture {
		return anchored(e.Sub[0])
	}
	return e.Op == syntax.OpConcat && len(e.Sub) > 1 && e.Sub[0].Op == syntax.OpBeginText &&
		e.Sub[len(e.Sub)-1].Op == syntax.OpEndText
}

func (n *node) lintType(at string, problems *Problems) {
	if n.Type == nil {
		if !n.bounded() && len(n.OneOf)+len(n.AnyOf)+len(n.AllOf) == 0 && n.Not == nil {
			problems.add(at, "needs a type: object, array, string, integer or boolean")
		}
		return
	}
	switch n.kindOf() {
	case "string":
		if !n.bounded() && (n.MaxLength == nil || *n.MaxLength > maxText) {
			problems.add(at, "needs a maxLength of %d at most, or an enum", maxText)
		}
	case "array":
		if n.MaxItems == nil || *n.MaxItems > maxItems {
			problems.add(at, "needs a maxItems of %d at most", maxItems)
		}
		if n.Items == nil {
			problems.add(at, "needs items: what each of them is")
		}
	case "object":
		if string(n.Additional) != "false" {
			problems.add(at, "needs additionalProperties: false")
		}
	case "integer", "boolean":
	case "number":
		problems.add(at+".type", "must be integer: fractions do not travel; let a text with a pattern hold one")
	default:
		problems.add(at+".type", "must be one of object, array, string, integer, boolean")
	}
}
