package reconciliation

// TypeUnusedPowerOverride is about a site: it has BMC credentials that no
// machine uses.
const TypeUnusedPowerOverride Type = "unused_power_override"

var ruleUnusedPowerOverride = Rule{
	Type: TypeUnusedPowerOverride, Severity: Info, Looks: 1, Action: None, Standing: true,
	Title: "Power credentials that no machine uses",
	Means: "Credentials of a BMC are kept for a machine that is no node and on its way to none: a typing mistake, or " +
		"left over from one that is gone.",
	Advice: []string{
		"gpuaas site power-override list SITE: what they were written for",
		"gpuaas site power-override delete SITE ID: if the machine is not to come",
	},
	Holds: "A power credential override of the site was made a while ago and fits no node and no open onboarding.",
}
