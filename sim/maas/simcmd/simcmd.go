// Package simcmd is the command that runs the MAAS simulator.
package simcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/ipmi"
	"gpuaas/sim/maas/region"
)

type flags struct {
	listen, control, dns, shape, stage, timing, state, scenario, fleetImage, bmc string
	images                                                                       []string
	machines, unknown, inFlight                                                  int
	seed                                                                         uint64
	speed                                                                        float64
	listCost                                                                     time.Duration
	verbose                                                                      bool
}

// Command returns `maas`, to be mounted below the command for simulators.
func Command() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "maas",
		Short: "Run a simulated MAAS region with machines that behave",
		Long: `Run a simulated MAAS region. It prints the URL and the API key of an
administrator, and runs until it is interrupted.

The control API makes things go wrong and lets things happen past the API. It
is off unless an address is given, and answers only who gives the password in the
URL that is printed; it speaks plain HTTP, so that address should be one of the
loopback interface.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return run(ctx, c, &f)
		},
	}
	p := c.Flags()
	p.StringVar(&f.listen, "listen", "127.0.0.1:5240", "address of the API")
	p.StringVar(&f.control, "control", "", "address of the control API; none when empty")
	p.StringVar(&f.dns, "upstream-dns", "1.1.1.1 8.8.8.8",
		"DNS servers that the region forwards to; a fresh MAAS has none")
	p.IntVar(&f.machines, "machines", 10, "number of machines")
	p.IntVar(&f.unknown, "unknown", 0, "number of further servers that MAAS does not know yet")
	p.StringVar(&f.shape, "shape", "xe9680-h200", "shape of the machines: "+strings.Join(fleet.Shapes(), " or "))
	p.StringVar(&f.stage, "stage", "ready", "status that machines start in: new, ready or deployed")
	p.StringVar(&f.fleetImage, "deployed-image", "", "image of machines that start deployed")
	p.StringSliceVar(&f.images, "image", nil, "further image, as custom/NAME; may be repeated")
	p.Uint64Var(&f.seed, "seed", 1, "seed: the same one makes the same fleet and the same chances")
	p.Float64Var(&f.speed, "speed", 1, "speed of time for machines: 60 makes an hour a minute")
	p.StringVar(&f.timing, "timing", string(region.PaceRealistic), "how long phases take: zero, realistic or triangular")
	p.StringVar(&f.state, "state", "", "file that the region is kept in; nothing is kept when empty")
	p.StringVar(&f.scenario, "scenario", "", "YAML file of what goes wrong")
	p.DurationVar(&f.listCost, "list-cost", 0, "time that each machine of a listing takes; MAAS takes about 80ms")
	p.IntVar(&f.inFlight, "in-flight", 0, "requests worked on at once; 16 when 0")
	p.StringVar(&f.bmc, "bmc", "process", fmt.Sprintf(
		"BMCs of the machines: process, inside this one, or ipmi, which speak IPMI on loopback ports (at most %d)",
		ipmi.Most))
	p.BoolVar(&f.verbose, "verbose", false, "log every request")
	c.AddCommand(&cobra.Command{
		Use: "chassis", Short: "Do what ipmi_sim asks of a chassis", Hidden: true, SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, args []string) error { return ipmi.Chassis(args, c.OutOrStdout()) },
	})
	return c
}

func run(ctx context.Context, c *cobra.Command, f *flags) error {
	o, err := f.options(c)
	if err != nil {
		return err
	}
	if f.bmc == "ipmi" {
		bmcs, stop, err := f.startBMCs(ctx, c)
		if err != nil {
			return fmt.Errorf("start BMCs: %w", err)
		}
		defer stop()
		o.BMC = bmcs
	}
	r, err := maas.Start(o)
	if err != nil {
		return fmt.Errorf("start simulator: %w", err)
	}
	out := c.OutOrStdout()
	_, err = fmt.Fprintf(out, "MAAS URL:       %s\nAPI token:      %s\nOperator token: %s\nMachines:       %d\n", r.URL,
		r.Token, r.OperatorToken, r.Count())
	if err == nil && r.ControlURL != "" {
		_, err = fmt.Fprintf(out, "Control API:    %s\n", r.ControlURL)
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, r.Close())
}

// startBMCs gives each server of the fleet a BMC with the account that the
// fleet has on record, and prints where it listens.
func (f *flags) startBMCs(ctx context.Context, c *cobra.Command) (*ipmi.BMCs, func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "gpuaas-bmc-")
	if err != nil {
		return nil, nil, fmt.Errorf("make folder: %w", err)
	}
	discard := func() {
		if err := os.RemoveAll(dir); err != nil {
			c.PrintErrln("remove folder of BMCs:", err)
		}
	}
	o := ipmi.Options{Dir: dir, Chassis: append(append([]string{self}, strings.Fields(c.CommandPath())[1:]...), "chassis")}
	for n := 1; n <= f.machines+f.unknown; n++ {
		on := n <= f.machines && strings.EqualFold(f.stage, "deployed")
		o.Machines = append(o.Machines, ipmi.Machine{Address: fleet.BMCAddress(n), User: "root", Pass: "calvin", On: on})
	}
	bmcs, err := ipmi.Start(ctx, o)
	if err != nil {
		discard()
		return nil, nil, err
	}
	for _, m := range o.Machines {
		if _, err = fmt.Fprintf(c.OutOrStdout(), "BMC %-12s %s\n", m.Address+":", bmcs.Endpoint(m.Address)); err != nil {
			break
		}
	}
	stop := func() {
		bmcs.Stop()
		discard()
	}
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("print BMCs: %w", err)
	}
	return bmcs, stop, nil
}

func (f *flags) options(c *cobra.Command) (maas.Options, error) {
	pace, err := region.ParsePace(f.timing)
	if err != nil {
		return maas.Options{}, fmt.Errorf("read --timing: %w", err)
	}
	if f.speed <= 0 || f.machines < 0 || f.unknown < 0 || f.listCost < 0 || f.inFlight < 0 {
		return maas.Options{},
			errors.New("--speed is positive; --machines, --unknown, --list-cost and --in-flight are not negative")
	}
	if f.bmc != "process" && f.bmc != "ipmi" {
		return maas.Options{}, fmt.Errorf("--bmc is process or ipmi, not %q", f.bmc)
	}
	if f.bmc == "ipmi" && f.state != "" {
		return maas.Options{},
			errors.New("--bmc ipmi does not go with --state: BMCs start with the accounts and the power of a fresh fleet")
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	o := maas.Options{
		Listen: f.listen, Control: f.control, Seed: f.seed, Timing: region.Timing{Pace: pace, Speed: f.speed},
		Images: f.images, State: f.state,
		Fleet: fleet.Options{
			Machines: f.machines, Unknown: f.unknown, Shape: f.shape, Stage: f.stage,
			Image: f.fleetImage,
		},
		Settings: map[string]string{"upstream_dns": f.dns},
		ListCost: f.listCost, InFlight: f.inFlight,
		Log: slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: level})),
	}
	if f.scenario == "" {
		return o, nil
	}
	b, err := os.ReadFile(f.scenario)
	if err != nil {
		return o, fmt.Errorf("open scenario: %w", err)
	}
	if o.Scenario, err = fault.ReadScenario(b); err != nil {
		return o, fmt.Errorf("%s: %w", f.scenario, err)
	}
	return o, nil
}
