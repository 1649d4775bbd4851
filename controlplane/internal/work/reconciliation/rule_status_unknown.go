package reconciliation

// TypeStatusUnknown says: MAAS uses a status that this release does not know.
const TypeStatusUnknown Type = "status_unknown"

var ruleStatusUnknown = Rule{
	Type: TypeStatusUnknown, Severity: Warning, Looks: 2, Action: None,
	Title: "Unknown status in MAAS",
	Means: "gpuaas does not know what this MAAS status means, so it does nothing: MAAS may be newer than this " +
		"release.",
	When: inState("the machine of %s is %.64q in MAAS, which this release does not know", Strange),
	Advice: []string{
		adviceShow, "gpuaas site doctor SITE: which version of MAAS answers, and whether it is supported",
		"Look at the machine in MAAS", adviceQuarantine,
	},
	Holds: "MAAS shows the machine of a node that is active, offline or quarantined in a status that this release " +
		"does not know.",
	Runbook: "machine-changed-in-maas",
}
