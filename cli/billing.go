package cli

import "github.com/spf13/cobra"

func (a *app) billingCommand() *cobra.Command {
	return a.noun(noun{
		use: "billing", short: "What renting costs", group: groupRent,
	}, a.pricesCommand())
}
