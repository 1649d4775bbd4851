package reconciliation

import (
	"fmt"

	"gpuaas/controlplane/internal/fleet/node"
)

// TypeRetiredDeployed says: a node is out of service, but its machine still
// runs.
const TypeRetiredDeployed Type = "retired_deployed"

var ruleRetiredDeployed = Rule{
	Type: TypeRetiredDeployed, Severity: Info, Looks: 2, Action: Release,
	Title: "Retired, but still deployed",
	Means: "The node is out of service, yet its machine draws power and stays taken in MAAS.",
	When:  whenRetiredDeployed,
	Advice: []string{
		`gpuaas decommission start NODE --mode full_decommission --reason "…": erase, release and switch it off, with a certificate; DESTROYS what is on it`,
		`gpuaas node reactivate NODE --reason "…": if it is to serve again`,
		"gpuaas site profile set SITE PROFILE release_retired_machines=true: let reconciliation release such machines by " +
			"itself",
	},
	Holds: "The node is retired and its machine is Deployed. It is released only if `release_retired_machines` of the " +
		"profile allows it, the node is proven clean, and what is installed there is known to be the node still.",
}

func whenRetiredDeployed(s Subject) (Verdict, bool) {
	if s.Status != node.Retired || !s.shows(Installed) {
		return Verdict{}, false
	}
	return Verdict{
		Expected: "released", Observed: s.Machine.Status, Withheld: s.releaseWithheld(),
		Message: fmt.Sprintf("%s is retired, but its machine is still %s in MAAS and power is %s", s.Hostname,
			s.Machine.Status, s.Machine.Power),
		Details: s.with(map[string]any{
			"tainted": s.Tainted, "expected_installation": s.Installation,
			"observed_installation": s.Machine.Installation,
		}),
	}, true
}

// releaseWithheld says why the machine of a retired node must not be released.
// Somebody may use it for something else by now, and a release would destroy
// that.
func (s Subject) releaseWithheld() string {
	switch {
	case len(s.Others) > 0:
		return "another node is bound to the same machine"
	case s.reinstalled():
		return "the machine was installed anew since: what runs there is not the node"
	case s.Installation == 0 || s.Machine.Installation == 0:
		return "it is not known whether what is installed is the node"
	case !sameName(s.Hostname, s.Machine.Hostname):
		return "the machine has another name in MAAS: it may serve something else now"
	case s.Tainted:
		return "not proven clean: decommission it instead"
	case !s.Policy.ReleaseRetiredMachines:
		return "the profile does not allow it (release_retired_machines)"
	}
	return ""
}
