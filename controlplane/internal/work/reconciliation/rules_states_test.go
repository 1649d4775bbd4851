package reconciliation

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

var (
	states = []State{
		Installed, Hollow, Free, Taken, Deploying, Leaving, Failed, Maintenance, Withdrawn, Strange, "",
		"invented",
	}
	statuses = everyStatus()
	powers   = []string{"on", "off", "unknown", "error", ""}

	// byState are the rules of which at most one holds.
	byState = map[Type]bool{
		TypeReleased: true, TypeRedeploying: true, TypeDeployedElsewhere: true, TypeHardwareFailed: true, TypeAbsent: true,
		TypeRecreated:       true,
		TypeRecommissioning: true, TypeStatusUnknown: true, TypePoweredOff: true, TypeAgentSilent: true,
		TypeRetiredDeployed: true, TypeRetiredPoweredOn: true,
	}
)

func everyStatus() (out []node.Status) {
	for _, s := range node.Lifecycle.States {
		out = append(out, s.Name)
	}
	return out
}

// every calls with all combinations of what decides about a state.
func every(each func(name string, s Subject)) {
	for _, state := range states {
		for _, status := range statuses {
			for _, p := range powers {
				for _, known := range []int64{0, 41} {
					for _, observed := range []int64{0, 41, 42} {
						for presence := range 4 {
							s := healthy(is(status), shown(state, "Whatever"), power(p), installation(known, observed), silentFor(time.Hour))
							if known == 0 {
								s.Policy.RetiredMachines = site.RetiredLeave
							}
							if presence > 0 {
								s.Machine, s.Absent = nil, presence > 1
							}
							if presence == 3 {
								s.Twin, s.TwinBy = &Machine{SystemID: "xyz789"}, "hostname"
							}
							each(fmt.Sprintf("%s %s %s %d/%d presence %d", status, state, p, known, observed, presence), s)
						}
					}
				}
			}
		}
	}
}

func TestStatesAreJudgedOnceAndHealthyNodesNever(t *testing.T) {
	t.Parallel()
	seen, combinations := map[Type]int{}, 0
	every(func(name string, s Subject) {
		combinations++
		var state []Type
		for _, f := range Judge(s) {
			seen[f.Rule.Type]++
			if byState[f.Rule.Type] {
				state = append(state, f.Rule.Type)
			}
			if f.Rule.Action == Quarantine && !s.InService() && s.Status != node.Quarantined {
				t.Fatalf("%s: %s would quarantine a node that a job works on, or that is out of service", name, f.Rule.Type)
			}
			if s.Machine == nil && !s.Absent {
				t.Fatalf("%s: %s holds of a machine that nobody saw", name, f.Rule.Type)
			}
			known := s.Machine != nil && s.Machine.State == Installed &&
				(s.Installation == 0 || s.Machine.Installation == 0 || s.Installation == s.Machine.Installation)
			if f.Rule.Severity == Critical && known {
				t.Fatalf("%s: %s holds of a machine that is installed as it should be", name, f.Rule.Type)
			}
		}
		if len(state) > 1 {
			t.Fatalf("%s: %v hold at once", name, state)
		}
		// The other way round: nothing wrong with a machine in service goes unseen.
		if s.InService() && len(state) == 0 && (s.Absent || s.Machine != nil &&
			slices.Contains(states[1:10], s.Machine.State)) {
			t.Fatalf("%s: nothing holds", name)
		}
	})
	for typ := range byState {
		if seen[typ] == 0 {
			t.Errorf("%s never held in %d combinations: %v", typ, combinations, slices.Sorted(maps.Keys(seen)))
		}
	}
}

func TestJudgeIsPure(t *testing.T) {
	t.Parallel()
	every(func(name string, s Subject) {
		a, b := Judge(s), Judge(s)
		if !slices.EqualFunc(a, b, func(x, y Judged) bool {
			return x.Rule.Type == y.Rule.Type && fmt.Sprint(x.Verdict) == fmt.Sprint(y.Verdict)
		}) {
			t.Fatalf("%s: two judgements differ", name)
		}
	})
}
