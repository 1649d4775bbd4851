package reconciliation

// TypeRecommissioning says: MAAS works on the machine of a node.
const TypeRecommissioning Type = "recommissioning"

var ruleRecommissioning = Rule{
	Type: TypeRecommissioning, Severity: Warning, Looks: 2, Action: None,
	Title: "Under maintenance in MAAS",
	Means: "Somebody is commissioning, testing or rescuing the machine: until that ends it runs another system; " +
		"afterwards it may be unchanged.",
	When: inState("the machine of %s is %s in MAAS: somebody works on it there", Maintenance),
	Advice: []string{
		adviceShow, adviceAskMAAS, "Wait: the finding closes on its own once MAAS shows the machine as Deployed",
		adviceQuarantine,
	},
	Holds: "MAAS shows the machine of a node that is active, offline or quarantined as Commissioning or Testing, or " +
		"in, entering or leaving rescue mode.",
	Runbook: "machine-changed-in-maas",
}
