package reconciliation

import (
	"fmt"
	"strconv"
)

// TypeDeployedElsewhere says: the machine is deployed, but with another
// installation than the node's.
const TypeDeployedElsewhere Type = "deployed_elsewhere"

var ruleDeployedElsewhere = Rule{
	Type: TypeDeployedElsewhere, Severity: Critical, Looks: 2, Action: Quarantine, Adopt: true,
	Title: "Reinstalled by somebody else",
	Means: "The machine runs a different installation from the one that became this node: the agent and what tenants had " +
		"there are gone.",
	When: whenDeployedElsewhere,
	Advice: []string{
		adviceShow, adviceAskMAAS,
		`gpuaas drift resolve NODE adopt: if the installation is right and its agent is this node's`,
		adviceReimage, adviceTakeOut,
	},
	Holds: "The machine of a node that is active, offline or quarantined is Deployed, and MAAS counts another " +
		"installation than the one that the node is known to run on.",
	Runbook: "machine-changed-in-maas",
}

func whenDeployedElsewhere(s Subject) (Verdict, bool) {
	if !s.judgedByMachine() || !s.reinstalled() {
		return Verdict{}, false
	}
	return Verdict{
		Expected: "installation " + strconv.FormatInt(s.Installation, 10), Observed: "installation " +
			strconv.FormatInt(s.Machine.Installation, 10),
		Message: fmt.Sprintf("the machine of %s was released and deployed again by somebody else", s.Hostname),
		Details: s.with(map[string]any{
			"expected_installation": s.Installation,
			"observed_installation": s.Machine.Installation,
		}),
	}, true
}
