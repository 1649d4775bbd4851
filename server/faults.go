package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/controlplane"
	"gpuaas/sim/faults"
	"gpuaas/stack"
)

func faultsCommand(version string) *cobra.Command {
	f := faultRun{version: version}
	cmd := &cobra.Command{
		Use: "faults", Short: "Make onboardings, decommissions and allocations go wrong in every way, and see what becomes of them",
		Args: cobra.NoArgs,
		Long: "Starts engines, a control plane and a simulated data centre of its own, makes every stage of onboardings,\n" +
			"decommissions and allocations go wrong in every way, does what an operator is told to do, and reports. It ends with an error when\n" +
			"something does not hold that must hold: no machine is deployed twice, no node is schedulable that is not proven\n" +
			"clean, no secret is found anywhere, and at least 90 % of the cases are resolved by themselves or by the first\n" +
			"action that is recommended.",
	}
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "the same seed makes the same things go wrong")
	cmd.Flags().StringVar(&f.choice.Family, "family", allFamilies, "only cases of onboarding, decommission or allocation, only paths (path), or all")
	cmd.Flags().StringVar(&f.choice.Stage, "stage", "", "only cases of this stage")
	cmd.Flags().StringVar(&f.choice.Kind, "kind", "", "only cases of this kind")
	cmd.Flags().StringVar(&f.choice.Case, "case", "", "only cases whose name (stage/kind, mode/stage/kind, path/name) has this in it")
	cmd.Flags().BoolVar(&f.sample, "sample", false, "one case of each stage of each family, and some paths")
	cmd.Flags().IntVar(&f.parallel, "parallel", 8, "cases at a time")
	cmd.Flags().StringVar(&f.report, "report", "", "write the report to this file, too, as Markdown")
	cmd.Flags().BoolVar(&f.list, "list", false, "list the cases and try none")
	cmd.Flags().StringVar(&f.servers, "servers", "", "path of the gpuaas-servers program (GPUAAS_SERVERS)")
	cmd.Flags().StringVar(&f.keepLog, "log", "", "keep the log of the control plane in this file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }
	return cmd
}

const allFamilies = "all"

// faultRun is one run over the catalogue of faults.
type faultRun struct {
	version         string
	seed            uint64
	choice          faults.Choice
	sample, list    bool
	parallel        int
	report, servers string
	keepLog         string

	state string
	log   string
	token string
}

func (f *faultRun) run(cmd *cobra.Command) (err error) {
	if f.choice.Family == allFamilies {
		f.choice.Family = ""
	}
	if family := faults.Family(f.choice.Family); family != "" && !slices.Contains(faults.Groups, family) {
		return fmt.Errorf("there is no family %s; choose of %v, or all", family, faults.Groups)
	}
	cases := faults.Choose(faults.Catalogue(), f.choice)
	if f.sample {
		cases = faults.Sample(cases, f.seed)
	}
	if len(cases) == 0 {
		return errors.New("no case is called so; see: gpuaas sim faults --list")
	}
	if f.list {
		for _, c := range cases {
			cmd.Printf("%-66s %s%s\n", c.Name(), c.What, c.NotApplicable)
		}
		return nil
	}
	ctx := cmd.Context()
	if err := stack.SweepThrowaways(ctx); err != nil {
		return err
	}
	f.state = stack.ThrowawayFolder("-faults")
	defer func() { err = errors.Join(err, os.RemoveAll(f.state)) }()
	engines, err := stack.Start(ctx, stack.Options{State: f.state, Servers: f.servers, Throwaway: true})
	if err != nil {
		return err
	}
	stop := func() error { return engines.Stop(context.WithoutCancel(ctx)) }
	defer func() { err = errors.Join(err, stop()) }()
	world, err := faults.OpenWorld(f.seed, cases)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Lab.Close()) }()
	world.Forget = engineOf(engines.Endpoints()).forget
	past := &traces{engines: engines}
	world.Lose, world.Claims, world.Silence = past.lose, past.claims, past.silence
	report, err := f.try(cmd, engines, world, cases)
	if err != nil {
		return err
	}
	return f.conclude(cmd, report)
}

