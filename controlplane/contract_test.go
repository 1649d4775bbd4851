package controlplane

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuaas/controlplane/internal/base/lifecycle"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
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
	enums, err := Enums()
	if err != nil {
		t.Fatal(err)
	}
	generated := map[string]string{
		"contract/apiclient/enums.go": enums,
		"contract/openapi.yaml":       string(openapi), "contract/asyncapi.yaml": string(asyncapi),
		"docs/drift-findings.md": reconciliation.Page(),
		"docs/failure-codes.md":  job.CodesPage(),
		"docs/metrics.md":        Metrics(),
	}
	pages, err := Pages()
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		generated["docs/"+name] = page
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

// A state that the table gets is in everything that is made of it: the contract,
// the counts of the fleet, what selects nodes, and events.
func TestEverythingFollowsTheTableOfNodes(t *testing.T) {
	const madeUp = "resting"
	was := node.Lifecycle.States
	t.Cleanup(func() { node.Lifecycle.States = was })
	node.Lifecycle.States = slices.Insert(slices.Clone(was), len(was)-1, lifecycle.State[node.Status]{
		Name: madeUp, Meaning: "made up", Tone: lifecycle.Idle, Traits: []lifecycle.Trait{node.Steady, node.Serving},
	})
	schemas := newHouse(t).api.OpenAPI().Components.Schemas.Map()
	for _, schema := range []string{"FleetviewSpot.status", "DecommissionSelectorBody.statuses", "NodeView.status"} {
		name, field, _ := strings.Cut(schema, ".")
		s := schemas[name].Properties[field]
		if s.Items != nil {
			s = s.Items
		}
		if !slices.Contains(s.Enum, any(madeUp)) {
			t.Errorf("%s lists %v", schema, s.Enum)
		}
	}
	if s := schemas["FleetviewStatusCounts"]; s.Properties[madeUp] == nil || !slices.Contains(s.Required, madeUp) {
		t.Errorf("the fleet is not counted by it: %v", s.Required)
	}
	asyncapi, err := AsyncAPI()
	if err != nil || !strings.Contains(string(asyncapi), "- "+madeUp) {
		t.Errorf("events do not know it (%v)", err)
	}
	enums, err := Enums()
	if err != nil || strings.Count(enums, strconv.Quote(madeUp)) < 4 {
		t.Errorf("the command line does not complete it (%v)", err)
	}
}

// Every lifecycle that the console draws has a tone for each state.
func TestStatesHaveATone(t *testing.T) {
	tones, err := os.ReadFile("../console/src/ui/tone.ts")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{} // the nouns whose states the console colours
	for _, m := range regexp.MustCompile(`toned\('([a-z_]+)'\)`).FindAllStringSubmatch(string(tones), -1) {
		shown[m[1]] = true
	}
	for _, noun := range []string{"node", "job", "node_task"} {
		if !shown[noun] {
			t.Errorf("console/src/ui/tone.ts does not colour %s: the rule is broken", noun)
		}
	}
	for _, l := range newHouse(t).lifecycles() {
		if !shown[l.Noun] {
			continue
		}
		for _, s := range l.States {
			if s.Tone == "" {
				t.Errorf("%s of %s has no tone", s.Name, l.Noun)
			}
		}
	}
}

var enumTag = regexp.MustCompile("enum:\"([^\"]*)\"")

// Enums of the contract that are lifecycles, modes or actions come from their tables:
// the type of the field has a method Schema. A list in a tag would be another home.
func TestNoTagRepeatsATable(t *testing.T) {
	tables := map[string]string{}
	name := func(what string, words []string) {
		slices.Sort(words)
		tables[strings.Join(words, ",")] = what
	}
	for _, l := range newHouse(t).lifecycles() {
		var words []string
		for _, s := range l.States {
			words = append(words, s.Name)
		}
		name("the states of a "+l.Noun, words)
	}
	var modes, actions, permissions []string
	for _, m := range decommission.Modes() {
		modes = append(modes, string(m))
	}
	for _, a := range job.Parking.AllActions() {
		actions = append(actions, string(a))
	}
	for _, p := range auth.Permissions() {
		permissions = append(permissions, string(p))
	}
	name("the modes of decommission", modes)
	name("the actions of jobs", actions)
	name("the permissions", permissions)
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, tag := range enumTag.FindAllStringSubmatch(string(text), -1) {
			words := strings.Split(tag[1], ",")
			slices.Sort(words)
			if what := tables[strings.Join(words, ",")]; what != "" {
				t.Errorf("%s lists %s in a tag: give the field the type that has them", path, what)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Some fields take only some words of a table, and list them by hand.
func TestPartsOfTablesAreListedWhole(t *testing.T) {
	words := func(statuses []job.Status) (out []string) {
		for _, s := range statuses {
			out = append(out, string(s))
		}
		return out
	}
	var unended, classes []string
	for _, s := range job.Parking.Table.States {
		if !s.Terminal {
			unended = append(unended, string(s.Name))
		}
	}
	for class := range bringup.ClassCauses {
		classes = append(classes, string(class))
	}
	all := enumsOf(newHouse(t).api)
	for name, want := range map[string][]string{
		"OnboardingFailureModeView.status":      words(job.Parking.In(job.Parked)),
		"DecommissionFailureModeView.status":    words(job.Parking.In(job.Parked)),
		"DecommissionFailureView.failure_class": classes,
		"FleetviewSpotJob.status":               unended,
	} {
		got := slices.Clone(all[name])
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want %v", name, got, want)
		}
	}
}
