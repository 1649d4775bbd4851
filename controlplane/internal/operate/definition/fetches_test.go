package definition

import (
	"encoding/json"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
)

const fetching = `
type: model.stage
version: v1
title: Stage a model
risk: low
risk_text: It takes space.
targets: [node]
safety: {rented: none}
artifacts: {repositories: [models.example/team]}
max_duration_seconds: 600
inputs:
  type: object
  additionalProperties: false
  required: [url]
  properties:
    url: {type: string, maxLength: 400}
steps:
  - id: look
    kind: artifact.verify
    timeout_seconds: 30
    with: {path: /srv/a, sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
  - id: fetch
    kind: artifact.pull_blob
    timeout_seconds: 30
    with:
      url: ${inputs.url}
      mirrors: ["https://models.example/team/mirror"]
      sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
      bytes: 7
      path: /srv/b
`

// What a run fetches is known before it begins, and lies where the definition says.
func TestWhatIsFetchedIsKnownBefore(t *testing.T) {
	d, err := Parse(fetching)
	if err != nil {
		t.Fatal(fields(err))
	}
	for url, code := range map[string]string{
		"https://models.example/team/a":       "",
		"http://models.example/team/a":        "",
		"https://models.example/team":         "",
		"https://models.example/teammate/a":   "operation_source_outside",
		"https://models.example:99/team/a":    "operation_source_outside",
		"https://evil.example/team/a":         "operation_source_outside",
		"https://models.example/team/../evil": "operation_unresolvable",
		"https://models.example@evil.example": "operation_unresolvable",
		"file:///etc/shadow":                  "operation_unresolvable",
	} {
		inputs, err := json.Marshal(map[string]string{"url": url})
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Fetches(inputs)
		if code == "" && (err != nil || len(got) != 2 || got[0].Source != url || got[0].Bytes != 7) ||
			code != "" && fault.CodeOf(err) != code {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
}

// A repository of artifacts is named as people name it.
func TestAnArtifactComesFromTheRepositoriesOfTheDefinition(t *testing.T) {
	reference := "models.example/team/llm@sha256:" + strings.Repeat("0", 64)
	source := strings.Replace(fetching, "kind: artifact.pull_blob", "kind: artifact.pull_oci", 1)
	at := strings.Index(source, "      url: ${inputs.url}")
	source = source[:at] + "      reference: ${inputs.url}\n      bytes: 7\n      path: /srv/b\n"
	for repository, code := range map[string]string{
		"models.example/team": "", "models.example/team/llm": "", "models.example/team/ll": "operation_source_outside",
	} {
		d, err := Parse(strings.Replace(source, "models.example/team", repository, 1))
		if err != nil {
			t.Fatal(fields(err))
		}
		got, err := d.Fetches(json.RawMessage(`{"url":"` + reference + `"}`))
		if code != "" && fault.CodeOf(err) != code || code == "" && (err != nil || got[0].Source != "https://"+reference) {
			t.Errorf("%s: %+v, %v", repository, got, err)
		}
	}
}

// Neither the node nor another step decides what is fetched: policies are asked before
// either is known.
func TestWhatIsFetchedDependsOnInputsOnly(t *testing.T) {
	for _, c := range []struct{ old, new, path string }{
		{"${inputs.url}", "${target.node_name}", "steps.1.with.url"},
		{"${inputs.url}", "${steps.look.path}", "steps.1.with.url"},
		{`["https://models.example/team/mirror"]`, `["${steps.look.path}"]`, "steps.1.with.mirrors.0"},
		{"bytes: 7", "bytes: ${steps.look.bytes}", "steps.1.with.bytes"},
		{
			`      sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`,
			`      sha256: ${steps.look.sha256}`, "steps.1.with.sha256",
		},
	} {
		_, err := Parse(strings.Replace(fetching, c.old, c.new, 1))
		if err == nil || !strings.Contains(fields(err), c.path+": ${") || !strings.Contains(fields(err), "only inputs") {
			t.Errorf("%s: %s", c.new, fields(err))
		}
	}
	_, err := Parse(strings.Replace(fetching, "team]}", "team], signature_required: true}", 1))
	if err == nil || !strings.Contains(fields(err), "artifacts.signature_required: the step fetch") {
		t.Error(fields(err))
	}
}
