package labcmd

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/sim/lab"
	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
	"gpuaas/sim/rack"
)

type runFlags struct {
	state, kind, stage string
	machines           int
	careful            bool
	speed              float64
	seed               uint64
}

// RunCommand returns `lab`: a lab on its own, for a control plane that runs
// somewhere else.
func RunCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "lab", Short: "Run a lab on its own: a simulated MAAS whose machines run once they are deployed",
		Args: cobra.NoArgs,
		Long: `Run a lab, as gpuaas up has one, for a control plane that is run with gpuaas serve. Its
description, with the secrets of the lab, is written to lab.json in the state folder;
gpuaas sim site makes a site of it. The control plane reaches its machines through the
SSH proxy that is printed: set nodes.ssh_proxy to it. A control plane on this machine also
needs the address of the simulated MAAS in sites.loopback, or refuses to call it.

Machines of kind process are folders with a real agent; those of kind agents are
simulated inside this process, by the thousand, and are gone with it.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	p := c.Flags()
	p.StringVar(&f.state, "state", cmp.Or(os.Getenv("GPUAAS_STATE"), ".gpuaas-lab"), "folder for everything that lasts")
	p.StringVar(&f.kind, "kind", string(lab.Agents), "what deployed machines are: agents or process")
	p.StringVar(&f.stage, "stage", "new", "status that machines start in: new or ready")
	p.IntVar(&f.machines, "machines", 24, "number of machines")
	p.Float64Var(&f.speed, "hardware-speed", 0,
		"how much faster than real servers machines are; 0: everything happens at once")
	p.BoolVar(&f.careful, "careful", false, "keep every change before it is answered, so that a kill loses nothing")
	p.Uint64Var(&f.seed, "seed", 0, "seed of the fleet; 0: a random one")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c) }
	return c
}

func (f *runFlags) run(c *cobra.Command) error {
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := os.MkdirAll(f.state, 0o700); err != nil {
		return fmt.Errorf("make state folder: %w", err)
	}
	o := lab.Options{
		Log: slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Region: maas.Options{
			Control: "127.0.0.1:0", Seed: f.seed, Fleet: fleet.Options{Machines: f.machines, Stage: f.stage},
			SaveEvery: 200 * time.Millisecond, Careful: f.careful,
		},
	}
	if f.speed > 0 {
		o.Region.Timing = region.Timing{Pace: region.PaceTriangular, Ranges: region.Faster(f.speed)}
	}
	switch lab.Kind(f.kind) {
	case lab.Agents:
	case lab.Process:
		r, err := rack.Open(ctx, rack.Options{Kind: rack.Process, Folder: filepath.Join(f.state, "rack-process")})
		if err != nil {
			return err
		}
		defer func() { _ = r.Close(ctx) }()
		// agents are gone with this process, so nothing else is kept either
		o.Rack, o.Folder = r, filepath.Join(f.state, "lab")
	default:
		return fmt.Errorf("there is no kind %q: use agents or process", f.kind)
	}
	l, err := lab.Open(o)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	file := lab.RecordFile(f.state)
	if err := l.Record().Save(file); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "lab of %d machines: MAAS at %s, nodes.ssh_proxy %s, description in %s\n", l.Count(),
		l.URL, l.SSHProxy, file)
	<-ctx.Done()
	return nil
}
