package reconciliation

import (
	"fmt"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

// TypeRetiredPoweredOn says: a node is out of service, but its machine is on.
const TypeRetiredPoweredOn Type = "retired_powered_on"

var ruleRetiredPoweredOn = Rule{
	Type: TypeRetiredPoweredOn, Severity: Info, Looks: 2, Action: PowerOff,
	Title: "Retired, but switched on",
	Means: "The node is out of service, yet its machine draws power. It keeps its installation when it is switched off.",
	When:  whenRetiredPoweredOn,
	Advice: []string{
		"Switch it off in MAAS, if that was not done automatically: it keeps its installation",
		"gpuaas site profile set SITE PROFILE retired_machines=leave: let such machines run",
		`gpuaas node reactivate NODE: if it is to serve again; if it is off by then, switch it on in MAAS first`,
		`gpuaas decommission start NODE --mode full_decommission: erase, release and switch it off, with a certificate; DESTROYS what is on it`,
	},
	Holds: "The node is retired, its machine is Deployed and on, and `retired_machines` of the profile is power_off, as " +
		"in new profiles. Nothing is done if something else may be using the machine, or if somebody switched it on " +
		"again within a day of gpuaas switching it off.",
}

func whenRetiredPoweredOn(s Subject) (Verdict, bool) {
	if s.Status != node.Retired || !s.shows(Installed) || s.Policy.RetiredMachines != site.RetiredPowerOff ||
		s.Machine.Power != powerOn {
		return Verdict{}, false
	}
	return Verdict{
		Expected: powerOff, Observed: s.Machine.Power, Withheld: s.foreignUse(),
		Message: fmt.Sprintf("%s is retired, but its machine is on", s.Hostname),
		Details: s.with(map[string]any{
			"expected_installation": s.Installation, "observed_installation": s.Machine.Installation,
		}),
	}, true
}
