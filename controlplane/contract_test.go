package controlplane

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
	"gpuaas/controlplane/internal/work/reconciliation"
)

var update = flag.Bool("update", false, "write the generated files")

// The generated contracts and pages are committed, so that a review sees every
// change of them.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	openapi, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	asyncapi, err := AsyncAPI()
	if err != nil {
		t.Fatal(err)
	}
	states, err := States()
	if err != nil {
		t.Fatal(err)
	}
	generated := map[string]string{
		"contract/apiclient/states.go": states,
		"contract/openapi.yaml":        string(openapi), "contract/asyncapi.yaml": string(asyncapi),
		"docs/onboarding-stages.md":   onboarding.Document(),
		"docs/decommission-stages.md": decommission.Page(),
		"docs/drift-findings.md":      reconciliation.Page(),
		"docs/failure-codes.md":       job.CodesPage(),
		"docs/metrics.md":             Metrics(),
	}
	for name, page := range Lifecycles() {
		generated["docs/lifecycles/"+name] = page
	}
	for name, want := range generated {
		path := filepath.Join("..", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(got), want); diff != "" {
			t.Errorf("%s is stale; run make gen (- committed, + generated):\n%s", name, diff)
		}
	}
}

// The packages of the wire know only the standard library, so events list states
// by hand: what they list is a lifecycle, whole and in its order.
func TestEventsListTheStatesOfLifecycles(t *testing.T) {
	tables := map[string]string{}
	for _, l := range lifecycles() {
		var names []string
		for _, s := range l.States {
			names = append(names, s.Name)
		}
		tables[strings.Join(names, ",")] = l.Noun
	}
	for payload, noun := range map[any]string{
		eventwire.Node{}: "node", eventwire.NodeTask{}: "node_task", eventwire.Onboarding{}: "job",
		eventwire.Decommission{}: "job",
		eventwire.Signer{}:       "signer", eventwire.SelfCheck{}: "self_check", eventwire.Drift{}: "finding",
	} {
		field, ok := reflect.TypeOf(payload).FieldByName("Status")
		if got := tables[field.Tag.Get("enum")]; !ok || got != noun {
			t.Errorf("%T: its status lists %q, which is not the lifecycle of %s", payload, field.Tag.Get("enum"), noun)
		}
	}
}

// What shows only nodes of the fleet lists all states but the last by hand.
func TestPresentNodesListAllStatesButTheTerminalOnes(t *testing.T) {
	var want []any
	for _, s := range node.Lifecycle.States {
		if !s.Terminal {
			want = append(want, string(s.Name))
		}
	}
	schemas := newHouse(t).api.OpenAPI().Components.Schemas.Map()
	for schema, field := range map[string]string{"FleetviewSpot": "status", "DecommissionSelectorBody": "statuses"} {
		s := schemas[schema]
		if s == nil || s.Properties[field] == nil {
			t.Errorf("the contract has no %s.%s", schema, field)
			continue
		}
		got := s.Properties[field].Enum
		if s.Properties[field].Items != nil {
			got = s.Properties[field].Items.Enum
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s.%s lists %v, want %v", schema, field, got, want)
		}
	}
}
