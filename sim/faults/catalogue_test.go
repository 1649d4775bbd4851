package faults

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheCatalogueIsWhole(t *testing.T) {
	all := Catalogue()
	if want := len(Sections)*len(Kinds) + len(paths); len(all) != want {
		t.Fatalf("%d cases of %d sections, want each of them in each of %d ways, and %d paths", len(all), len(Sections),
			len(Kinds), len(paths))
	}
	names := map[string]bool{}
	for _, c := range all {
		switch {
		case names[c.Name()]:
			t.Errorf("%s is there twice", c.Name())
		case c.NotApplicable != "" && (c.set != nil || len(c.NotApplicable) < 30):
			t.Errorf("%s is not applicable without a reason worth the name: %q", c.Name(), c.NotApplicable)
		case c.NotApplicable == "" && (c.set == nil || c.What == ""):
			t.Errorf("%s does nothing, or does not say what", c.Name())
		case c.path == nil && titles[c.Kind] == "":
			t.Errorf("%s has a kind that the report does not name", c.Name())
		}
		names[c.Name()] = true
	}
	if n := len(Choose(all, Choice{Case: "not applicable"})); n != 0 {
		t.Errorf("%d cases are called so", n)
	}
}

// untried are stages that no case is about, and why.
var untried = map[string]string{
	"compensate":            "cases about other stages undo jobs",
	"adopt_observed_state":  "cases about other stages adopt what is there",
	"cleanup_storage_again": "it is cleanup_storage once more, on nodes on which somebody had root",
	"scrub_gpu_again":       "it is scrub_gpu once more, on nodes on which somebody had root",
}

// listed are the stages that a page of the control plane tells of.
func listed(t *testing.T, family Family) []string {
	t.Helper()
	heading := regexp.MustCompile("(?m)^## .*\\(`([a-z0-9_]+)`\\)$")
	page, err := os.ReadFile("../../docs/" + string(family) + "-stages.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range heading.FindAllStringSubmatch(string(page), -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("the page of %s has no heading of a stage, such as: ## Title (`name`)", family)
	}
	return out
}

// A family has a page that tells of its stages: one that is not known here is not tried.
func TestEveryFamilyOfTheControlPlaneIsTried(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*-stages.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages of stages: %v", err)
	}
	for _, page := range pages {
		if family := Family(strings.TrimSuffix(filepath.Base(page), "-stages.md")); !slices.Contains(Families, family) {
			t.Errorf("%s tells of the stages of %s: add the family to Families and its stages to Sections", page, family)
		}
	}
}

// The package shares no code with the control plane, so it lists stages once more.
// The pages that the control plane writes about its stages say which there are.
func TestEveryStageOfTheControlPlaneIsTried(t *testing.T) {
	for _, family := range Families {
		there := listed(t, family)
		tried := map[string]bool{}
		for _, s := range Sections {
			if s.Family == family {
				tried[s.Stage] = true
			}
		}
		for _, stage := range there {
			if !tried[stage] && untried[stage] == "" {
				t.Errorf("%s has the stage %s: add it as a constant and to the plan of its family in sections.go", family, stage)
			}
		}
		if family == Allocation { // what cleans up after it is a decommission
			there = append(there, listed(t, Decommission)...)
		}
		for stage := range tried {
			if !slices.Contains(there, stage) {
				t.Errorf("%s has no stage %s: take it out of sections.go", family, stage)
			}
		}
	}
}

