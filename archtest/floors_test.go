package archtest

import (
	"slices"
	"strings"
	"testing"
)

// floors are the folders of controlplane/internal, from the ground up. A package
// may import packages of lower floors freely.
var floors = []string{"base", "engine", "adapter", "people", "fleet", "work", "rent", "money", "operate"}

// sameFloor lists the imports that are allowed between packages of one floor.
var sameFloor = map[string][]string{
	"lifecycle": {"fault"},

	"audit":   {"auth", "httpapi", "postgres", "telemetry"},
	"blob":    {"postgres"},
	"durable": {"auth", "outbox", "telemetry"},
	"httpapi": {"auth", "postgres", "telemetry"},
	"outbox":  {"audit", "auth", "httpapi", "postgres", "telemetry"},

	"courier":  {"guard"},
	"registry": {"guard"},
	"objects":  {"guard"},

	"allocation": {"rentalsettings", "reservation"},

	"agentgateway": {"agenttask", "node"},
	"agenttask":    {"node"},
	"fleetview":    {"node"},
	"node":         {"sku"},
	"sku":          {"price"},
	"terminal":     {"agenttask", "node"},

	"maintenance": {"allocation"},

	"artifact":  {"policy"},
	"depot":     {"artifact"},
	"account":   {"rating"},
	"metering":  {"account", "ledger", "rating"},
	"reserved":  {"account", "ledger", "rating"},
	"ledger":    {"account", "rating"},
	"balance":   {"account", "rating"},
	"budget":    {"account", "rating"},
	"payment":   {"account", "ledger", "rating"},
	"operation": {"definition", "policy"},
	"statement": {"account", "rating"},
}

// shared are packages that are there for the other packages of their floor, which
// import them freely: a new kind of job needs no edge.
var shared = []string{"job", "bringup"}

// level is the number of the floor that a path or import lies on, -1 when it
// does not lie in controlplane/internal.
func level(path string) int {
	floor, _ := place(path)
	return slices.Index(floors, floor)
}

func TestPackagesImportOnlyLowerFloors(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		floor, from := place(s.path)
		if from == "" || s.test || forTests(s.dir()) {
			continue
		}
		if level(s.path) < 0 {
			t.Errorf("%s: %q is no floor: the floors are %v", s.path, floor, floors)
			continue
		}
		for _, imported := range s.imports {
			to := slice(imported)
			if to == "" || to == from {
				continue
			}
			used[from+" "+to] = true
			switch {
			case level(imported) > level(s.path):
				t.Errorf("%s imports %s: lower floors know nothing of higher ones", s.path, imported)
			case level(imported) == level(s.path) && !slices.Contains(shared, to) && !slices.Contains(sameFloor[from], to):
				t.Errorf("%s imports %s of the same floor: list the edge in archtest, or turn it round", s.path, to)
			}
		}
	}
	for from, edges := range sameFloor {
		for _, to := range edges {
			if !used[from+" "+to] {
				t.Errorf("archtest lists that %s imports %s, which it does not: remove the edge", from, to)
			}
		}
	}
}

func TestTheBaseAndTheWireContractsStandOnTheStandardLibrary(t *testing.T) {
	for _, s := range sources(t) {
		wire := strings.HasPrefix(s.dir(), "contract/agentpackage") ||
			strings.HasPrefix(s.dir(), "contract/eventwire") || strings.HasPrefix(s.dir(), "contract/agentwire") ||
			strings.HasPrefix(s.dir(), "contract/certificate")
		if s.test || !wire && level(s.path) != 0 {
			continue
		}
		for _, i := range s.imports {
			first, _, _ := strings.Cut(i, "/")
			if strings.Contains(first, ".") || first == module && level(i) > 0 {
				t.Errorf("%s imports %s", s.path, i)
			}
		}
	}
}

// outside says which of the project's packages each program may use.
var outside = map[string][]string{
	"cli":              {module + "/contract/", module + "/cli", module + "/deploy/agent"},
	"sim":              {module + "/sim/", module + "/contract/"},
	"stack":            {module + "/stack", module + "/deploy/"},
	"contract":         {module + "/contract/"},
	"console":          {},
	"e2e":              {module + "/contract/", module + "/stack", module + "/e2e", module + "/sim/"},
	"cmd/gpuaas":       {module + "/cli", module + "/server"},
	"server":           {module + "/controlplane", module + "/sim/", module + "/stack"},
	"agent":            {module + "/agent", module + "/contract/agentwire"},
	"cmd/gpuaas-agent": {module + "/agent", module + "/contract/agentwire"},
	"cmd/gpuaas-gpu":   {module + "/cmd/gpuaas-gpu/"},
}

func TestProgramsMeetOnlyThroughContracts(t *testing.T) {
	for _, s := range sources(t) {
		for program, allowed := range outside {
			if s.dir() != program && !strings.HasPrefix(s.dir(), program+"/") {
				continue
			}
			for _, i := range s.imports {
				if !strings.HasPrefix(i, module+"/") || i == module+"/testkit" {
					continue
				}
				if !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(i, a) }) {
					t.Errorf("%s imports %s: %s may use only %v", s.path, i, program, allowed)
				}
			}
		}
	}
}

// forTests reports whether a package holds only what tests use.
func forTests(dir string) bool {
	return strings.HasSuffix(dir, "test") || dir == "testkit" || dir == module+"/testkit"
}

// What tests share fails tests and invents callers: no program carries it.
func TestOnlyTestsUseWhatIsMadeForTests(t *testing.T) {
	used := 0
	for _, s := range sources(t) {
		for _, i := range s.imports {
			if !strings.HasPrefix(i, module+"/") || !forTests(i) {
				continue
			}
			used++
			if !s.test && !forTests(s.dir()) {
				t.Errorf("%s imports %s, which is for tests only", s.path, i)
			}
		}
	}
	if used == 0 {
		t.Error("no test uses what tests share: the rule is broken")
	}
}

func TestOnlyTheControlPlaneCarriesTheConsole(t *testing.T) {
	carried := false
	for _, s := range sources(t) {
		if !slices.Contains(s.imports, module+"/console") {
			continue
		}
		if s.dir() != "controlplane" {
			t.Errorf("%s imports the console: its control plane serves it", s.path)
		}
		carried = true
	}
	if !carried {
		t.Error("nobody serves the console")
	}
}
