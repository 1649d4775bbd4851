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
		"gpuaas site power-override delete SITE ID: if you will not onboard the machine",
	},
	Holds: "A power credential override of the site is not new and matches no node and no unfinished onboarding.",
}
