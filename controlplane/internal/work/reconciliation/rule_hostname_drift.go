package reconciliation

import (
	"fmt"
	"strings"
)

// TypeHostnameDrift says: MAAS has another name for the machine than the
// inventory has for the node.
const TypeHostnameDrift Type = "hostname_drift"

var ruleHostnameDrift = Rule{
	Type: TypeHostnameDrift, Severity: Warning, Looks: 2, Action: None,
	Title: "Different name in MAAS",
	Means: "People and tools that go by the name reach another machine than they think; addresses that are assigned by " +
		"name may be wrong.",
	When: whenHostnameDrift,
	Advice: []string{
		adviceShow, "Rename the machine in MAAS if somebody renamed it by mistake: the node keeps its name",
		`gpuaas drift resolve NODE acknowledge: if that is intended`, adviceReimage,
	},
	Holds: "The machine of a node that is active, offline or quarantined has another name in MAAS. Case and domain do " +
		"not count.",
	Runbook: "machine-settings-drifted",
}

func whenHostnameDrift(s Subject) (Verdict, bool) {
	if !s.judgedByMachine() || s.Machine == nil || s.Machine.Hostname == "" || sameName(s.Hostname, s.Machine.Hostname) {
		return Verdict{}, false
	}
	return Verdict{
		Expected: shortName(s.Hostname), Observed: s.Machine.Hostname,
		Message: fmt.Sprintf("the machine of %s is named %s in MAAS", s.Hostname, s.Machine.Hostname),
		Details: s.with(map[string]any{"observed_hostname": s.Machine.Hostname}),
	}, true
}

// sameName compares names without their domains: MAAS keeps domains apart.
func sameName(a, b string) bool { return strings.EqualFold(shortName(a), shortName(b)) }

func shortName(host string) string {
	short, _, _ := strings.Cut(host, ".")
	return short
}
