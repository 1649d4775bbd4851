package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Program is everything a run of the command line takes from the world around it.
type Program struct {
	Version  string
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	Environ  []string
	// Server holds the commands that run or prepare a control plane rather than talk to one.
	Server []*cobra.Command
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, p Program) int {
	return run(ctx, p, surroundings{
		now: time.Now, zone: time.Local, terminal: isTerminal, wait: wait,
	})
}

// surroundings is what tests replace so that they need neither wait nor guess.
type surroundings struct {
	now      func() time.Time
	zone     *time.Location
	terminal func(io.Writer) bool
	wait     func(context.Context, time.Duration) error
}

func run(ctx context.Context, p Program, around surroundings) int {
	a := newApp(p, around)
	root := a.root()
	root.SetArgs(p.Args)
	if p.Args == nil {
		root.SetArgs([]string{}) // cobra would read the arguments of the process instead
	}
	err := root.ExecuteContext(a.within(ctx))
	if err == nil {
		return exitOK
	}
	f := a.failureOf(ctx, err)
	a.explain(f)
	return f.exit
}

// app is one run of the command line.
type app struct {
	surroundings
	program Program
	env     map[string]string
	flags   struct {
		output, context, tokenFile, idempotencyKey string
		noHeaders                                  bool
	}
	connected *connection // set once a control plane was chosen; errors name it
}

func newApp(p Program, around surroundings) *app {
	a := &app{surroundings: around, program: p, env: map[string]string{}}
	for _, kv := range p.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			a.env[name] = value
		}
	}
	return a
}

const (
	groupIdentity = "identity"
	groupWatching = "watching"
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
		Version:       a.program.Version,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetIn(a.program.In)
	root.SetOut(a.program.Out)
	root.SetErr(a.program.Err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%v", err) })
	a.addGlobalFlags(root)
	root.AddGroup(
		&cobra.Group{ID: groupSession, Title: "Signing in:"},
		&cobra.Group{ID: groupIdentity, Title: "People, tenants and access:"},
		&cobra.Group{ID: groupMachines, Title: "Machines and where they come from:"},
		&cobra.Group{ID: groupWatching, Title: "What happens and how it is:"},
		&cobra.Group{ID: groupServer, Title: "Control plane:"},
	)
	root.AddCommand(
		a.loginCommand(), a.logoutCommand(), a.whoamiCommand(), a.contextCommand(), a.authCommand(),
		a.tenantCommand(), a.projectCommand(), a.memberCommand(), a.userCommand(), a.serviceAccountCommand(), a.tokenCommand(),
		a.fleetCommand(), a.onboardCommand(), a.onboardingCommand(), a.nodeCommand(), a.driftCommand(), a.reconcileCommand(), a.decommissionCommand(), a.terminalCommand(), a.terminalSessionCommand(), a.certificateCommand(), a.skuCommand(), a.signerCommand(), a.trustCommand(), a.siteCommand(),
		a.auditCommand(), a.eventsCommand(), a.outboxCommand(), a.selfCheckCommand(), a.systemCommand(), a.lifecycleCommand(),
		a.versionCommand(), exitCodesTopic(), environmentTopic(),
	)
	for _, c := range a.program.Server {
		c.GroupID = groupServer
		c.SetUsageTemplate(withoutGlobalFlags(c.UsageTemplate()))
		root.AddCommand(c)
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	harden(root)
	return root
}

func (a *app) addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVarP(&a.flags.output, "output", "o", "", "how to print: table, json or yaml (GPUAAS_OUTPUT)")
	f.BoolVar(&a.flags.noHeaders, "no-headers", false, "leave the titles of tables out")
	f.StringVar(&a.flags.context, "context", "", "the context to use (GPUAAS_CONTEXT; otherwise the current one)")
	f.StringVar(&a.flags.tokenFile, "token-file", "", "read the token from this file, - for standard input (GPUAAS_TOKEN)")
	f.StringVar(&a.flags.idempotencyKey, "idempotency-key", "", "repeat a change safely: the key that an earlier run named")
	complete(root, "output", formats()...)
	_ = root.RegisterFlagCompletionFunc("context", a.completeContexts) // it was defined above
	_ = root.MarkPersistentFlagFilename("token-file")                  // likewise
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
				return usage(cmd, "%v", err)
			}
			return nil
		}
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	err := usage(cmd, "there is no command %q under %q", name, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		err.remedy = "did you mean: " + cmd.CommandPath() + " " + strings.Join(near, ", or "+cmd.CommandPath()+" ")
	}
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
