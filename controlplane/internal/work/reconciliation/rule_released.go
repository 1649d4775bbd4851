package reconciliation

// TypeReleased says: MAAS has released the machine although the node uses it.
const TypeReleased Type = "released"

var ruleReleased = Rule{
	Type: TypeReleased, Severity: Critical, Looks: 2, Action: Quarantine,
	Title: "Released outside gpuaas",
	Means: "The node's operating system and agent are gone or about to go; work placed on it " +
		"fails.",
	When: inState("the machine of %s is %s in MAAS: it was released, or nothing is installed on it any more", Free,
		Taken, Leaving, Withdrawn, Hollow),
	Advice: []string{adviceShow, adviceAskMAAS, adviceReinstall, adviceTakeOut},
	Holds: "MAAS shows the machine of a node that is active, offline or quarantined as Ready, New, Allocated, " +
		"Reserved, Releasing, Disk erasing, Retired or Missing, or as Deployed with nothing installed.",
	Runbook: "machine-changed-in-maas",
}
