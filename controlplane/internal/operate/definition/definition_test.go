package definition

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
)

// sound is a definition without problems; tests break it.
const sound = `
type: web.prepare
version: v1
title: Prepare a web server
risk: medium
risk_text: The server restarts.
targets: [node]
requires: {gpu.vendor: nvidia}
safety: {rented: none}
max_duration_seconds: 600
inputs:
  type: object
  additionalProperties: false
  required: [port]
  properties:
    port: {type: integer, minimum: 1, maximum: 65535}
    name: {type: string, maxLength: 64, default: web}
    note: {type: string, maxLength: 64}
steps:
  - id: conf
    kind: file.render
    timeout_seconds: 30
    with:
      path: /etc/web/web.conf
      format: ini
      template: "port = {{port}}\nname = {{name}}\nvendor = {{vendor}}\nnote = {{note}}\nnode = {{node}}\n"
      values:
        port: ${inputs.port}
        name: ${inputs.name}
        note: ${inputs.note|"none"}
        vendor: ${target.facts.gpu.vendor}
        node: ${target.node_name}
  - id: look
    kind: health.check
    timeout_seconds: 60
    retry: {attempts: 3, backoff_seconds: 5}
    with:
      probes:
        - {kind: file, path: "${steps.conf.path}"}
`

func TestASoundDefinitionIsReadWhole(t *testing.T) {
	d, err := Parse(sound)
	if err != nil {
		t.Fatal(fields(err))
	}
	if d.Backend != NodeAgent || d.Approval != NoApproval || d.Steps[0].OnFailure != Stop ||
		d.Steps[1].Retry.Classes[0] != transient || d.Requires["gpu.vendor"][0] != "nvidia" {
		t.Errorf("what was left out is not filled in: %+v", d)
	}
	if d.Impact() != Mutate {
		t.Errorf("impact is %s", d.Impact())
	}
	once, err := d.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(string(once))
	if err != nil {
		t.Fatalf("its own JSON is refused: %v", fields(err))
	}
	if twice, _ := again.Canonical(); string(twice) != string(once) {
		t.Errorf("the canonical form is not stable:\n%s\n%s", once, twice)
	}
}

func fields(err error) string {
	var f *fault.Error
	if !errors.As(err, &f) {
		return "no fault: " + err.Error()
	}
	var lines []string
	for _, field := range f.Fields {
		lines = append(lines, field.Path+": "+field.Message)
	}
	return strings.Join(lines, "\n")
}

// A field that does not exist, or has a value of another type, hides nothing else that is
// wrong, and what is wrong is said once.
func TestEveryProblemIsNamedBesideAnUnknownField(t *testing.T) {
	text := sound
	for old, with := range map[string]string{
		"risk: medium": "risk: medium\nrisky: yes", "kind: file.render": "kind: shell.run",
		"max_duration_seconds: 600": "max_duration_seconds: soon",
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("the sound definition has no %q", old)
		}
		text = strings.Replace(text, old, with, 1)
	}
	_, err := Parse(text)
	got := fields(err)
	for _, want := range []string{
		"risky: there is no field", "steps.0.kind: ", "max_duration_seconds: must be a whole number",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not named once in:\n%s", want, got)
		}
	}
	if strings.Count(got, "max_duration_seconds: ") != 1 {
		t.Errorf("one problem is named twice:\n%s", got)
	}
}

