// Command withstack runs a command, usually `go test`, with one throwaway stack
// that all test processes share:
//
//	go run ./stack/cmd/withstack -- go test ./...
//
// It exits with the code of the command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"gpuaas/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withstack:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int, err error) {
	flags := flag.NewFlagSet("withstack", flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated `engines` (postgres, temporal, bao, nats); all when empty")
	verbose := flags.Bool("v", false, "tell what the stack does")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	if flags.NArg() == 0 {
		return 0, errors.New("no command given; usage: withstack [-only ENGINES] [-v] -- COMMAND [ARGUMENT...]")
	}
	options := stack.Options{Throwaway: true, State: stack.ThrowawayFolder("")}
	if *only != "" {
		for name := range strings.SplitSeq(*only, ",") {
			options.Only = append(options.Only, stack.Engine(name))
		}
	}
	if *verbose {
		options.Progress = func(p stack.Progress) {
			fmt.Fprintf(os.Stderr, "withstack: %-8s %-10s %5dms %s\n", p.Engine, p.Phase, p.Elapsed.Milliseconds(), p.Detail)
		}
	}
	if err := stack.SweepThrowaways(ctx); err != nil {
		return 0, err
	}
	s, err := stack.Start(ctx, options)
	if err != nil {
		return 0, errors.Join(err, os.RemoveAll(options.State))
	}
	defer func() {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, s.Stop(patience), os.RemoveAll(options.State))
	}()
	description, err := s.HandOver()
	if err != nil {
		return 0, err
	}
	return stack.Run(ctx, flags.Args(), stack.TestStackVariable+"="+description)
}
