package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/testkit"
)

// stormDefinition is an operation of steps that can be looked at and of programs of
// which nobody can see whether they ran, so that a second run would do harm.
const stormDefinition = `
type: storm.walk
version: v1
title: Walk through a storm
risk: low
risk_text: none
targets: [node]
safety: {rented: none}
max_duration_seconds: 600
inputs:
  type: object
  additionalProperties: false
  required: [run, path]
  properties:
    run: {type: string, pattern: "^[a-z0-9-]+$", maxLength: 40}
    path: {type: string, format: abs-path, maxLength: 200}
commands:
  - id: count_first
    command: /usr/local/bin/storm-count
    base_args: [first]
    arguments: [{name: run, type: string, pattern: "[a-z0-9-]+"}]
    timeout_seconds: 120
  - id: count_second
    command: /usr/local/bin/storm-count
    base_args: [second]
    arguments: [{name: run, type: string, pattern: "[a-z0-9-]+"}]
    timeout_seconds: 120
steps:
  - {id: write, kind: file.render, timeout_seconds: 120,
     with: {path: "${inputs.path}", format: plain, template: "{{run}}\n", values: {run: "${inputs.run}"}, folders: true}}
  - {id: first, kind: command.exec_allowlisted, timeout_seconds: 180,
     with: {profile: count_first, arguments: {run: "${inputs.run}"}}}
  - {id: look, kind: health.check, timeout_seconds: 120, with: {probes: [{kind: file, path: "${inputs.path}"}]}}
  - {id: second, kind: command.exec_allowlisted, timeout_seconds: 180,
     with: {profile: count_second, arguments: {run: "${inputs.run}"}}}
`

// stormCount is the program: it leaves one line for each time it is run.
const stormCount = `#!/bin/sh
sleep 0.5
echo "$2/$1" >>"${0%/usr/local/bin/*}/var/storm-count"
`

// stormRun is a run of the storm.
type stormRun struct {
	name         string
	path         string
	nodes        int
	OperationID  string `json:"operation_id"`
	Status       string `json:"status"`
	Paused       bool   `json:"paused"`
	WaitingFor   string `json:"waiting_for"`
	ErrorMessage string `json:"error_message"`
	Targets      struct{ Waiting, Running, Succeeded, Failed, Canceled, Skipped int }
}

// stormTarget is one target of a run.
type stormTarget struct {
	Hostname string `json:"hostname"`
	Status   string `json:"status"`
	Error    *struct{ Code, Class, Message string }
}

// operates runs operations on all nodes, each node by several of them and one run over
// all nodes, while processes are killed. Every run ends with a verdict, what nobody
// knows is left to a person, and no program is run twice before one has decided so.
func (w *killable) operates(t *testing.T, n int, victims []victim) {
	t.Helper()
	definition := filepath.Join(t.TempDir(), "storm.yaml")
	if err := os.WriteFile(definition, []byte(stormDefinition), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, w.api.cli(t), "operation", "definition", "apply", "-f", definition, "--activate")
	w.onMachines(t, func(root string) error {
		folder := filepath.Join(root, "usr", "local", "bin")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, "storm-count"), []byte(stormCount), 0o755)
	})
	var nodes []string
	for _, node := range all[apiclient.NodeView](t, w.api, "/api/v1/admin/nodes") {
		nodes = append(nodes, node.NodeId.String())
	}
	admin := tenant{plane: w.api, path: "/api/v1/admin/operations"}
	runs := make([]*stormRun, n+1)
	for i := range runs {
		strike(t, victims, i, n)
		on := nodes[i%len(nodes) : i%len(nodes)+1]
		if i == n {
			on = nodes
		}
		r := &stormRun{name: fmt.Sprintf("run-%d", i), nodes: len(on)}
		w.insist(t, &admin, admin.path, map[string]any{
			"operation": "storm.walk@v1", "targets": map[string]any{"nodes": on}, "no_ramp": true,
			"max_concurrency": len(on), "max_failures": len(on),
			"inputs": map[string]any{"run": r.name, "path": "/etc/storm/" + r.name},
		}, "operate-"+r.name, r)
		r.path = admin.path + "/" + r.OperationID
		runs[i] = r
	}
	w.verdicts(t, runs)
	before := w.stormCounts(t)
	for what, times := range before {
		if times > 1 {
			t.Errorf("%s ran %d times, and nobody had asked for it again", what, times)
		}
	}
	undecided := 0
	for _, r := range runs {
		if r.Status == "succeeded" {
			continue
		}
		undecided++
		w.leftToAPerson(t, r)
		w.insist(t, &admin, r.path+"/retry", map[string]any{"reason": "the storm is over"}, "retry-"+r.name, nil)
	}
	t.Logf("%d of %d runs were left to a person", undecided, len(runs))
	w.verdicts(t, runs)
	after := w.stormCounts(t)
	for _, r := range runs {
		if r.Status != "succeeded" || r.Targets.Succeeded != r.nodes {
			t.Errorf("%s is %s with %+v after it was resumed: %s", r.name, r.Status, r.Targets, r.ErrorMessage)
		}
	}
	if want := 2 * (n + len(nodes)); len(after) != want {
		t.Errorf("%d programs ran on the nodes, want %d", len(after), want)
	}
}

// verdicts waits until every run has ended.
func (w *killable) verdicts(t *testing.T, runs []*stormRun) {
	t.Helper()
	for _, r := range runs {
		testkit.Succeeds(t, r.name+" to end", 6*time.Minute, func() error {
			a, err := w.api.call(t.Context(), http.MethodGet, r.path, nil)
			if err == nil {
				err = readJSON(a, r)
			}
			if err == nil && r.Status != "succeeded" && r.Status != "failed" {
				err = fmt.Errorf("it is %s, waits for %q, with %+v", r.Status, r.WaitingFor, r.Targets)
			}
			return err
		})
	}
}

// leftToAPerson checks that what did not succeed is what nobody can know: a program
// whose agent was killed.
func (w *killable) leftToAPerson(t *testing.T, r *stormRun) {
	t.Helper()
	for _, target := range all[stormTarget](t, w.api, r.path+"/targets") {
		if target.Status == "succeeded" {
			continue
		}
		if target.Status != "failed" || target.Error == nil || target.Error.Class != "ambiguous" {
			t.Errorf("%s on %s is %s: %+v", r.name, target.Hostname, target.Status, target.Error)
		}
	}
}

// stormCounts says how often which program of which run was run on which machine.
func (w *killable) stormCounts(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	w.onMachines(t, func(root string) error {
		content, err := os.ReadFile(filepath.Join(root, "var", "storm-count"))
		for line := range strings.Lines(string(content)) {
			counts[filepath.Base(filepath.Dir(root))+"/"+strings.TrimSpace(line)]++
		}
		return err
	})
	return counts
}

// onMachines does something with the folder of every machine.
func (w *killable) onMachines(t *testing.T, do func(root string) error) {
	t.Helper()
	roots, err := filepath.Glob(filepath.Join(w.state, "rack-process", "machines", "*", "root"))
	if err != nil || len(roots) != w.machines {
		t.Fatalf("%d machines, %v", len(roots), err)
	}
	for _, root := range roots {
		if err := do(root); err != nil {
			t.Fatal(err)
		}
	}
}
