package reconciliation

// TypeUnusedPowerOverride is about a site: it has BMC credentials that no
// machine uses.
const TypeUnusedPowerOverride Type = "unused_power_override"

var ruleUnusedPowerOverride = Rule{
	Type: TypeUnusedPowerOverride, Severity: Info, Looks: 1, Action: None, Standing: true,
	Title: "Power credentials that no machine uses",
	Means: "BMC credentials are stored for a machine that is not a node and is not being onboarded: a typing mistake, or " +
		"left over from a removed machine.",
	Advice: []string{
		"gpuaas site power-override list SITE: what they were written for",
		"gpuaas site power-override delete SITE ID: if the machine is not to come",
	},
	Holds: "A power credential override of the site was made a while ago and fits no node and no open onboarding.",
}
