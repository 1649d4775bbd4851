package server

import (
	"github.com/spf13/cobra"

	"gpuaas/sim/fleet/fleetcmd"
	"gpuaas/sim/lab/labcmd"
	"gpuaas/sim/maas/simcmd"
	"gpuaas/sim/rack/rackcmd"
)

// Commands are the commands of a program of this version. Those that talk to a control plane find
// it with connect.
func Commands(version string, connect labcmd.Connect) []*cobra.Command {
	return []*cobra.Command{
		upCommand(version), serveCommand(version), migrateCommand(), configCommand(), adminCommand(),
		backupCommand(version), contractCommand(),
		simCommand(version, connect),
	}
}

func simCommand(version string, connect labcmd.Connect) *cobra.Command {
	cmd := &cobra.Command{Use: "sim", Short: "Run simulators of what a control plane works with"}
	cmd.AddCommand(simcmd.Command(), rackcmd.Command(), fleetcmd.Command(), labcmd.SiteCommand(connect),
		labcmd.MachinesCommand(), labcmd.RunCommand(), faultsCommand(version))
	return cmd
}
