package reconciliation

// TypeBreakerOpen is about a site: so many of its nodes would be quarantined
// that MAAS is more likely to be wrong than the nodes.
const TypeBreakerOpen Type = "breaker_open"

var ruleBreakerOpen = Rule{
	Type: TypeBreakerOpen, Severity: Critical, Looks: 1, Action: None,
	Title: "Too many nodes at once: nothing is quarantined",
	Means: "Either something happened to many machines at once, or MAAS reports wrong data; no node of the site is " +
		"quarantined until somebody decides; those whose machine was released get no new work meanwhile.",
	Advice: []string{
		"gpuaas reconcile status --site SITE: the nodes, and how MAAS showed their machines",
		"Look at some of those machines in MAAS and on site",
		`gpuaas reconcile confirm --site SITE: if MAAS is right; quarantines exactly the listed nodes`,
		`gpuaas reconcile dismiss --site SITE: if MAAS is wrong or the problem is solved; quarantines none`,
	},
	Holds: "More nodes of a site would be quarantined within an hour than 5 % of those bound there, and more than 3, " +
		"unless the settings say otherwise.",
	Runbook: "reconciliation-breaker-open",
}
