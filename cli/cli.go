package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
)

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, p Program) int {
	return run(ctx, p, frame.Surroundings{
		Now: time.Now, Zone: time.Local, Terminal: frame.IsTerminal, Wait: frame.Wait,
	})
}

func run(ctx context.Context, p Program, around frame.Surroundings) int {
	a := newApp(p, around)
	root := a.root()
	root.SetArgs(p.Args)
	if p.Args == nil {
		root.SetArgs([]string{}) // cobra would read the arguments of the process instead
	}
	asks := []string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}
	if len(p.Args) > 0 && slices.Contains(asks, p.Args[0]) {
		frame.Propose(root)
		_ = root.RegisterFlagCompletionFunc("context", a.completeContexts) // it is defined
	}
	return a.execute(ctx, root)
}

// execute runs the command that the arguments of a tree lead to, and explains what went wrong.
func (a *app) execute(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(a.within(ctx))
	if err == nil {
		return failure.OK
	}
	f := a.FailureOf(ctx, err)
	a.Explain(f, func(field string) string { return fieldTyped(cmd, field) })
	return f.Exit
}

const (
	groupIdentity = "identity"
	groupWatching = "watching"
	groupRent     = "rent"
	groupMachines = "machines"
	groupSession  = "session"
	groupServer   = "server"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "gpuaas",
		Short: "Control plane for bare GPU servers, and its command line",
		Long: "gpuaas runs a control plane for bare GPU servers and talks to one.\n\n" +
			"To bring one up on this machine:    gpuaas up\n" +
			"To talk to one:                     gpuaas login --url URL",
		Version:       a.Program.Version,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetIn(a.Program.In)
	root.SetOut(a.Program.Out)
	root.SetErr(a.Program.Err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(misusedFlag)
	a.addGlobalFlags(root)
	root.AddGroup(
		&cobra.Group{ID: groupSession, Title: "Signing in:"},
		&cobra.Group{ID: groupIdentity, Title: "People, tenants and access:"},
		&cobra.Group{ID: groupRent, Title: "What you rent:"},
		&cobra.Group{ID: groupMachines, Title: "Machines and where they come from:"},
		&cobra.Group{ID: groupWatching, Title: "Events and state of the system:"},
		&cobra.Group{ID: groupServer, Title: "Control plane:"},
	)
	root.AddCommand(
		a.loginCommand(), a.logoutCommand(), a.whoamiCommand(), a.contextCommand(), a.authCommand(),
		a.tenantCommand(), a.projectCommand(), a.memberCommand(), a.userCommand(), a.serviceAccountCommand(),
		a.tokenCommand(), a.keyCommand(), a.quotaCommand(),
		a.allocationCommand(), a.reservationCommand(), a.maintenanceCommand(), a.webhookCommand(),
		a.billingCommand(), a.sshCommand(),
		a.fleetCommand(), a.onboardCommand(), a.onboardingCommand(), a.nodeCommand(), a.agentCommand(), a.driftCommand(),
		a.reconcileCommand(),
		a.decommissionCommand(), a.operationCommand(), a.artifactCommand(), a.terminalCommand(), a.terminalSessionCommand(),
		a.certificateCommand(), a.skuCommand(), a.signerCommand(), a.trustCommand(), a.siteCommand(),
		a.auditCommand(), a.eventsCommand(), a.outboxCommand(), a.selfCheckCommand(), a.systemCommand(), a.lifecycleCommand(),
		a.adminCommand(), a.versionCommand(), exitCodesTopic(), environmentTopic(),
	)
	for _, c := range a.Program.Server {
		c.GroupID = groupServer
		c.SetUsageTemplate(withoutGlobalFlags(c.UsageTemplate()))
		if shared, _, err := root.Find([]string{c.Name()}); err == nil && shared != root { // both have commands of that noun
			for _, verb := range c.Commands() {
				verb.SetUsageTemplate(c.UsageTemplate())
				shared.AddCommand(verb)
			}
			continue
		}
		root.AddCommand(c)
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	harden(root)
	return root
}

func (a *app) addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVarP(&a.Flags.Output, "output", "o", "", "how to print: table, wide (with ids), json or yaml (GPUAAS_OUTPUT)")
	f.BoolVar(&a.Flags.NoHeaders, "no-headers", false, "print tables without column titles")
	f.StringVar(&a.Flags.Context, "context", "", "the context to use (GPUAAS_CONTEXT; otherwise the current one)")
	f.StringVar(&a.Flags.TokenFile, "token-file", "", "read the token from this file, - for standard input (GPUAAS_TOKEN)")
	f.StringVar(&a.Flags.IdempotencyKey, "idempotency-key", "",
		"key of an earlier run, to repeat its change safely")
	frame.Complete(root, "output", output.Formats()...)
	_ = root.MarkPersistentFlagFilename("token-file") // it was defined above
}

// withoutGlobalFlags keeps the flags of a client out of the help of a server.
func withoutGlobalFlags(template string) string {
	before, rest, found := strings.Cut(template, "{{if .HasAvailableInheritedFlags}}")
	if !found {
		return template
	}
	_, after, found := strings.Cut(rest, "{{end}}")
	if !found {
		return template
	}
	return before + after
}

// harden makes misuse of any command, also those that come from outside, a usage error with
// exit code 2: cobra by itself prints help and succeeds when a verb is unknown.
func harden(cmd *cobra.Command) {
	for _, own := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} { // LocalFlags is slow: it merges them anew
		own.VisitAll(asTyped)
	}
	for _, c := range cmd.Commands() {
		harden(c)
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		}
		return
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return misusedArguments(cmd, args, err)
			}
			return nil
		}
	}
}

// asTyped shows the default of a flag as one would type it: 12h, not 12h0m0s.
func asTyped(f *pflag.Flag) {
	if d, err := time.ParseDuration(f.DefValue); err == nil && f.Value.Type() == "duration" {
		f.DefValue = moment.Whole(d)
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	err := failure.Misuse(cmd, "there is no command %q under %q", name, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		err.Remedy = "did you mean: " + cmd.CommandPath() + " " + strings.Join(near, ", or "+cmd.CommandPath()+" ")
	}
	return err
}
