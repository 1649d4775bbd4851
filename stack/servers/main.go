// Command gpuaas-servers holds the heavy servers of the embedded stack in one
// binary: a whole Temporal server and an OpenBao core. It is its own module, so
// that their dependency trees stay out of the product's go.mod.
//
// The launcher (gpuaas/stack) writes the configuration files, starts one
// process per server and speaks to them over loopback. Secrets travel in those
// files (mode 0600), never in arguments or the environment.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"gpuaas-servers/baod"
	"gpuaas-servers/temporald"
)

const usage = "usage: gpuaas-servers temporal|bao --config FILE"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gpuaas-servers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	file := flags.String("config", "", "JSON configuration `file`")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("parse arguments: %w", err)
	}
	switch args[0] {
	case "temporal":
		return serve(ctx, *file, temporald.Serve)
	case "bao":
		return serve(ctx, *file, baod.Serve)
	}
	return fmt.Errorf("unknown server %q; %s", args[0], usage)
}

// serve reads the configuration strictly: an unknown field means that launcher
// and servers come from different versions.
func serve[C any](ctx context.Context, file string, server func(context.Context, C) error) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("open configuration: %w; %s", err, usage)
	}
	defer f.Close()
	var config C
	decoder := json.NewDecoder(f)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return fmt.Errorf("read configuration %s: %w (rebuild the servers with tools/build-servers.sh)", file, err)
	}
	return server(ctx, config)
}
