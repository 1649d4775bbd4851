package reconciliation

// TypeUnmanagedMachine is about a site: MAAS has a machine that is no node.
const TypeUnmanagedMachine Type = "unmanaged_machine"

var ruleUnmanagedMachine = Rule{
	Type: TypeUnmanagedMachine, Severity: Debug, Looks: 1, Action: None, Standing: true,
	Title: "MAAS machine that is not a node",
	Means: "MAAS has a machine that is not in the inventory: others use it, or nobody has onboarded it yet.",
	Advice: []string{
		"gpuaas onboard HOSTNAME --ipmi-ip ADDRESS --site SITE --sku SKU: if it is to become a node",
	},
	Holds: "A MAAS machine belongs to no node and to no job.",
}
