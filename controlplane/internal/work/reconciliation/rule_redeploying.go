package reconciliation

// TypeRedeploying says: somebody reinstalls the machine of a node.
const TypeRedeploying Type = "redeploying"

var ruleRedeploying = Rule{
	Type: TypeRedeploying, Severity: Critical, Looks: 2, Action: Quarantine,
	Title: "Redeployed outside gpuaas",
	Means: "Somebody is installing another system over the one that the node runs on; what tenants had there is destroyed.",
	When:  inState("the machine of %s is %s in MAAS: somebody is reinstalling it", Deploying),
	Advice: []string{
		adviceShow, adviceAskMAAS, adviceReimage, adviceTakeOut,
	},
	Holds:   "MAAS shows the machine of a node that is active, offline or quarantined as Deploying.",
	Runbook: "machine-changed-in-maas",
}
