// Command gpuaas is the control plane and its command line in one program.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gpuaas/cli"
	"gpuaas/server"
)

// version is set when the program is built.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Main(ctx, cli.Program{
		Version: version, Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(),
		Server: server.Commands(version, cli.Client),
	}))
}
