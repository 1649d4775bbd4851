package archtest

import (
	"slices"
	"strings"
	"testing"
)

// rungs orders the packages of the control plane. A package may import lower
// rungs freely.
var rungs = map[string]int{
	"fault": 0, "lifecycle": 0, "id": 0, "redact": 0,

	"postgres": 1, "telemetry": 1, "auth": 1, "audit": 1, "outbox": 1, "httpapi": 1, "durable": 1, "secrets": 1, "health": 1, "maas": 1, "firstboot": 1, "ssh": 1, "bmc": 1,

	"identity": 2, "node": 2, "site": 2, "sku": 2, "signer": 2, "agenttask": 2, "binding": 2, "certificate": 2,

	"selfcheck": 3, "system": 3, "agentgateway": 3, "terminal": 3, "bringup": 3, "job": 3, "onboarding": 3, "decommission": 3, "reconciliation": 3, "fleetview": 3,
}

// sameRung lists the imports that are allowed between packages of one rung.
var sameRung = map[string][]string{
	"lifecycle":      {"fault"},
	"audit":          {"auth", "httpapi", "postgres", "telemetry"},
	"durable":        {"auth", "outbox", "telemetry"},
	"httpapi":        {"auth", "postgres", "telemetry"},
	"maas":           {"postgres"},
	"node":           {"sku"},
	"agenttask":      {"node"},
	"job":            {"bringup"},
	"onboarding":     {"bringup", "job"},
	"decommission":   {"bringup", "job", "terminal"},
	"reconciliation": {"job"},
	"outbox":         {"audit", "auth", "httpapi", "postgres", "telemetry"},
}

func TestPackagesImportOnlyLowerRungs(t *testing.T) {
	for _, s := range sources(t) {
		from := slice(s.path)
		if from == "" || s.test || strings.HasSuffix(s.dir(), "test") {
			continue
		}
		rung, known := rungs[from]
		if !known {
			t.Errorf("%s: package %s has no rung: give it one in archtest", s.path, from)
			continue
		}
		for _, imported := range s.imports {
			to := slice(imported)
			if to == "" || to == from {
				continue
			}
			switch {
			case rungs[to] > rung:
				t.Errorf("%s (rung %d) imports %s (rung %d): lower rungs know nothing of higher ones", s.path, rung, to, rungs[to])
			case rungs[to] == rung && !slices.Contains(sameRung[from], to):
				t.Errorf("%s imports %s of the same rung: list the edge in archtest, or turn it round", s.path, to)
			}
		}
	}
}

func TestRungZeroAndTheWireContractsStandOnTheStandardLibrary(t *testing.T) {
	for _, s := range sources(t) {
		rung, inside := rungs[slice(s.path)]
		wire := strings.HasPrefix(s.dir(), "contract/eventwire") || strings.HasPrefix(s.dir(), "contract/agentwire") || strings.HasPrefix(s.dir(), "contract/certificate")
		if s.test || !wire && (!inside || rung != 0) {
			continue
		}
		for _, i := range s.imports {
			first, _, _ := strings.Cut(i, "/")
			if strings.Contains(first, ".") || first == module && rungs[slice(i)] != 0 {
				t.Errorf("%s imports %s", s.path, i)
			}
		}
	}
}

// outside says which of the project's packages each program may use.
var outside = map[string][]string{
	"cli":              {module + "/contract/", module + "/cli"},
	"sim":              {module + "/sim/", module + "/contract/"},
	"stack":            {module + "/stack", module + "/deploy/"},
	"contract":         {module + "/contract/"},
	"console":          {},
	"e2e":              {module + "/contract/", module + "/stack", module + "/e2e", module + "/sim/"},
	"cmd/gpuaas":       {module + "/cli", module + "/controlplane", module + "/sim/", module + "/stack"},
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
				if !strings.HasPrefix(i, module+"/") {
					continue
				}
				if !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(i, a) }) {
					t.Errorf("%s imports %s: %s may use only %v", s.path, i, program, allowed)
				}
			}
		}
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
