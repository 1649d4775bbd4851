// Command gpuaas-registry is the registry of the embedded stack: the server of the CNCF
// project Distribution with the drivers that the stack needs. It is its own module, so that
// its dependency tree stays out of the product's go.mod.
//
// The launcher (gpuaas/stack) writes the configuration file and starts one process. It
// listens on loopback, with mutual TLS, so that only the control plane gets in: everybody
// else comes through the control plane, which decides who may push and pull what.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gpuaas-registry:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("config", "", "configuration `file` of Distribution")
	flag.Parse()
	if *file == "" || flag.NArg() > 0 {
		return errors.New("usage: gpuaas-registry --config FILE")
	}
	f, err := os.Open(*file)
	if err != nil {
		return fmt.Errorf("open configuration: %w", err)
	}
	defer f.Close()
	config, err := configuration.Parse(f)
	if err != nil {
		return fmt.Errorf("read configuration %s: %w", *file, err)
	}
	r, err := registry.NewRegistry(context.Background(), config)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return r.ListenAndServe() // SIGTERM drains it
}
