// Command gpuaas is the control plane and its command line in one program.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"gpuaas/cli"
	"gpuaas/sim/fleet/fleetcmd"
	"gpuaas/sim/lab/labcmd"
	"gpuaas/sim/maas/simcmd"
	"gpuaas/sim/rack/rackcmd"
)

// version is set when the program is built.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Main(ctx, cli.Program{
		Version: version, Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(),
		Server: []*cobra.Command{upCommand(), serveCommand(), migrateCommand(), configCommand(), adminCommand(), contractCommand(), simCommand()},
	}))
}

func simCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sim", Short: "Run simulators of what a control plane works with"}
	cmd.AddCommand(simcmd.Command(), rackcmd.Command(), fleetcmd.Command(), labcmd.SiteCommand(cli.Client), labcmd.MachinesCommand(), labcmd.RunCommand(), faultsCommand())
	return cmd
}