// conclude writes the report; its verdict is that of the command.
func (f *faultRun) conclude(cmd *cobra.Command, report faults.Report) error {
	cmd.Println()
	if err := report.WriteText(cmd.OutOrStdout()); err != nil {
		return err
	}
	if f.report != "" {
		var page bytes.Buffer
		if err := report.WriteMarkdown(&page); err != nil {
			return err
		}
		if err := os.WriteFile(f.report, page.Bytes(), 0o644); err != nil { //nolint:gosec // a page of documentation is for everybody
			return fmt.Errorf("write report: %w", err)
		}
	}
	return report.Verdict()
}

// try runs the cases against a control plane in this process.
func (f *faultRun) try(cmd *cobra.Command, engines *stack.Stack, world *faults.World, cases []faults.Case) (
	faults.Report, error,
) {
	life, end := context.WithCancel(cmd.Context())
	defer end()
	url, ended, err := f.startPlane(life, engines, world)
	if err != nil {
		return faults.Report{}, err
	}
	following, stopFollowing := context.WithCancel(life)
	if err := world.Connect(following, url, f.token); err != nil {
		stopFollowing()
		return faults.Report{}, err
	}
	trace := &traces{engines: engines, state: f.state, log: f.log}
	report, err := world.Run(life, faults.Options{
		Seed: f.seed, Parallel: f.parallel, Cases: cases, Telling: telling,
		Places: func(ctx context.Context, show func(string, []byte)) error {
			stopFollowing()
			end() // what is only in memory goes into the log
			<-ended
			return trace.show(context.WithoutCancel(ctx), show)
		},
		Tell: func(done, all int, o faults.Outcome) { cmd.PrintErrf("%3d/%d %s\n", done, all, o.Line()) },
	})
	stopFollowing()
	end()
	<-ended
	return report, err
}

// startPlane runs a control plane whose stages come by the trap of the world.
// It returns when everything it needs has answered.
func (f *faultRun) startPlane(ctx context.Context, engines *stack.Stack, world *faults.World) (
	url string, ended <-chan error, err error,
) {
	var lc net.ListenConfig
	api, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	nodes, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("listen for nodes: %w", err), api.Close())
	}
	f.log = filepath.Join(f.state, "controlplane.log")
	if f.keepLog != "" {
		f.log = f.keepLog
	}
	log, err := os.OpenFile(f.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("open log: %w", err), api.Close(), nodes.Close())
	}
	cfg := embedded(engines.Endpoints())
	cfg.Nodes.Listen, cfg.Nodes.URL, cfg.Nodes.SSHProxy = nodes.Addr().String(), "https://"+nodes.Addr().String(),
		world.Lab.SSHProxy
	cfg.Nodes.TLS.Names = []string{"127.0.0.1"}
	cfg.Sites.Loopback = onLoopback(world.Lab.URL)
	// What is tried here is what jobs advise, not whether reconciliation is faster.
	cfg.Reconciliation.Every, cfg.Reconciliation.SweepWithin = 24*time.Hour, 72*time.Hour
	if problems := cfg.Validate(); len(problems) > 0 {
		return "", nil, errors.Join(append(problems, api.Close(), nodes.Close(), log.Close())...)
	}
	ready, over := make(chan string, 1), make(chan error, 1)
	go func() {
		defer close(over)
		over <- errors.Join(controlplane.Run(ctx, cfg, controlplane.Options{
			Version: f.version, Log: log, Listener: api, NodeListener: nodes, Mischief: trapped{world.Trap}, HurryRetries: true,
			KeepAdminToken: func(token controlplane.Secret) error { f.token = strings.TrimSpace(token.Reveal()); return nil },
			Ready:          func(a controlplane.Announcement) { ready <- "http://" + a.Address },
		}), log.Close())
	}()
	select {
	case url = <-ready:
		return url, over, nil
	case err := <-over:
		return "", nil, fmt.Errorf("run control plane: %w", errors.Join(err, ctx.Err()))
	}
}

// trapped leads the stages of a control plane by a trap.
type trapped struct{ trap *faults.Trap }

// Before implements controlplane.Mischief.
func (t trapped) Before(ctx context.Context, at controlplane.Point) controlplane.Mishap {
	return controlplane.Mishap(t.trap.Before(ctx, faults.Point(at)))
}

// After implements controlplane.Mischief.
func (t trapped) After(ctx context.Context, at controlplane.Point) controlplane.Mishap {
	return controlplane.Mishap(t.trap.After(ctx, faults.Point(at)))
}
