package controlplane

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/onboarding"
	"gpuaas/controlplane/internal/work/reconciliation"
)

var update = flag.Bool("update", false, "write the generated files")

// The generated contracts and pages are committed: a change of the code that
// changes them must be seen in review.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	openapi, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	asyncapi, err := AsyncAPI()
	if err != nil {
		t.Fatal(err)
	}
	generated := map[string]string{
		"contract/openapi.yaml": string(openapi), "contract/asyncapi.yaml": string(asyncapi), "docs/onboarding-stages.md": onboarding.Document(),
		"docs/decommission-stages.md": decommission.Page(),
		"docs/drift-findings.md":      reconciliation.Page(),
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
