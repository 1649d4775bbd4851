package definition

import (
	"encoding/json"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// What is accepted has a canonical form that is accepted again and means the same.
func FuzzDocument(f *testing.F) {
	f.Add(sound)
	f.Add(`{"type":"a.b","version":"v1"}`)
	f.Add("a: &x [*x]")
	f.Add("steps:\n- {id: a, kind: file.render, with: {path: ${inputs.x}}}")
	f.Fuzz(func(t *testing.T, source string) {
		d, err := Parse(source)
		if err != nil {
			return
		}
		once, err := d.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(string(once))
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice, err := again.Canonical(); err != nil || string(twice) != string(once) {
			t.Fatalf("%s\n%s", once, twice)
		}
		for _, s := range again.Steps {
			if _, known := agentwire.LookupStep(s.Kind); !known {
				t.Fatalf("the kind %q was accepted", s.Kind)
			}
		}
	})
}

// Inputs that are accepted can be resolved, and every text that a caller gave reaches
// the node as these characters.
func FuzzInputs(f *testing.F) {
	d, err := Parse(sound)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"port":80}`)
	f.Add(`{"port":80,"name":"${steps.conf.path}","note":"$${x"}`)
	f.Add(`{"port":80,"name":"a\u0000b"}`)
	f.Fuzz(func(t *testing.T, given string) {
		inputs, err := d.CheckInputs(json.RawMessage(given))
		if err != nil {
			return
		}
		if same, err := agentwire.Canonical(inputs); err != nil || string(same) != string(inputs) {
			t.Fatalf("%s is not canonical", inputs)
		}
		steps, err := d.Resolve(inputs, Target{NodeName: "n", Facts: map[string]string{"gpu.vendor": "nvidia"}})
		if err != nil {
			t.Fatalf("%s: %v", inputs, err)
		}
		var want, got struct {
			Name   string
			Values struct{ Name string }
		}
		if err := json.Unmarshal(inputs, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(steps[0].With, &got); err != nil {
			t.Fatal(err)
		}
		if unescape(got.Values.Name) != want.Name {
			t.Fatalf("%q arrived as %q", want.Name, got.Values.Name)
		}
	})
}

func FuzzReference(f *testing.F) {
	f.Add("${inputs.port|8080}", "${steps.a.b}")
	f.Add("$${x}", "a${")
	f.Add("$$${", `"`)
	f.Fuzz(func(t *testing.T, written, given string) {
		if r, is, err := agentwire.ParseReference(written); is && err == nil {
			if again, _, err := agentwire.ParseReference(r.String()); err != nil || again.String() != r.String() {
				t.Fatalf("%q reads as %s, which reads as %s, %v", written, r, again, err)
			}
		}
		raw, err := json.Marshal(given)
		if err != nil {
			return
		}
		var meant, sent string
		escaped, err := agentwire.Escape(raw)
		if err != nil {
			return // not every string has a canonical form
		}
		if json.Unmarshal(raw, &meant) != nil || json.Unmarshal(escaped, &sent) != nil || unescape(sent) != meant {
			t.Fatalf("%q was escaped as %q", meant, sent)
		}
		if _, is, err := agentwire.ParseReference(sent); is || err != nil {
			t.Fatalf("%q is read as a reference: %v", sent, err)
		}
	})
}

func unescape(s string) string { return strings.ReplaceAll(s, "$${", "${") }
