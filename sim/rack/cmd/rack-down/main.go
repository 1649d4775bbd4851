// Command rack-down removes every virtual rack of this system.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gpuaas/sim/rack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	err := rack.RemoveAll(ctx, func(detail string) { fmt.Println(detail) })
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rack-down:", err)
		os.Exit(1)
	}
}
