package rego_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/operate/policy/internal/rego"
)

const header = "package gpuaas.operations\n"

// anything is the schema of an input that may have any name.
const anything = `{"type":"object"}`

// plenty is more than any evaluation of these tests needs on a busy machine.
const plenty = time.Minute

func compile(t *testing.T, source string) *rego.Policy {
	t.Helper()
	p, err := rego.Compile(header+source, anything)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestADocumentSaysWhy(t *testing.T) {
	p := compile(t, `
deny contains "no runs on Fridays" if {
	time.weekday(time.parse_rfc3339_ns(input.request.at)) == "Friday"
}
deny contains msg if {
	input.request.targets > 10
	msg := sprintf("%d nodes are too many for %s", [input.request.targets, input.request.type])
}`)
	for _, row := range []struct {
		at      string
		targets int
		want    []string
	}{
		{"2026-11-18T09:00:00Z", 1, []string{}},
		{"2026-11-20T09:00:00Z", 1, []string{"no runs on Fridays"}},
		{"2026-11-20T09:00:00Z", 11, []string{"11 nodes are too many for a.b", "no runs on Fridays"}},
	} {
		got, err := p.Evaluate(t.Context(), map[string]any{"request": map[string]any{
			"at": row.at, "targets": row.targets, "type": "a.b",
		}}, plenty)
		if err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%+v: %v, %v", row, got, err)
		}
	}
}

func TestWhatIsNoPolicyIsRefusedWithItsLine(t *testing.T) {
	for name, row := range map[string]struct {
		source, says string
		line         int
	}{
		"nothing":          {"", "empty", 0},
		"another package":  {"package other\ndeny contains \"no\" if true", "the package must be gpuaas.operations", 1},
		"no such rule":     {header + "allow if true", "it has no rule", 0},
		"one value":        {header + "deny := \"no\"", "it has no rule", 0},
		"syntax":           {header + "deny contains \"no\" if {", "", 2},
		"an older syntax":  {header + "deny[x] { x := \"no\" }", "", 2},
		"unknown function": {header + "deny contains x if { x := shell(\"ls\") }", "undefined function shell", 2},
		"unsafe variable":  {header + "deny contains x if { input.request.targets > 1 }", "unsafe", 2},
		"recursion":        {header + "deny contains x if { some x in deny }", "recursive", 2},
		"unused variable":  {header + "deny contains \"no\" if { x := 1 }", "unused", 2},
	} {
		_, err := rego.Compile(row.source, anything)
		var p rego.ProblemsError
		if !errors.As(err, &p) || len(p) == 0 || !strings.Contains(p.Error(), row.says) ||
			row.line > 0 && p[0].Line != row.line {
			t.Errorf("%s: %v %+v", name, err, p)
		}
	}
}

// Nothing that reaches out of the evaluation, depends on the moment or draws a random
// number can be written.
func TestADocumentReachesNothing(t *testing.T) {
	for _, call := range []string{
		`http.send({"method": "get", "url": "http://127.0.0.1/"})`, `opa.runtime()`, `net.lookup_ip_addr("example.com")`,
		`net.cidr_expand("10.0.0.0/8")`, `time.now_ns()`, `rand.intn("a", 5)`, `uuid.rfc4122("a")`,
		`io.jwt.decode("a.b.c")`, `crypto.sha256("a")`, `providers.aws.sign_req({}, {}, 0)`,
		`rego.parse_module("a", "package a")`, `units.parse_bytes("10000000000e100000000EiB")`, `trace("a")`,
		`strings.render_template("{{.a}}", {"a": 1})`, `graphql.parse_query("{a}")`, `json.match_schema({}, {})`,
		`yaml.unmarshal("a: 1")`, `bits.lsh(1, 1000000000)`,
	} {
		if _, err := rego.Compile(header+"deny contains \"no\" if { _ := "+call+" }", anything); err == nil ||
			!strings.Contains(err.Error(), "undefined function") {
			t.Errorf("%s: %v", call, err)
		}
	}
	// What was replaced by "with" is no way round either, and nothing is in data.
	_, err := rego.Compile(header+`deny contains "no" if { count([1]) == 1 with count as http.send }`, anything)
	if err == nil {
		t.Error("a function that is not there took the place of another")
	}
	p := compile(t, "import data.secrets\ndeny contains \"there is data\" if { secrets.x }\n"+
		"deny contains \"no env\" if { input.env.HOME }")
	if got, err := p.Evaluate(t.Context(), map[string]any{}, plenty); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAnEvaluationThatDoesNotEndIsGivenUp(t *testing.T) {
	p := compile(t, `
deny contains "never" if {
	some a in numbers.range(1, 100000)
	some b in numbers.range(1, 100000)
	some c in numbers.range(1, 100000)
	a + b + c == -1
}`)
	if got, err := p.Evaluate(t.Context(), map[string]any{}, 50*time.Millisecond); !errors.Is(err, rego.ErrTime) {
		t.Errorf("%v, %v", got, err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if got, err := p.Evaluate(gone, map[string]any{}, plenty); !errors.Is(err, context.Canceled) &&
		!errors.Is(err, rego.ErrBusy) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestWhatADocumentAnswersMustBeReasons(t *testing.T) {
	for name, row := range map[string]struct{ source, says string }{
		"a number":          {`deny contains 1 if true`, "no text"},
		"an empty text":     {`deny contains "  " if true`, "no text"},
		"a broken function": {`deny contains "no" if { to_number(input.text) > 1 }`, "evaluate"},
	} {
		got, err := compile(t, row.source).Evaluate(t.Context(), map[string]any{"text": "x"}, plenty)
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	many := compile(t, `deny contains msg if { some i in numbers.range(1, 30); msg := sprintf("%02d", [i]) }
deny contains concat("", ["z", input.long]) if true`)
	got, err := many.Evaluate(t.Context(), map[string]any{"long": strings.Repeat("x", 1000)}, plenty)
	if err != nil || len(got) != 21 || got[20] != "and 11 more" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestManyEvaluateAtOnce(t *testing.T) {
	p := compile(t, `deny contains msg if { msg := sprintf("n%d", [input.n]) }`)
	results := make(chan error, 200)
	for n := range cap(results) {
		go func() {
			got, err := p.Evaluate(t.Context(), map[string]any{"n": n}, plenty)
			if err == nil && len(got) != 1 {
				err = errors.New("no reason")
			}
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(header + "deny contains \"no\" if { input.request.targets > 1 }")
	f.Add(header + "deny contains x if { some x in input.a }")
	f.Fuzz(func(t *testing.T, source string) {
		p, err := rego.Compile(source, anything)
		if err != nil {
			return
		}
		_, _ = p.Evaluate(t.Context(), map[string]any{"request": map[string]any{"targets": 2}}, time.Second)
	})
}

func TestANameThatTheInputDoesNotHaveIsRefused(t *testing.T) {
	schema := `{"type":"object","additionalProperties":false,"properties":{"request":{"type":"object",
		"additionalProperties":false,"properties":{"targets":{"type":"number"}}}}}`
	if _, err := rego.Compile(header+"deny contains \"no\" if { input.request.targets > 1 }", schema); err != nil {
		t.Error(err)
	}
	for _, condition := range []string{
		"input.request.target > 1", "input.requests.targets > 1", "input.request.targets.x", `input.request["target"] > 1`,
		"startswith(input.request.targets, \"a\")",
	} {
		if _, err := rego.Compile(header+"deny contains \"no\" if { "+condition+" }", schema); err == nil {
			t.Errorf("%s is accepted", condition)
		}
	}
}
