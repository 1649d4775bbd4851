package reconciliation

import (
	"fmt"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

// TypeRetiredDeployed says: a node is out of service, but its machine still
// runs.
const TypeRetiredDeployed Type = "retired_deployed"

var ruleRetiredDeployed = Rule{
	Type: TypeRetiredDeployed, Severity: Info, Looks: 2, Action: Release,
	Title: "Retired, but still deployed",
	Means: "The node is out of service, but its machine still draws power and stays allocated in MAAS.",
	When:  whenRetiredDeployed,
	Advice: []string{
		"gpuaas site profile set SITE PROFILE retired_machines=power_off: let reconciliation switch such machines off",
		`gpuaas node reactivate NODE: if it is to serve again`,
		`gpuaas decommission start NODE --mode full_decommission: erase, release and switch it off, with a certificate; DESTROYS what is on it`,
		"gpuaas site profile set SITE PROFILE retired_machines=release: let reconciliation release such machines, which " +
			"DESTROYS what is on them",
	},
	Holds: "The node is retired and its machine is Deployed. It is released only if `retired_machines` of the " +
		"profile is release, the node is proven clean, and what is installed there is known to be the node still.",
}

func whenRetiredDeployed(s Subject) (Verdict, bool) {
	if s.Status != node.Retired || !s.shows(Installed) || s.Policy.RetiredMachines == site.RetiredPowerOff {
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
	switch why := s.foreignUse(); {
	case why != "":
		return why
	case s.Tainted:
		return withheldUnclean
	case s.Policy.RetiredMachines != site.RetiredRelease:
		return "the profile does not allow it (retired_machines)"
	}
	return ""
}

// withheldUnclean says why the machine of a node that a tenant had is not released.
const withheldUnclean = "not proven clean: decommission it instead"

// foreignUse says why the machine of a retired node may serve something else by
// now; empty: it does not.
func (s Subject) foreignUse() string {
	switch {
	case len(s.Others) > 0:
		return "another node is bound to the same machine"
	case s.reinstalled():
		return "the machine was reinstalled since: what runs there is not the node"
	case s.Installation == 0 || s.Machine.Installation == 0:
		return "it is not known whether what is installed is the node"
	case !sameName(s.Hostname, s.Machine.Hostname):
		return "the machine has another name in MAAS: it may serve something else now"
	}
	return ""
}
