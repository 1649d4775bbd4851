package reconciliation

// TypeHardwareFailed says: MAAS has given up on the machine.
const TypeHardwareFailed Type = "hardware_failed"

var ruleHardwareFailed = Rule{
	Type: TypeHardwareFailed, Severity: Critical, Looks: 2, Action: Quarantine,
	Title: "Failed or broken in MAAS",
	Means: "The hardware failed a test, somebody marked it as broken, or a MAAS action on it failed; new work placed " +
		"on it may fail.",
	When: inState("the machine of %s is %s in MAAS", Failed),
	Advice: []string{
		adviceShow, "Look at the events and the test results of the machine in MAAS, repair it, and mark it as fixed there",
		adviceReturn, adviceTakeOut,
	},
	Holds: "MAAS shows the machine of a node that is active, offline or quarantined as Broken, or in one of its " +
		"failed statuses.",
	Runbook: "machine-failed-or-off",
}
