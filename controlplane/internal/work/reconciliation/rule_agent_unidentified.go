package reconciliation

import "fmt"

// TypeAgentUnidentified says: the agent does not say which machine it runs on,
// so nothing can be compared when it enrols again.
const TypeAgentUnidentified Type = "agent_unidentified"

var ruleAgentUnidentified = Rule{
	Type: TypeAgentUnidentified, Severity: Info, Looks: 1, Action: None,
	Title: "Agent does not say which machine it runs on",
	Means: "The agent is an older version. It works and renews its certificate, but the node is not bound to its " +
		"hardware: " +
		"anyone with its next recovery token could pose as it.",
	When: whenAgentUnidentified,
	Advice: []string{
		"gpuaas node agent NODE: which agent it runs, and which one is published",
		"gpuaas node bootstrap NODE --recovery: run it on the machine; it installs the agent that this control plane " +
			"publishes, which says which machine it is on",
		"gpuaas node hardware NODE: what is known of the machine",
	},
	Holds: "The node is in service and its agent has reported, but never the hardware that it runs on.",
}

func whenAgentUnidentified(s Subject) (Verdict, bool) {
	if !s.InService() || s.AgentVersion == "" || s.HardwareSaid {
		return Verdict{}, false
	}
	return Verdict{
		Expected: "the agent says which machine it runs on", Observed: "the agent does not say it",
		Message: fmt.Sprintf("the agent of %s, version %s, does not say which machine it runs on", s.Hostname,
			s.AgentVersion),
		Details: s.seen(),
	}, true
}
