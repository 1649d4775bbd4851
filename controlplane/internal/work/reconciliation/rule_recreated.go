package reconciliation

import "fmt"

// TypeRecreated says: MAAS now has the server as another machine.
const TypeRecreated Type = "recreated"

var ruleRecreated = Rule{
	Type: TypeRecreated, Severity: Critical, Looks: 2, Action: Quarantine, Adopt: true,
	Title: "Recreated in MAAS under another id",
	Means: "The machine was deleted and the same server was added again: actions on the node would go to a " +
		"machine that no longer exists.",
	When: whenRecreated,
	Advice: []string{
		adviceShow,
		`gpuaas drift resolve NODE adopt: bind the node to the machine that the server is now, after comparing the two`,
		adviceReimage, adviceTakeOut,
	},
	Holds: "MAAS answers 404 to the id of the machine of a node that is active, offline or quarantined, but has " +
		"another machine of that host name, MAC or power address.",
	Runbook: "machine-missing-in-maas",
}

func whenRecreated(s Subject) (Verdict, bool) {
	if !s.judgedByMachine() || !s.Absent || s.Machine != nil || s.Twin == nil {
		return Verdict{}, false
	}
	return Verdict{
		Expected: "machine " + s.SystemID, Observed: fmt.Sprintf("machine %s (%s)", s.Twin.SystemID, s.Twin.Status),
		Message: fmt.Sprintf("MAAS has no machine %s any more, which was that of %s; the same server, by its %s, is %s "+
			"there and %s", s.SystemID, s.Hostname, s.TwinBy, s.Twin.SystemID, s.Twin.Status),
		Details: s.with(map[string]any{
			"observed_system_id": s.Twin.SystemID, "observed_hostname": s.Twin.Hostname, "observed_status": s.Twin.Status,
			"found_by": s.TwinBy,
		}),
	}, true
}
