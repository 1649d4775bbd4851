package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "Zoë 東京": "Zoë 東京", "\x1b[2J": `\x1b[2J`, "a\nb\tc\r": `a\nb\tc\r`, "\u009b31m": `\u009b31m`,
		"\u202egnp": `\u202egnp`,
		"\x7f":      `\x7f`, "bad\xff": "bad\ufffd", "a\u200bb": `a\u200bb`,
	} {
		if got := Harmless(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzHarmless(f *testing.F) {
	f.Add("\x1b]0;title\x07")
	f.Add("plain\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Harmless(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got,
			func(r rune) bool { return unicode.Is(unicode.C, r) || r == '\u2028' }) {
			t.Errorf("%q became %q", s, got)
		}
		if Harmless(got) != got {
			t.Errorf("%q is changed again", got)
		}
	})
}

// What is printed as JSON or YAML means what the API said, whatever that was.
func FuzzPrint(f *testing.F) {
	for _, seed := range []string{
		`{"a":"yes","b":"1","c":null,"d":[],"e":{},"f":1.50,"g":12345678901234567890,"h":"a\nb","i":"\u001b[2J","j":"\u009b","k":"~","l":true}`,
		`[{"b":" x ","a":"# c"},"- y","2026-01-02",""]`, `"é\u2028"`, `{"x":{"y":["multi\nline\n",{"z":"\t"}]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want any
		if !utf8.ValidString(text) || json.Unmarshal([]byte(text), &want) != nil || !plainNumbers(text) {
			return
		}
		var asJSON, asLine, asYAML bytes.Buffer
		for _, err := range []error{
			Print(&asJSON, JSON, json.RawMessage(text)), PrintLine(&asLine, JSON, json.RawMessage(text)),
			Print(&asYAML, YAML, json.RawMessage(text)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, printed := range []string{asJSON.String(), asLine.String()} {
			var got any
			if err := json.Unmarshal([]byte(printed), &got); err != nil || !cmp.Equal(want, got) {
				t.Errorf("%s became %s: %v", text, printed, err)
			}
		}
		if strings.ContainsAny(asJSON.String()+asYAML.String(), "\x1b\x7f\u009b\u0080") {
			t.Errorf("%q has a control character", asYAML.String())
		}
		var got any
		if err := yaml.Unmarshal(asYAML.Bytes(), &got); err != nil {
			if strings.Contains(err.Error(), "already defined") {
				return // JSON lets a key stand twice; the API does not
			}
			t.Errorf("%s became %s: %v", text, asYAML.String(), err)
			return
		}
		again, err := json.Marshal(got)
		if err != nil {
			return // YAML knows numbers that JSON does not
		}
		var back any
		if err := json.Unmarshal(again, &back); err != nil || !cmp.Equal(want, back) {
			t.Errorf("%s became %s, which is %s", text, asYAML.String(), again)
		}
	})
}

// plainNumbers keeps the comparison away from numbers that a float64 cannot hold.
func plainNumbers(text string) bool {
	return !strings.ContainsAny(text, "eE") || !strings.ContainsAny(text, "0123456789")
}

func TestYAMLKeepsOrderAndDigits(t *testing.T) {
	var b bytes.Buffer
	if err := Print(&b, YAML, json.RawMessage(`{"z":12345678901234567890,"a":"no","m":1.50}`)); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != "z: 12345678901234567890\na: \"no\"\nm: 1.50\n" {
		t.Error(got)
	}
}
