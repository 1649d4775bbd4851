// Command gpuaas-gpu does what needs a GPU driver's library: it says which
// GPUs a host has, and overwrites their memory. The agent starts it and reads
// lines of JSON from it, so that a crash in a driver is not a crash of the
// agent.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"gpuaas/cmd/gpuaas-gpu/internal/cuda"
	"gpuaas/cmd/gpuaas-gpu/internal/hip"
	"gpuaas/cmd/gpuaas-gpu/internal/nvml"
)

// version is set when the program is built.
var version = "dev"

// Exit statuses. A result is printed with exitDone and exitFailed.
const (
	exitDone   = 0
	exitBroken = 1
	exitUsage  = 2
	exitFailed = 3
)

// interruptGrace is shorter than the agent waits before it kills.
const interruptGrace = 3 * time.Second

const usage = `usage: gpuaas-gpu inspect
       gpuaas-gpu scrub [--gpu UUID]...
       gpuaas-gpu version

inspect prints one line of JSON: the GPUs of this host, their memory and the
processes on them. A host without GPUs is an answer, not an error.

scrub overwrites all memory of the GPUs that can be allocated, reads it back on
the GPU and leaves zeros. It prints a line of JSON for each phase and one with
the result. The exit status is 3 when a GPU could not be scrubbed.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command, uuids, err := parse(args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "gpuaas-gpu: %v\n%s", err, usage)
		return exitUsage
	}
	lines := &lineWriter{to: stdout}
	switch command {
	case "version":
		lines.print(map[string]string{"type": "version", "version": version})
	case "inspect":
		h, done := thisHost()
		defer done()
		lines.print(h.inspect())
	case "scrub":
		h, done := thisHost()
		defer done()
		result := scrubHost(ctx, h, uuids, lines.print)
		lines.print(result)
		if result.Outcome == outcomeFailed && lines.err == nil {
			return exitFailed
		}
	}
	if lines.err != nil {
		_, _ = fmt.Fprintf(stderr, "gpuaas-gpu: write result: %v\n", lines.err)
		return exitBroken
	}
	return exitDone
}

func parse(args []string) (command string, uuids []string, err error) {
	if len(args) == 0 {
		return "", nil, errors.New("no command")
	}
	flags := flag.NewFlagSet("gpuaas-gpu", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	switch args[0] {
	case "inspect", "version":
	case "scrub":
		flags.Func("gpu", "", func(uuid string) error {
			if uuid == "" {
				return errors.New("empty UUID")
			}
			uuids = append(uuids, uuid)
			return nil
		})
	default:
		return "", nil, fmt.Errorf("unknown command %q", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return "", nil, err
	}
	if flags.NArg() > 0 {
		return "", nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return args[0], uuids, nil
}

// thisHost opens the machine that the program runs on.
func thisHost() (h host, done func()) {
	setEnvironment()
	h = host{sys: os.DirFS("/sys")}
	// systemd says here that it runs in a container.
	if _, err := os.Stat("/run/systemd/container"); err == nil {
		h.container = true
	}
	lib, err := nvml.Open()
	if err != nil {
		h.nvidiaErr = err
		return h, func() {}
	}
	h.nvidia = lib
	return h, func() { _ = lib.Close() } // the process ends here in any case
}

// setEnvironment takes away whatever the environment asks of the driver, such
// as hiding GPUs, and asks for what the scrub needs: kernels loaded before all
// memory is taken, and no files of compiled kernels left behind.
func setEnvironment() {
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		_ = os.Unsetenv(name) // one by one: os.Clearenv does not reach the C library's copy
	}
	for name, value := range map[string]string{
		"CUDA_MODULE_LOADING": "EAGER", "CUDA_CACHE_DISABLE": "1", "AMD_COMGR_CACHE": "0",
	} {
		_ = os.Setenv(name, value) // fails for malformed names alone
	}
}

func scrubHost(ctx context.Context, h host, uuids []string, emit func(any)) scrubReport {
	nvidiaLibrary, amdLibrary := sync.OnceValues(cuda.Open), sync.OnceValues(hip.Open)
	s := scrubber{
		host: h, self: os.Getpid(), now: time.Now, emit: emit, grace: interruptGrace,
		open: func(vendor string, g gpu) (session, error) {
			if vendor == vendorAMD {
				lib, err := amdLibrary()
				if err != nil {
					return nil, err
				}
				return lib.Session(g.PCI, g.Architecture)
			}
			lib, err := nvidiaLibrary()
			if err != nil {
				return nil, err
			}
			return lib.Session(g.UUID)
		},
	}
	return s.scrub(ctx, uuids)
}

// lineWriter prints values as lines of JSON, from several goroutines.
type lineWriter struct {
	mu  sync.Mutex
	to  io.Writer
	err error
}

func (w *lineWriter) print(v any) {
	b, err := json.Marshal(v)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		_, err = w.to.Write(append(b, '\n'))
	}
	if w.err == nil {
		w.err = err
	}
}
