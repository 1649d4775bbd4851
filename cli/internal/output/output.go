package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The formats.
const (
	Table = "table"
	Wide  = "wide" // a table with more columns
	JSON  = "json"
	YAML  = "yaml"
)

// Formats are the ways to print.
func Formats() []string { return []string{Table, Wide, JSON, YAML} }

// Object is one object of the API: as it came, and as this program understands it.
type Object[T any] struct {
	Raw   json.RawMessage
	Value T
}

// Decode understands an object of the API.
func Decode[T any](raw json.RawMessage) (Object[T], error) {
	o := Object[T]{Raw: raw}
	if err := json.Unmarshal(raw, &o.Value); err != nil {
		return o, fmt.Errorf("understand the answer of the control plane: %w", err)
	}
	return o, nil
}

// DecodeAll understands the objects of a list.
func DecodeAll[T any](raws []json.RawMessage) ([]Object[T], error) {
	out := make([]Object[T], 0, len(raws))
	for _, raw := range raws {
		o, err := Decode[T](raw)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// Print prints JSON of the API unchanged in meaning and in the order of its fields.
func Print(w io.Writer, format string, raw json.RawMessage) error {
	if format == YAML {
		return printYAML(w, raw)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("indent JSON: %w", err)
	}
	return Write(w, HarmlessJSON(b.String())+"\n")
}

// PrintLine prints JSON on one line, or as one YAML document of several.
func PrintLine(w io.Writer, format string, raw json.RawMessage) error {
	if format == YAML {
		if err := Write(w, "---\n"); err != nil {
			return err
		}
		return printYAML(w, raw)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("compact JSON: %w", err)
	}
	return Write(w, HarmlessJSON(b.String())+"\n")
}

func printYAML(w io.Writer, raw json.RawMessage) error {
	node, err := yamlNode(json.NewDecoder(bytes.NewReader(raw)))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return fmt.Errorf("encode YAML: %w", err)
	}
	if err := enc.Close(); err != nil {
		return fmt.Errorf("encode YAML: %w", err)
	}
	return Write(w, b.String())
}

// yamlNode reads one JSON value. It goes by tokens because a map would lose the order of
// fields and a float64 the digits of large numbers.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	dec.UseNumber()
	token, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		return yamlCollection(dec, t)
	case string:
		n := &yaml.Node{}
		n.SetString(t)
		if slices.Contains(oldBooleans(), strings.ToLower(t)) {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: t.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(t)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// oldBooleans are words that readers of YAML 1.1 take for true or false.
func oldBooleans() []string { return []string{"y", "n", "yes", "no", "on", "off"} }

func yamlCollection(dec *json.Decoder, open json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	if open == '[' {
		n.Kind = yaml.SequenceNode
	}
	for dec.More() { // in a mapping, keys and values take turns
		child, err := yamlNode(dec)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return n, nil
}

// Array puts objects together as the list they came from.
func Array(raws []json.RawMessage) json.RawMessage {
	return append(append([]byte{'['}, bytes.Join(asBytes(raws), []byte{','})...), ']')
}

func asBytes(raws []json.RawMessage) [][]byte {
	out := make([][]byte, len(raws))
	for i, r := range raws {
		out[i] = r
	}
	return out
}

// ErrOutput says that what was to be printed could not be: a pipe was closed, a disk is full.
var ErrOutput = errors.New("the output could not be written")

// Write writes text, and says when that went wrong.
func Write(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	return nil
}
