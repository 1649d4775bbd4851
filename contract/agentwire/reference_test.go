package agentwire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

func TestReferencesFillWholeValues(t *testing.T) {
	for text, want := range map[string]string{
		"${inputs.port}":                 `inputs [port] `,
		"${inputs.port|8080}":            `inputs [port] 8080`,
		`${inputs.name|"a|b}c"}`:         `inputs [name] "a|b}c"`,
		"${target.facts.gpu.vendor}":     `target [facts gpu vendor] `,
		"${steps.fetch-it.files.0.path}": `steps [fetch-it files 0 path] `,
	} {
		r, is, err := agentwire.ParseReference(text)
		if err != nil || !is {
			t.Errorf("%s: is %v, %v", text, is, err)
			continue
		}
		got := r.Root + " [" + strings.Join(r.Path, " ") + "] " + string(r.Default)
		if got != want || r.String() != text {
			t.Errorf("%s is %q (%s), want %q", text, got, r, want)
		}
	}
	for _, text := range []string{
		"${}", "${inputs}", "${inputs.}", "${env.HOME}", "${inputs.a", "a ${inputs.b}", "${inputs.a}${inputs.b}", "${inputs.a} b",
		"${inputs.a|}", "${inputs.a|text}", "${inputs.a|[1]}", "${inputs.a|1.5}", "${inputs.a |1}", "$ ${", "${inputs..a}",
		"${ inputs.a }", "${inputs.a|${inputs.b}}",
	} {
		if r, _, err := agentwire.ParseReference(text); err == nil {
			t.Errorf("%q was accepted as %v", text, r)
		}
	}
	for _, text := range []string{"", "plain", "$${inputs.a}", "cost: 5 $", "{{name}}", "a $${b} and $${c}", "$$${x"} {
		if _, is, err := agentwire.ParseReference(text); is || err != nil {
			t.Errorf("%q: is %v, %v", text, is, err)
		}
	}
}

// A tenant's input that looks like a reference must reach the step as the text that
// it is: filled in by the control plane, it is not a reference to the node.
func TestWhatACallerGaveIsNeverAReference(t *testing.T) {
	for _, evil := range []string{"${steps.mint.token}", "$${steps.mint.token}", "a${b", "$$${", "${", "$"} {
		given, _ := json.Marshal(evil)
		with := json.RawMessage(`{"text":"${inputs.x}","own":"$${literal}","kept":"${steps.one.path}"}`)
		sent, err := agentwire.FillInputs(with, func(agentwire.Reference) (json.RawMessage, error) { return given, nil })
		if err != nil {
			t.Fatal(err)
		}
		done, err := agentwire.FillSteps(sent, func(r agentwire.Reference) (json.RawMessage, error) {
			if r.String() != "${steps.one.path}" {
				t.Errorf("%q made the node look up %s", evil, r)
			}
			return json.RawMessage(`"${steps.two.path}"`), nil
		})
		if err != nil {
			t.Fatalf("%q: %v", evil, err)
		}
		var got struct{ Text, Own, Kept string }
		if err := json.Unmarshal(done, &got); err != nil {
			t.Fatal(err)
		}
		if got.Text != evil || got.Own != "${literal}" || got.Kept != "${steps.two.path}" {
			t.Errorf("%q arrived as %+v", evil, got)
		}
	}
}

func TestMissingValuesTakeTheDefaultOrAreNamed(t *testing.T) {
	nothing := func(agentwire.Reference) (json.RawMessage, error) { return nil, nil }
	got, err := agentwire.FillInputs(json.RawMessage(`{"port":"${inputs.port|8080}"}`), nothing)
	if err != nil || string(got) != `{"port":8080}` {
		t.Errorf("with a default: %s, %v", got, err)
	}
	_, err = agentwire.FillInputs(json.RawMessage(`{"a":[{"port":"${inputs.port}"}]}`), nothing)
	if err == nil || !strings.Contains(err.Error(), "a[0].port: ${inputs.port} has no value") {
		t.Errorf("without a default: %v", err)
	}
	if _, err := agentwire.FillSteps(json.RawMessage(`{"a":"${inputs.x}"}`), nothing); err == nil {
		t.Error("a node filled in an input")
	}
}

func TestFollowFindsItemsByTheirOneSpelling(t *testing.T) {
	document := json.RawMessage(`{"a":[{"b":1},{"b":[true]}]}`)
	for path, want := range map[string]string{
		"a.0.b": "1", "a.1.b.0": "true", "a.2": "", "a.01": "", "a.-1": "", "b": "", "a.0.b.c": "",
		"a.99999999999999999999": "",
	} {
		got, err := agentwire.Follow(document, strings.Split(path, "."))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
}

func FuzzReferences(f *testing.F) {
	f.Add("${inputs.port|8080}", "${steps.a.b}")
	f.Add("$${x}", "a${")
	f.Add("$$${", `"`)
	f.Fuzz(func(t *testing.T, written, given string) {
		r, is, err := agentwire.ParseReference(written)
		if is && err == nil {
			again, _, err := agentwire.ParseReference(r.String())
			if err != nil || again.String() != r.String() {
				t.Fatalf("%q reads as %s, which reads as %s, %v", written, r, again, err)
			}
		}
		value, err := json.Marshal(given)
		if err != nil {
			return
		}
		find := func(agentwire.Reference) (json.RawMessage, error) { return value, nil }
		sent, err := agentwire.FillInputs(json.RawMessage(`"${inputs.x}"`), find)
		if err != nil {
			return // not every string has a canonical form
		}
		done, err := agentwire.FillSteps(sent, func(r agentwire.Reference) (json.RawMessage, error) {
			t.Fatalf("an input was read as the reference %s", r)
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var got, want string
		if json.Unmarshal(done, &got) != nil || json.Unmarshal(value, &want) != nil || got != want {
			t.Fatalf("%q arrived as %q", want, got)
		}
	})
}