// Each row breaks the sound definition in one way and names the path and a word of
// the complaint.
func TestLintNamesThePathOfEveryProblem(t *testing.T) {
	for _, row := range []struct{ name, old, new, path, says string }{
		{"unknown kind", "kind: file.render", "kind: shell.run", "steps.0.kind", "no kind of step"},
		{"unknown field of a step", "kind: file.render", "kind: file.render\n    when: always", "steps.0.when", "no field"},
		{"unknown field", "risk: medium", "risk: medium\nrisky: yes", "risky", "no field"},
		{
			"wrong type of a field", "max_duration_seconds: 600", "max_duration_seconds: soon", "max_duration_seconds",
			"whole number",
		},
		{"unknown input", "${inputs.port}", "${inputs.porto}", "steps.0.with.values.port", "does not have"},
		{"input that may be absent", `${inputs.note|"none"}`, "${inputs.note}", "steps.0.with.values.note", "may have no value"},
		{"input nobody uses", `${inputs.note|"none"}`, "x", "inputs.properties.note", "no step refers"},
		{"fact that may be absent", "requires: {gpu.vendor: nvidia}", "", "steps.0.with.values.vendor", "may not report"},
		{"unknown name of a target", "${target.node_name}", "${target.ip}", "steps.0.with.values.node", "refers to nothing"},
		{
			"step that does not exist", "${steps.conf.path}", "${steps.other.path}", "steps.1.with.probes",
			"does not come before",
		},
		{"step itself", "${steps.conf.path}", "${steps.look.path}", "steps.1.with.probes", "does not come before"},
		{"piece of a string", "${inputs.name}", "a-${inputs.name}", "steps.0.with", "whole value"},
		{"two steps of one id", "id: look", "id: conf", "steps.1.id", "another step"},
		{
			"timeout above the whole", "timeout_seconds: 60\n", "timeout_seconds: 601\n", "steps.1.timeout_seconds",
			"max_duration",
		},
		{
			"class that is not repeated", "attempts: 3,", "attempts: 3, classes: [ambiguous],", "steps.1.retry.classes.0",
			"transient",
		},
		{"string without bound", "{type: string, maxLength: 64}", "{type: string}", "inputs.properties.note", "maxLength"},
		{"number", "type: integer", "type: number", "inputs.properties.port.type", "integer"},
		{"keyword spelled wrong", "maximum: 65535", "maxiumum: 65535", "inputs.properties.port.maxiumum", "no such keyword"},
		{"open object", "additionalProperties: false", "additionalProperties: true", "inputs", "additionalProperties"},
		{"default of the wrong type", "default: web", "default: 7", "inputs.properties.name.default", "got number"},
		{
			"reference outside", "{type: integer, minimum: 1, maximum: 65535}", "{$ref: 'https://example.com/x'}",
			"inputs.properties.port.$ref", "outside",
		},
		{
			"secret input", "{type: string, maxLength: 64}", "{type: string, maxLength: 64, writeOnly: true}",
			"inputs.properties.note.writeOnly", "secret",
		},
		{
			"secret format", "{type: string, maxLength: 64}", "{type: string, maxLength: 64, format: password}",
			"inputs.properties.note.format", "secret",
		},
		{
			"unknown format", "{type: string, maxLength: 64}", "{type: string, maxLength: 64, format: path}",
			"inputs.properties.note.format", "no format",
		},
		{
			"pattern that is open", "{type: string, maxLength: 64}", "{type: string, maxLength: 64, pattern: 'a+'}",
			"inputs.properties.note.pattern", "begin with ^",
		},
		{
			"pattern of open choices", "{type: string, maxLength: 64}", "{type: string, maxLength: 64, pattern: '^a|b$'}",
			"inputs.properties.note.pattern", "begin with ^",
		},
		{
			"pattern that backtracks", "{type: string, maxLength: 64}", "{type: string, maxLength: 64, pattern: '^(?=a)$'}",
			"inputs.properties.note.pattern", "RE2",
		},
		{
			"array without bound", "{type: string, maxLength: 64}", "{type: array, items: {type: integer}}",
			"inputs.properties.note", "maxItems",
		},
		{"rented by anybody though it changes", "rented: none", "rented: any", "safety.rented", "changes nothing"},
		{"allocation of nobody", "targets: [node]", "targets: [allocation]", "safety.rented", "allocation"},
		{"idle and rented", "{rented: none}", "{rented: project, idle_only: true}", "safety.rented", "idle_only"},
		{"unknown role", "risk: medium", "risk: medium\napproval: root", "approval", "one of"},
		{"unknown risk", "risk: medium", "risk: tiny", "risk", "one of"},
		{"version without v", "version: v1", "version: '1'", "version", "v1"},
		{"type of one word", "type: web.prepare", "type: web", "type", "dots"},
		{"no risk in words", "risk_text: The server restarts.", "", "risk_text", "must be there"},
		{"target twice", "targets: [node]", "targets: [node, node]", "targets.1", "twice"},
		{
			"repository with a scheme", "risk: medium", "risk: medium\nartifacts: {repositories: ['https://a/b']}",
			"artifacts.repositories.0", "host",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if strings.Count(sound, row.old) == 0 {
				t.Fatalf("the sound definition has no %q", row.old)
			}
			_, err := Parse(strings.Replace(sound, row.old, row.new, 1))
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, line := range strings.Split(fields(err), "\n") {
				if strings.HasPrefix(line, row.path) && strings.Contains(line, row.says) {
					return
				}
			}
			t.Errorf("want %s: …%s…, got\n%s", row.path, row.says, fields(err))
		})
	}
}

