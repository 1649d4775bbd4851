package agentwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxDepth   = 32
	maxInteger = 1<<53 - 1
)

// Canonical brings a JSON document into the one form of RFC 8785 that is
// signed. It accepts less than JSON: no fractions or exponents, no integers
// beyond 2^53, no repeated names, no deep nesting, so that no two readers can
// understand one signed document differently.
func Canonical(document []byte) ([]byte, error) {
	if !utf8.Valid(document) {
		return nil, errors.New("not valid UTF-8")
	}
	if err := wholeCharacters(document); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var out bytes.Buffer
	if err := canonicalValue(d, &out, 0); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return out.Bytes(), nil
}

// wholeCharacters refuses escapes of half a character, because decoders replace
// them differently. A backslash occurs only inside strings.
func wholeCharacters(document []byte) error {
	for i := 0; i < len(document); i++ {
		if document[i] != '\\' {
			continue
		}
		first, escaped := codeUnit(document[i:])
		switch {
		case !escaped:
			i++ // another escape, of one character
		case !utf16.IsSurrogate(first):
			i += 5
		default:
			second, _ := codeUnit(document[i+6:])
			if utf16.DecodeRune(first, second) == utf8.RuneError {
				return fmt.Errorf("escape %s is half a character", document[i:i+6])
			}
			i += 11
		}
	}
	return nil
}

// codeUnit reads an escape of the form \uXXXX.
func codeUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}

func canonicalValue(d *json.Decoder, out *bytes.Buffer, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return canonicalObject(d, out, depth)
		}
		return canonicalArray(d, out, depth)
	case string:
		canonicalString(out, v)
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		if err != nil || n > maxInteger || n < -maxInteger {
			return fmt.Errorf("number %s is not an integer within ±2^53", v)
		}
		out.WriteString(strconv.FormatInt(n, 10))
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case nil:
		out.WriteString("null")
	}
	return nil
}

func canonicalArray(d *json.Decoder, out *bytes.Buffer, depth int) error {
	out.WriteByte('[')
	for first := true; d.More(); first = false {
		if !first {
			out.WriteByte(',')
		}
		if err := canonicalValue(d, out, depth+1); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	return closing(d)
}

func canonicalObject(d *json.Decoder, out *bytes.Buffer, depth int) error {
	members := map[string][]byte{}
	var names []string
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		name, _ := token.(string)
		if _, twice := members[name]; twice {
			return fmt.Errorf("name %q occurs twice", name)
		}
		var value bytes.Buffer
		if err := canonicalValue(d, &value, depth+1); err != nil {
			return err
		}
		members[name] = value.Bytes()
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	out.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		canonicalString(out, name)
		out.WriteByte(':')
		out.Write(members[name])
	}
	out.WriteByte('}')
	return closing(d)
}

func closing(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	return nil
}

var escapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\b", `\b`, "\t", `\t`, "\n", `\n`, "\f", `\f`, "\r", `\r`)

func canonicalString(out *bytes.Buffer, s string) {
	out.WriteByte('"')
	for _, r := range escapes.Replace(s) {
		if r < 0x20 {
			fmt.Fprintf(out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	out.WriteByte('"')
}
