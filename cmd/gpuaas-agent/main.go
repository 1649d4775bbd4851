// Command gpuaas-agent makes this machine a node of a gpuaas fleet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gpuaas/agent"
)

// version and commit are set when the program is built.
var (
	version = "dev"
	commit  = "unknown"
)

// Exit statuses; usage tells them to people.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotEnrolled = 3
	exitInUse       = 4
	exitRestart     = 75
)

const usage = `gpuaas-agent makes this machine a node of a gpuaas fleet.

usage: gpuaas-agent COMMAND [flags]

commands:
  enroll     turn a bootstrap or recovery token into the identity of this node
  run        poll for tasks and carry them out, until stopped
  status     say how the agent of this machine is
  doctor     look for what keeps it from working, and say what to do
  version    say which agent this is
  guard      take an update back that does not start (used by the systemd unit)

flags of all commands:
  --json             print JSON
  --config FILE      settings (default /etc/gpuaas/agent.env below the host root)
  --host-root DIR    folder that stands for / (default /)

flags of enroll:
  --token-file FILE  file that holds the token; - or nothing for standard input.
                     A token is never given on the command line, which everybody
                     on the machine can read.
  --timeout D        how long to insist when the control plane does not answer
                     (default 5m)

exit status:
  0   it worked; status: the agent is connected; doctor: nothing failed
  1   it failed; status: the agent is not connected; doctor: something failed
  2   the command line is wrong
  3   this node is not enrolled
  4   another agent is running on this machine
  75  the agent must be started again, as after an update (systemd does)
`

// program is one run of the command, with everything it touches.
type program struct {
	in       io.Reader
	out, err io.Writer
	json     bool
	options  agent.Options
}

func main() {
	agent.Confine()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	os.Exit(p.main(ctx, os.Args[1:]))
}

func (p *program) main(ctx context.Context, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(p.err, usage)
		return exitUsage
	}
	commands := map[string]func(context.Context, *flag.FlagSet, []string) int{
		"enroll": p.enroll, "run": p.run, "status": p.status, "doctor": p.doctor, "version": p.version, "guard": p.guard,
	}
	command, ok := commands[args[0]]
	switch {
	case ok:
	case args[0] == "help" || args[0] == "--help" || args[0] == "-h":
		fmt.Fprint(p.out, usage)
		return exitOK
	default:
		fmt.Fprintf(p.err, "gpuaas-agent: there is no command %q; gpuaas-agent help lists them\n", args[0])
		return exitUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&p.json, "json", false, "")
	flags.StringVar(&p.options.ConfigPath, "config", "", "")
	flags.StringVar(&p.options.HostRoot, "host-root", "/", "")
	p.options.Build = agent.Version(version, commit)
	return command(ctx, flags, args[1:])
}

// parse answers whether to go on, and the exit status otherwise.
func (p *program) parse(flags *flag.FlagSet, args []string) (goOn bool, status int) {
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(p.out, usage)
		return false, exitOK
	case err != nil:
		fmt.Fprintf(p.err, "gpuaas-agent %s: %v; gpuaas-agent help explains\n", flags.Name(), err)
		return false, exitUsage
	}
	return true, exitOK
}

// fail tells an error and gives its exit status.
func (p *program) fail(command string, err error) int {
	if p.json {
		p.print(map[string]string{"error": err.Error()})
	} else {
		fmt.Fprintf(p.err, "gpuaas-agent %s: %v\n", command, err)
		if r := agent.Remedy(err); r != "" {
			fmt.Fprintf(p.err, "  what to do: %s\n", r)
		}
	}
	switch {
	case errors.Is(err, agent.ErrNotEnrolled):
		return exitNotEnrolled
	case errors.Is(err, agent.ErrInUse):
		return exitInUse
	}
	return exitFailed
}

func (p *program) run(ctx context.Context, flags *flag.FlagSet, args []string) int {
	if goOn, status := p.parse(flags, args); !goOn {
		return status
	}
	level, err := agent.LogLevel(p.options)
	if err != nil {
		return p.fail("run", err)
	}
	o := &slog.HandlerOptions{Level: level}
	p.options.Log = slog.New(slog.NewTextHandler(p.err, o))
	if p.json {
		p.options.Log = slog.New(slog.NewJSONHandler(p.err, o))
	}
	err = agent.Run(ctx, p.options)
	switch {
	case errors.Is(err, agent.ErrRestart):
		return exitRestart
	case err != nil:
		return p.fail("run", err)
	}
	return exitOK
}

func (p *program) version(_ context.Context, flags *flag.FlagSet, args []string) int {
	if goOn, status := p.parse(flags, args); !goOn {
		return status
	}
	if p.json {
		p.print(p.options.Build)
		return exitOK
	}
	fmt.Fprintf(p.out, "gpuaas-agent %s (commit %s)\n", p.options.Build.Version, p.options.Build.Commit)
	return exitOK
}

func (p *program) guard(_ context.Context, flags *flag.FlagSet, args []string) int {
	if goOn, status := p.parse(flags, args); !goOn {
		return status
	}
	rolledBack, err := agent.Guard(p.options)
	if err != nil {
		return p.fail("guard", err)
	}
	if p.json {
		p.print(map[string]bool{"rolled_back": rolledBack})
	} else if rolledBack {
		fmt.Fprintln(p.out, "the last update of the agent did not come up and was taken back")
	}
	return exitOK
}

func (p *program) enroll(ctx context.Context, flags *flag.FlagSet, args []string) int {
	file := flags.String("token-file", "-", "")
	timeout := flags.Duration("timeout", enrollTimeout, "")
	if goOn, status := p.parse(flags, args); !goOn {
		return status
	}
	token, err := p.readToken(*file)
	if err != nil {
		return p.fail("enroll", err)
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	enrolled, err := agent.Enroll(ctx, p.options, token, func(waiting string) { fmt.Fprintln(p.err, waiting) })
	if err != nil {
		return p.fail("enroll", err)
	}
	if p.json {
		p.print(enrolled)
		return exitOK
	}
	fmt.Fprintf(p.out, "This machine is node %s.\nIts certificate is valid until %s and is renewed by the agent.\n",
		enrolled.NodeID, enrolled.NotAfter.UTC().Format("2006-01-02 15:04:05 MST"))
	return exitOK
}

func (p *program) readToken(file string) (string, error) {
	in := p.in
	if file != "-" && file != "" {
		f, err := os.Open(file) //nolint:gosec // named by whoever enrols
		if err != nil {
			return "", fmt.Errorf("read token: %w", err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, 4<<10))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
