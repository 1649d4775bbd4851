package reconciliation

import "fmt"

// TypeDuplicateBinding says: several nodes are bound to one machine.
const TypeDuplicateBinding Type = "duplicate_binding"

var ruleDuplicateBinding = Rule{
	Type: TypeDuplicateBinding, Severity: Critical, Looks: 1, Action: None,
	Title: "One machine for several nodes",
	Means: "Several nodes claim the same machine: what is done to one of them affects the other, and its capacity is " +
		"counted twice.",
	When: whenDuplicateBinding,
	Advice: []string{
		adviceShow, "Find out on the machine which of the nodes it is: gpuaas-agent status",
		`gpuaas drift resolve NODE quarantine: quarantine the wrong node immediately`,
		`gpuaas node remove NODE: remove the wrong node once it is retired; this does not touch the machine`,
	},
	Holds:   "Another node that is not deleted is bound to the same machine of the same MAAS.",
	Runbook: "machine-missing-in-maas",
}

func whenDuplicateBinding(s Subject) (Verdict, bool) {
	if len(s.Others) == 0 {
		return Verdict{}, false
	}
	others := make([]string, len(s.Others))
	for i, n := range s.Others {
		others[i] = n.String()
	}
	return Verdict{
		Expected: "one node", Observed: fmt.Sprintf("%d nodes", len(others)+1),
		Message: fmt.Sprintf("machine %s is that of %s and of %d further nodes", s.SystemID, s.Hostname, len(others)),
		Details: s.with(map[string]any{"other_nodes": others}),
	}, true
}