// What YAML alone can say means different things to different readers.
func TestYAMLIsReadAsJSONWouldBe(t *testing.T) {
	for _, row := range []struct{ source, says string }{
		{"a: &x 1\nb: *x", "anchors"},
		{"a: 0644", "leading zeros"},
		{"a: 1.5", "whole number"},
		{"a: 1\na: 2", "twice"},
		{"a: !!binary aGk=", "tag"},
		{"a: 1\n---\nb: 2", "more than one document"},
		{"", "empty"},
		{"a: ~", "without a value"},
		{"a: [", "neither YAML nor JSON"},
		{"<<: {a: 1}", "plain text"},
		{"a: 99999999999999999999", "whole number"},
		{"{\"a\": 1, \"a\": 2}", "twice"},
		{"{\"a\": 1.5}", "not an integer"},
		{strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested deeper"},
		{strings.Repeat("a", MaxSource+1), "more than"},
	} {
		if _, err := toJSON(row.source); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%.40q: %v, want …%s…", row.source, err, row.says)
		}
	}
	got, err := toJSON("a: yes\nb: 2024-01-01\nc: [1, true, \"0644\", 'x']\nd: |\n  line\n")
	if err != nil || string(got) != `{"a":"yes","b":"2024-01-01","c":[1,true,"0644","x"],"d":"line\n"}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestInputsAreCheckedAndCompleted(t *testing.T) {
	d, err := Parse(sound)
	if err != nil {
		t.Fatal(fields(err))
	}
	got, err := d.CheckInputs(json.RawMessage(`{"port": 8080}`))
	if err != nil || string(got) != `{"name":"web","port":8080}` {
		t.Errorf("got %s, %v", got, err)
	}
	for given, want := range map[string]string{
		``:                        "inputs.port: is missing",
		`{"port":0}`:              "inputs.port: ",
		`{"port":"80"}`:           "inputs.port: ",
		`{"port":80.5}`:           "inputs: ",
		`{"port":80,"x":1}`:       "inputs.x: there is no such input",
		`{"port":80,"port":81}`:   "inputs: ",
		`[]`:                      "inputs: must be an object",
		`null`:                    "inputs: must be an object",
		`{"port":80,"name":null}`: "inputs.name: ",
		`{"port":80,"name":"` + strings.Repeat("x", 65) + `"}`: "inputs.name: ",
	} {
		if _, err := d.CheckInputs(json.RawMessage(given)); err == nil || !strings.Contains(fields(err), want) {
			t.Errorf("%.40s: %v, want %s", given, err, want)
		}
	}
}

func TestResolveFillsInputsAndFacts(t *testing.T) {
	d, err := Parse(sound)
	if err != nil {
		t.Fatal(fields(err))
	}
	inputs, err := d.CheckInputs(json.RawMessage(`{"port":80,"name":"${steps.conf.sha256}"}`))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Resolve(inputs, Target{NodeName: "n1", Facts: map[string]string{"gpu.vendor": "nvidia"}})
	if err != nil {
		t.Fatal(err)
	}
	var conf struct{ Values map[string]any }
	if err := json.Unmarshal(steps[0].With, &conf); err != nil {
		t.Fatal(err)
	}
	if conf.Values["port"] != 80.0 || conf.Values["note"] != "none" || conf.Values["vendor"] != "nvidia" ||
		conf.Values["node"] != "n1" || conf.Values["name"] != "$${steps.conf.sha256}" {
		t.Errorf("resolved to %v", conf.Values)
	}
	if !strings.Contains(string(steps[1].With), "${steps.conf.path}") || steps[1].Attempts != 3 || steps[0].Attempts != 1 {
		t.Errorf("the second step is %+v", steps[1])
	}
	_, err = d.Resolve(inputs, Target{NodeName: "n2"})
	if err == nil || !strings.Contains(fields(err), "steps.0.with") {
		t.Errorf("a node without the fact: %v", err)
	}
	if lacks := d.Fits(map[string]string{"gpu.vendor": "amd"}); len(lacks) != 1 ||
		lacks[0].String() != "gpu.vendor must be nvidia, and the node has amd" {
		t.Errorf("lacks: %v", lacks)
	}
}

func TestDiffComparesStepsByTheirID(t *testing.T) {
	changes, err := Diff(json.RawMessage(`{"steps":[{"id":"a","n":1},{"id":"b","n":2}],"title":"x","gone":true}`),
		json.RawMessage(`{"steps":[{"id":"c","n":3},{"id":"a","n":1},{"id":"b","n":5}],"title":"y"}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, c.Path+" "+string(c.From)+" > "+string(c.To))
	}
	want := `gone true > |steps.b.n 2 > 5|steps.c  > {"id":"c","n":3}|title "x" > "y"`
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
	moved, err := Diff(json.RawMessage(`[{"id":"a"},{"id":"b"}]`), json.RawMessage(`[{"id":"b"},{"id":"a"}]`))
	if err != nil || len(moved) != 1 || moved[0].Path != " (order)" {
		t.Errorf("another order: %v, %v", moved, err)
	}
}

