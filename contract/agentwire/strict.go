package agentwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// strict reads a document that leaves no room for interpretation: it has a
// canonical form, no unknown names, and nothing after it. An absent document
// changes nothing.
func strict(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if _, err := Canonical(raw); err != nil {
		return err
	}
	var document any
	if err := json.Unmarshal(raw, &document); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if err := exact(document, reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// exact refuses names that differ in spelling from those of the type. The
// standard decoder takes "Scope" for "scope", so a document with both would
// mean one thing to it and another to everybody else.
func exact(value any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return exactObject(value, t)
	case reflect.Slice, reflect.Array:
		items, _ := value.([]any)
		for _, item := range items {
			if err := exact(item, t.Elem()); err != nil {
				return err
			}
		}
	default: // has no names inside
	}
	return nil
}

func exactObject(value any, t reflect.Type) error {
	members, ok := value.(map[string]any)
	if !ok {
		return errors.New("decode: an object was expected")
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && f.IsExported() {
			fields[name] = f.Type
		}
	}
	for name, member := range members {
		field, known := fields[name]
		if !known {
			return fmt.Errorf("decode: unknown field %q", name)
		}
		if err := exact(member, field); err != nil {
			return err
		}
	}
	return nil
}