// Every stage of the operation that cleans up after an allocation is tried as such.
func TestEveryStageOfTheCleanupIsTried(t *testing.T) {
	page, err := os.ReadFile("../../docs/decommission-stages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(page), "\n| `"+softReset+"` | ")
	row, _, _ = strings.Cut(row, "\n")
	row = row[strings.LastIndex(row, " | ")+3:]
	for _, stage := range strings.Split(strings.TrimSuffix(row, " |"), ", ") {
		if !slices.Contains(Sections, Section{Allocation, releaseMode, strings.Trim(stage, "`")}) {
			t.Errorf("the cleanup has the stage %s: add it to the plan of releases in sections.go", stage)
		}
	}
}

// Every state of an allocation, and every way from one to another, is known here, and
// every state in which one can end is the end of a case.
func TestEveryStateOfAllocationsIsTried(t *testing.T) {
	page, err := os.ReadFile("../../docs/lifecycles/allocation.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string][]string{"": {requested}}
	state := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^`]* \\| [^|]* \\|$")
	for _, m := range state.FindAllStringSubmatch(string(page), -1) {
		there[m[1]] = nil
	}
	edge := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [a-z]+ \\| `([a-z_]+)` \\|")
	for _, m := range edge.FindAllStringSubmatch(string(page), -1) {
		there[m[1]] = append(there[m[1]], m[2])
	}
	for _, way := range there {
		slices.Sort(way)
	}
	known := map[string][]string{}
	for from, way := range wayOf {
		known[from] = slices.Sorted(slices.Values(way))
	}
	if !maps.EqualFunc(there, known, slices.Equal) {
		t.Errorf("the lifecycle has %v, and wayOf has %v", there, known)
	}
	ends := map[string]bool{active: true, released: true}
	for _, c := range Choose(Catalogue(), Choice{Family: string(Allocation)}) {
		ends[c.ends] = true
	}
	for state, way := range wayOf {
		if len(way) == 0 && !ends[state] {
			t.Errorf("no case ends as %s", state)
		}
	}
}

func TestChoosing(t *testing.T) {
	all := Catalogue()
	for want, by := range map[int]Choice{
		len(all): {}, len(Kinds): {Family: string(Onboarding), Stage: deploy}, len(Sections): {Kind: string(Killed)},
		1: {Case: "reimage/deploy_via_maas/worker_killed"}, 0: {Stage: "deploy"},
	} {
		if got := Choose(all, by); len(got) != want {
			t.Errorf("%+v chooses %d cases, want %d", by, len(got), want)
		}
	}
}

func TestTheSampleHasEveryStageAndEveryKind(t *testing.T) {
	for _, family := range Families {
		var want int
		stages, all, kinds := map[string]bool{}, map[string]bool{}, map[Kind]bool{}
		for _, s := range Sections {
			if s.Family == family {
				all[s.Stage] = true
			}
		}
		for _, c := range Choose(Sample(Catalogue(), 1), Choice{Family: string(family)}) {
			if c.NotApplicable != "" || c.slow {
				t.Errorf("%s is no case for a sample", c.Name())
			}
			want++
			stages[c.Stage], kinds[c.Kind] = true, true
		}
		if len(stages) != len(all) || want != len(all) || len(kinds) != len(Kinds) {
			t.Errorf("the sample of %s has %d stages and %d kinds in %d cases, want all", family, len(stages), len(kinds), want)
		}
	}
}

// Each seed tries some paths, and all seeds together try each that waits for nothing.
func TestTheSamplesHaveEveryQuickPath(t *testing.T) {
	all := Catalogue()
	want := map[string]bool{}
	for _, c := range Choose(all, Choice{Family: string(Paths)}) {
		want[c.Name()] = !c.slow
	}
	for seed := range uint64(50) {
		some := Choose(Sample(all, seed), Choice{Family: string(Paths)})
		if len(some) == 0 || len(some) == len(want) {
			t.Errorf("seed %d tries %d of %d paths", seed, len(some), len(want))
		}
		for _, c := range some {
			if c.slow {
				t.Errorf("%s is no case for a sample", c.Name())
			}
			want[c.Name()] = false
		}
	}
	for name, left := range want {
		if left {
			t.Errorf("no sample has %s", name)
		}
	}
}

// A path that is parked otherwise than laid down, or does not say what is wrong, does
// not hold.
func TestAPathIsHeldToWhatIsLaidDown(t *testing.T) {
	stop := Stop{Stage: scrub, Code: "power_cycle_failed", Action: "retry_stage"}
	other := stop
	other.Action = "cancel"
	told := &standing{Outcome: withGaps}
	told.Explanation.Observed = "its BMC does not answer"
	for name, c := range map[string]struct {
		want   path
		family Family
		stops  []Stop
		now    *standing
		broken int
	}{
		"as laid down": {
			path{stops: []Stop{stop}, outcome: withGaps, tells: "BMC"}, Decommission, []Stop{stop}, told, 0,
		},
		"another action":           {path{stops: []Stop{stop}, outcome: withGaps}, Decommission, []Stop{other}, told, 1},
		"parked unexpectedly":      {path{outcome: withGaps}, Decommission, []Stop{stop}, told, 1},
		"never parked":             {path{stops: []Stop{stop}, outcome: withGaps}, Decommission, nil, told, 1},
		"nothing explained":        {path{outcome: withGaps, tells: "memory"}, Decommission, nil, told, 1},
		"gaps that nobody expects": {path{}, Decommission, nil, told, 1},
		"no gaps where some are":   {path{outcome: withGaps}, Decommission, nil, &standing{Outcome: "clean"}, 1},
		"an onboarding":            {path{}, Onboarding, nil, &standing{}, 0},
	} {
		r := &run{Case: Case{Section: Section{Family: c.family}, path: &c.want}}
		r.checkPath(c.stops)
		r.checkTold(c.now)
		r.checkOutcome(c.now)
		if len(r.broken) != c.broken {
			t.Errorf("%s: %q, want %d", name, r.broken, c.broken)
		}
	}
}

// The command writes the page. It must cover the present catalogue, and nothing
// on it may be unresolved.
func TestThePageIsThatOfTheCatalogue(t *testing.T) {
	content, err := os.ReadFile("../../docs/fault-catalogue.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	rest := page
	for _, of := range Sections {
		_, after, found := strings.Cut(rest, "\n### "+of.Title()+"\n")
		if !found {
			t.Fatalf("the page has no section %s, or not in its place", of.Title())
		}
		rest = after
		section, _, _ := strings.Cut(rest, "\n### ")
		for _, c := range Catalogue() {
			if c.Section != of || c.path != nil {
				continue
			}
			row := fmt.Sprintf("| %s | %s | ", titles[c.Kind], cell(c.What))
			_, outcome, found := strings.Cut(section, row)
			outcome, _, _ = strings.Cut(outcome, "\n")
			switch {
			case !found:
				t.Errorf("the page does not say what becomes of %s: write it anew with gpuaas sim faults --report "+
					"docs/fault-catalogue.md", c.Name())
			case c.NotApplicable != "" && !strings.HasPrefix(outcome, "not applicable: "+c.NotApplicable):
				t.Errorf("%s: the page says %q, want why it cannot be", c.Name(), outcome)
			case c.NotApplicable == "" && !strings.Contains(outcome, "by itself") && !strings.Contains(outcome, "→ completed") &&
				!strings.Contains(outcome, "→ "+released) && !strings.Contains(outcome, "→ "+failed):
				t.Errorf("%s: the page says %q, want an end", c.Name(), outcome)
			}
		}
	}
	for _, c := range Choose(Catalogue(), Choice{Family: string(Paths)}) {
		_, outcome, found := strings.Cut(rest, fmt.Sprintf("| %s | %s | %s | ", c.path.name, c.Title(), cell(c.What)))
		outcome, _, _ = strings.Cut(outcome, "\n")
		if !found || !strings.Contains(outcome, "by itself") && !strings.Contains(outcome, "→ completed") {
			t.Errorf("%s: the page says %q, want an end", c.Name(), outcome)
		}
	}
	if strings.Contains(page, "NOT RESOLVED") || strings.Contains(page, "violations") ||
		!strings.Contains(page, ", 0 found |") {
		t.Error("the page tells of something that does not hold")
	}
}

func TestReportsSayWhatDoesNotHold(t *testing.T) {
	section := Section{Decommission, reimage, deploy}
	fine := Outcome{Case: Case{Section: section, Kind: Killed}, Result: HealedItself}
	acted := Outcome{
		Case: fine.Case, Result: Recovered,
		Stops: []Stop{{deploy, "state_ambiguity", "deploy_aborted", "rerun"}},
	}
	twice := acted
	twice.Stops = append(twice.Stops, twice.Stops...)
	broken := fine
	broken.Broken = []string{"MAAS accepted 2 deployments"}
	stuck := Outcome{Case: fine.Case, Result: Unresolved, Why: "it hangs"}
	not := Outcome{Case: Case{Section: section, Kind: Lies, NotApplicable: "why"}, Result: NotApplicable}
	nine := []Outcome{fine, fine, fine, fine, fine, acted, acted, acted, acted, not}
	for name, c := range map[string]struct {
		report Report
		want   string
	}{
		"all is well":     {Report{Outcomes: nine}, ""},
		"nine of ten":     {Report{Outcomes: append([]Outcome{twice}, nine...)}, ""},
		"too few at once": {Report{Outcomes: append([]Outcome{twice, stuck}, nine...)}, "90 % must be"},
		"an invariant":    {Report{Outcomes: append([]Outcome{broken}, nine...)}, "accepted 2 deployments"},
		"a secret in the log": {
			Report{Outcomes: nine, Search: Search{Leaks: []Leak{{"BMC password", "log"}}}},
			"BMC password was found in log",
		},
	} {
		err := c.report.Verdict()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		var page strings.Builder
		if err := c.report.WriteMarkdown(&page); err != nil || !strings.Contains(page.String(), "## Decommission") ||
			!strings.Contains(page.String(), "### reimage/"+deploy) {
			t.Errorf("%s: %v, page\n%s", name, err, page.String())
		}
	}
}
