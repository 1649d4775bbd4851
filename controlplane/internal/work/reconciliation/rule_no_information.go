package reconciliation

// TypeNoInformation is about a site: MAAS does not say how its machines are.
const TypeNoInformation Type = "no_information"

var ruleNoInformation = Rule{
	Type: TypeNoInformation, Severity: Warning, Looks: 1, Action: None,
	Title: "No useful answers from MAAS",
	Means: "MAAS has given no useful answers for a long time: drift at the site goes unnoticed, and nothing that was found " +
		"there is closed.",
	Advice: []string{
		"gpuaas reconcile status --site SITE: since when, and the error of the last attempt",
		"gpuaas site doctor SITE: whether MAAS answers, and whether the credentials work",
		"gpuaas reconcile --site SITE --full: once it answers, look at everything at once",
	},
	Holds:   "MAAS has given no useful answers for more than three cycles.",
	Runbook: "reconciliation-no-information",
}
