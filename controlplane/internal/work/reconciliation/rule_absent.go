package reconciliation

import "fmt"

// TypeAbsent says: MAAS no longer has the machine.
const TypeAbsent Type = "absent"

var ruleAbsent = Rule{
	Type: TypeAbsent, Severity: Critical, Looks: 2, Action: Quarantine,
	Title: "Deleted from MAAS",
	Means: "MAAS no longer manages this server: gpuaas cannot switch, release or reinstall it, and MAAS may give its " +
		"addresses to other machines.",
	When: whenAbsent,
	Advice: []string{
		adviceShow, "Ask the MAAS administrators who deleted it: its events were deleted with it",
		"Let MAAS discover and commission the server again: the node is then found under its new id, and can be adopted",
		adviceTakeOut,
	},
	Holds: "MAAS answers 404 to the id of the machine of a node that is active, offline or quarantined, and has no " +
		"other machine of that host name, MAC or power address.",
	Runbook: "machine-missing-in-maas",
}

// Only a machine that was asked for by its own id counts as absent. One that a
// listing lacks does not.
func whenAbsent(s Subject) (Verdict, bool) {
	if !s.judgedByMachine() || !s.Absent || s.Machine != nil || s.Twin != nil {
		return Verdict{}, false
	}
	return Verdict{
		Expected: statusDeployed, Observed: absence, Details: s.seen(),
		Message: fmt.Sprintf("MAAS has no machine %s any more, which is that of %s, nor any other that is the same server",
			s.SystemID, s.Hostname),
	}, true
}
