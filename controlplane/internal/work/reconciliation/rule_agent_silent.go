package reconciliation

import (
	"fmt"

	"gpuaas/controlplane/internal/fleet/node"
)

// TypeAgentSilent says: the machine is fine as far as MAAS can tell, but its
// agent does not poll.
const TypeAgentSilent Type = "agent_silent"

var ruleAgentSilent = Rule{
	Type: TypeAgentSilent, Severity: Warning, Looks: 1, Action: None,
	Title: "Agent does not poll",
	Means: "MAAS shows nothing wrong with the machine, so the agent or the network has failed; work on the node " +
		"may still run.",
	When: whenAgentSilent,
	Advice: []string{
		"gpuaas node show NODE: the last contact, the certificate and the drift of the agent",
		"On the machine: gpuaas-agent doctor, and journalctl -u gpuaas-node-agent",
		`gpuaas node bootstrap NODE --recovery: when its certificate has expired or is lost`,
	},
	Holds:   "The node is offline, its machine is Deployed, and MAAS does not say that it is off.",
	Runbook: "node-offline",
}

func whenAgentSilent(s Subject) (Verdict, bool) {
	if s.Status != node.Offline || !s.shows(Installed) || s.Machine.Power == powerOff || s.reinstalled() {
		return Verdict{}, false
	}
	return Verdict{
		Expected: "the agent polls", Observed: "the agent is silent",
		Message: fmt.Sprintf(
			"MAAS shows the machine of %s as %s and does not say that it is off, but the agent does not poll", s.Hostname,
			s.Machine.Status),
		Details: s.with(map[string]any{"last_agent_contact_at": s.LastContact}),
	}, true
}
