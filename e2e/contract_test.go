package e2e

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// operation is one operation of the committed contract.
type operation struct {
	ID          string      `yaml:"operationId"`
	Access      string      `yaml:"x-gpuaas-access"`
	Parameters  []parameter `yaml:"parameters"`
	RequestBody *struct {
		Content map[string]struct {
			Schema schema `yaml:"schema"`
		} `yaml:"content"`
	} `yaml:"requestBody"`
	method, path string
}

type parameter struct {
	Name     string `yaml:"name"`
	In       string `yaml:"in"`
	Required bool   `yaml:"required"`
	Schema   schema `yaml:"schema"`
}

type schema struct {
	Ref        string            `yaml:"$ref"`
	Text       string            `yaml:"description"`
	Type       kind              `yaml:"type"`
	Format     string            `yaml:"format"`
	Enum       []any             `yaml:"enum"`
	Examples   []any             `yaml:"examples"`
	Pattern    string            `yaml:"pattern"`
	MinLength  int               `yaml:"minLength"`
	MaxLength  int               `yaml:"maxLength"`
	Minimum    *float64          `yaml:"minimum"`
	Maximum    *float64          `yaml:"maximum"`
	Items      *schema           `yaml:"items"`
	Required   []string          `yaml:"required"`
	Properties map[string]schema `yaml:"properties"`
}

// kind is the type of a value, which may also be null.
type kind struct {
	name string
	null bool
}

// UnmarshalYAML reads a name or a list of names.
func (k *kind) UnmarshalYAML(node *yaml.Node) error {
	names := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		names = node.Content
	}
	for _, n := range names {
		if n.Value == "null" {
			k.null = true
			continue
		}
		k.name = n.Value
	}
	return nil
}

// resolved follows references, as deep as a body goes.
func (s schema) resolved(named map[string]schema, depth int) schema {
	if s.Ref != "" {
		s = named[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	if depth == 0 {
		return s
	}
	properties := map[string]schema{}
	for name, p := range s.Properties {
		properties[name] = p.resolved(named, depth-1)
	}
	s.Properties = properties
	return s
}

// operations reads the contract; bodies come with their schemas resolved.
func operations(t *testing.T) []operation {
	t.Helper()
	text, err := os.ReadFile("../contract/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var contract struct {
		Paths      map[string]map[string]operation `yaml:"paths"`
		Components struct {
			Schemas map[string]schema `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(text, &contract); err != nil {
		t.Fatalf("read the contract: %v", err)
	}
	var out []operation
	for _, path := range slices.Sorted(maps.Keys(contract.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(contract.Paths[path])) {
			o := contract.Paths[path][method]
			o.method, o.path = strings.ToUpper(method), path
			if o.RequestBody != nil {
				body := o.RequestBody.Content["application/json"]
				body.Schema = body.Schema.resolved(contract.Components.Schemas, 4)
				o.RequestBody.Content["application/json"] = body
			}
			out = append(out, o)
		}
	}
	if len(out) < 30 {
		t.Fatalf("the contract has only %d operations: it was not read right", len(out))
	}
	return out
}

// body is the schema of what the operation takes; false when it takes nothing.
func (o operation) body() (schema, bool) {
	if o.RequestBody == nil {
		return schema{}, false
	}
	return o.RequestBody.Content["application/json"].Schema, true
}

func (o operation) mutates() bool { return o.method != "GET" }

func (o operation) has(in, name string) bool {
	return slices.ContainsFunc(o.Parameters, func(p parameter) bool { return p.In == in && p.Name == name })
}

// sample is a value that the schema accepts.
func (s schema) sample() any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.Examples) > 0:
		return s.Examples[0]
	}
	switch s.Type.name {
	case "object":
		out := map[string]any{}
		for name, p := range s.Properties {
			if !strings.HasPrefix(p.Text, "Only with ") { // the first of a list of modes would not go with it
				out[name] = p.sample()
			}
		}
		return out
	case "integer", "number":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	case "boolean":
		return false
	case "array":
		return []any{}
	}
	return strings.Repeat("a", max(s.MinLength, 3))
}
