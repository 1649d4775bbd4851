package cli

import "github.com/spf13/cobra"

func (a *app) operationCommand() *cobra.Command {
	return a.noun(noun{
		use: "operation", short: "Versioned work on nodes: what there is, and who allows it", group: groupMachines,
		long: "An operation does typed steps on nodes, never a free command. What it is, is in its definition; what the platform,\n" +
			"a tenant and a project allow of it, is in policies.",
	}, a.operationDefinitionCommand(), a.operationPolicyCommand())
}