func TestTheLifecycleHolds(t *testing.T) {
	if err := Lifecycle.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, e := range Lifecycle.Edges {
		if e.From != Draft && e.To == Draft || e.To == Active && e.From != Draft {
			t.Errorf("%s leads from %s to %s: what was active never becomes something else again", e.Event, e.From, e.To)
		}
	}
}

func TestWhatIsShippedIsSound(t *testing.T) {
	all, err := BuiltIns()
	if err != nil {
		t.Fatal(err, fields(errors.Unwrap(err)))
	}
	if len(all) == 0 {
		t.Error("nothing is shipped")
	}
}

// What the how-to shows must be accepted as it stands there.
func TestTheDefinitionOfTheHowToIsSound(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/how-to/define-an-operation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```yaml\n")
	source, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatal("the page shows no definition")
	}
	if _, err := Parse(source); err != nil {
		t.Error(fields(err))
	}
}

// A hostile definition, by mistake or not, gets neither a shell nor a program that its
// inputs choose.
func TestAHostileDefinitionIsRefused(t *testing.T) {
	const step = `
  - id: look
    kind: health.check`
	command := func(profile, with string) string {
		return strings.Replace(strings.Replace(sound, "steps:\n", "commands:\n  - "+profile+"\nsteps:\n", 1), step,
			"\n  - id: run\n    kind: command.exec_allowlisted\n    timeout_seconds: 30\n    with: "+with+step, 1)
	}
	ok := `{id: sync, command: /usr/bin/chronyc, base_args: [makestep], timeout_seconds: 30}`
	if _, err := Parse(command(ok, "{profile: sync}")); err != nil {
		t.Fatalf("a harmless command is refused: %s", fields(err))
	}
	for name, source := range map[string]string{
		"a shell":                   command(`{id: sync, command: /bin/sh, base_args: [-c, id], timeout_seconds: 30}`, "{profile: sync}"),
		"a program of the inputs":   command(`{id: sync, command: "${inputs.name}", timeout_seconds: 30}`, "{profile: sync}"),
		"an argument of the inputs": command(`{id: sync, command: /usr/bin/chronyc, base_args: ["${inputs.name}"], timeout_seconds: 30}`, "{profile: sync}"),
		"a profile of its own":      command(ok, "{profile: {id: x, command: /usr/bin/chronyc, timeout_seconds: 30}}"),
		"a profile of the inputs":   command(ok, `{profile: "${inputs.name}"}`),
		"an unknown profile":        command(ok, "{profile: other}"),
		"a path outside":            strings.Replace(sound, "path: /etc/web/web.conf", "path: /usr/local/bin/anything", 1),
		"a way up":                  strings.Replace(sound, "path: /etc/web/web.conf", "path: /etc/web/../shadow", 1),
	} {
		if _, err := Parse(source); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	d, err := Parse(strings.Replace(sound, "path: /etc/web/web.conf", "path: ${inputs.name}", 1))
	if err != nil {
		t.Fatal(fields(err))
	}
	inputs, err := d.CheckInputs(json.RawMessage(`{"port":80,"name":"/etc/shadow"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Resolve(inputs, Target{NodeName: "n", Facts: map[string]string{"gpu.vendor": "nvidia"}}); err == nil {
		t.Error("an input chose a file that decides who has power over the machine")
	}
}
