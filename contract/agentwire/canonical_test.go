package agentwire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// The vectors of RFC 8785 and of its author's test suite, if their numbers are
// integers.
func TestCanonicalVectors(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"RFC 3.2.2, strings and literals": {
			`{"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		"RFC 3.2.3, order by UTF-16": {
			`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
			  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}`,
			`{"\r":"Carriage Return","1":"One","` + "\u0080" +
				`":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign",` +
				`"😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`,
		},
		"arrays": {`[ 56, { "d": true, "10": null, "1": [ ] } ]`, `[56,{"1":[],"10":null,"d":true}]`},
		"french": {
			`{"peach": "This sorting order", "péché": "is wrong according to French", "pêche": "but canonicalization MUST", "sin": "ignore locale"}`,
			`{"peach":"This sorting order","péché":"is wrong according to French","pêche":"but canonicalization MUST","sin":"ignore locale"}`,
		},
		"structures": {
			`{"1": {"f": {"f": "hi", "F": 5}, "\n": 56}, "10": {}, "": "empty", "a": {}, "111": [{"e": "yes", "E": "no"}], "A": {}}`,
			`{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}`,
		},
		"unicode": {`{"Unnormalized Unicode":"A\u030a"}`, `{"Unnormalized Unicode":"A` + "\u030a" + `"}`},
		"weird": {
			`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\u000a": "Newline", "1": "One", "\u0080": "Control\u007f", "\ud83d\ude02": "Smiley",
			  "\u00f6": "Latin Small Letter O With Diaeresis", "\ufb33": "Hebrew Letter Dalet With Dagesh", "</script>": "Browser Challenge"}`,
			`{"\n":"Newline","\r":"Carriage Return","1":"One","</script>":"Browser Challenge","` + "\u0080" + `":"Control` +
				"\u007f" +
				`","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😂":"Smiley","` + "\ufb33" +
				`":"Hebrew Letter Dalet With Dagesh"}`,
		},
		"every control character": {
			`"\u0000\u0001\u0007\u0008\u0009\u000a\u000b\u000c\u000d\u000e\u001f"`,
			`"\u0000\u0001\u0007\b\t\n\u000b\f\r\u000e\u001f"`,
		},
		"a backslash before a u": {`"\\ud800"`, `"\\ud800"`},
		"line separators stay":   {`"\u2028\u2029"`, "\"\u2028\u2029\""},
		"integers": {
			`[0,-0,7,-7,9007199254740991,-9007199254740991]`,
			`[0,0,7,-7,9007199254740991,-9007199254740991]`,
		},
		"a value that is no object": {` true `, `true`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := agentwire.Canonical([]byte(c.in))
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestCanonicalRefusesWhatCanBeReadInTwoWays(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":                       ``,
		"two values":                    `{} {}`,
		"rubbish behind":                `{}]`,
		"a fraction":                    `[1.5]`,
		"an integer with a fraction":    `[56.0]`,
		"an exponent":                   `[1e3]`,
		"beyond 2^53":                   `[9007199254740992]`,
		"beyond 64 bits":                `[99999999999999999999]`,
		"a leading zero":                `[01]`,
		"a name twice":                  `{"a":1,"a":2}`,
		"a name twice, one escaped":     `{"a":1,"\u0061":2}`,
		"the first half of a pair":      `"\ud83d"`,
		"the second half of a pair":     `"\ude00"`,
		"a pair the wrong way round":    `"\ude00\ud83d"`,
		"half a pair, then text":        `"\ud83dxxxxxx"`,
		"half a pair as a name":         `{"\ud800":1}`,
		"not UTF-8":                     "\"\xff\"",
		"a control character":           "\"\x01\"",
		"a comma too many":              `[1,]`,
		"a comma too many in an object": `{"a":1,}`,
		"brackets that do not match":    `[1}`,
		"no value":                      `{"a":}`,
		"a name that is no string":      `{1:2}`,
		"not closed":                    `{"a":[1`,
		"nested too deep":               strings.Repeat("[", 40) + strings.Repeat("]", 40),
		"nested far too deep":           strings.Repeat("[", 1<<20),
	} {
		if got, err := agentwire.Canonical([]byte(in)); err == nil {
			t.Errorf("%s: taken as %s", name, got)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,-0,{"\u20ac":"x\n"}],"a":null}`, `"\ud83d\ude00"`, `"\ud83d"`, `[[[]]]`, `{"a":1,"A":2,"":true}`,
		`9007199254740991`, "\"\u2028\"", `{"a":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := agentwire.Canonical(in)
		if err != nil {
			return
		}
		twice, err := agentwire.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("not stable: %q, then %q (%v)", once, twice, err)
		}
		var before, after any
		if err := json.Unmarshal(in, &before); err != nil {
			t.Fatalf("accepted what is not JSON: %q: %v", in, err)
		}
		if err := json.Unmarshal(once, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("the meaning changed: %q to %q (%v)", in, once, err)
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	document := fmt.Appendf(nil, `{"username":"alice","authorized_keys":[%q],"uid":20001,"sudo":false}`, "ssh-ed25519 "+
		strings.Repeat("A", 68))
	for b.Loop() {
		if _, err := agentwire.Canonical(document); err != nil {
			b.Fatal(err)
		}
	}
}
