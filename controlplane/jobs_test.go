package controlplane

import (
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"gpuaas/controlplane/internal/base/lifecycle"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/work/job"
)

// loans is a kind of job with a lifecycle of its own.
type loans struct{ registered *[]string }

var lending = job.Lifecycle{
	Table: lifecycle.Table[job.Status, job.Trigger]{
		Noun: "loan", Title: "Loan",
		States: []lifecycle.State[job.Status]{{Name: "asked"}, {Name: "stuck"}, {Name: "lent", Terminal: true}},
	},
}

func (loans) Described() job.Described { return job.Described{Noun: "loan", Life: &lending} }

func (l loans) Register(*httpapi.API, job.Feed) { *l.registered = append(*l.registered, "API") }

func (l loans) RegisterWorker(worker.Registry) { *l.registered = append(*l.registered, "worker") }

func (loans) Page() string { return "How books are lent." }

// A kind of job is one line: whatever lists kinds of jobs reads the list.
func TestAKindOfJobIsOneLine(t *testing.T) {
	was := kinds
	t.Cleanup(func() { kinds = was })
	var registered []string
	kinds = append(slices.Clone(was), func(*parts) (kind, error) { return loans{&registered}, nil })

	h := newHouse(t)
	var suite testsuite.WorkflowTestSuite
	for _, register := range h.workflows() {
		register(suite.NewTestWorkflowEnvironment())
	}
	if got := strings.Join(registered, ", "); got != "API, worker" {
		t.Errorf("it is registered with %q", got)
	}
	doc := h.api.OpenAPI()
	schemas := doc.Components.Schemas.Map()
	if nouns, _ := doc.Extensions["x-gpuaas-jobs"].([]string); !slices.Contains(nouns, "loan") {
		t.Errorf("the console is told of %v", nouns)
	}
	if kind := schemas["FleetviewSpotJob"].Properties["kind"]; !slices.Contains(kind.Enum, any("loan")) ||
		schemas["FleetviewJobCounts"].Properties["loans_parked"] == nil {
		t.Errorf("the fleet is shown with jobs of the kinds %v", kind.Enum)
	}
	if state := schemas["LoanState"]; state == nil || !slices.Contains(state.Enum, any("stuck")) {
		t.Error("the contract does not name its states")
	}
	pages, err := Pages()
	if err != nil || pages["loan-stages.md"] == "" || pages["lifecycles/loan.md"] == "" {
		t.Errorf("it has no pages (%v)", err)
	}
	enums, err := Enums()
	if err != nil || !strings.Contains(enums, "LoanStates") {
		t.Errorf("the command line does not know its states (%v)", err)
	}
	if watched := h.onMachines(); len(watched) != 2 {
		t.Errorf("reconciliation watches the machines of %d kinds, want those of onboardings and decommissions", len(watched))
	}
}
