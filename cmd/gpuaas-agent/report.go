package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"gpuaas/agent"
)

const enrollTimeout = 5 * time.Minute

func (p *program) print(v any) {
	e := json.NewEncoder(p.out)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		fmt.Fprintf(p.err, "gpuaas-agent: print: %v\n", err)
	}
}

func (p *program) status(_ context.Context, flags *flag.FlagSet, args []string) int {
	if goOn, status := p.parse(flags, args); !goOn {
		return status
	}
	s, err := agent.ReadStatus(p.options)
	if err != nil {
		return p.fail("status", err)
	}
	if p.json {
		p.print(s)
	} else {
		p.printStatus(s)
	}
	switch s.State {
	case agent.StateConnected:
		return exitOK
	case agent.StateNotEnrolled:
		return exitNotEnrolled
	}
	return exitFailed
}

func (p *program) printStatus(s agent.Status) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	line("agent", fmt.Sprintf("%s (commit %s)", p.options.Build.Version, p.options.Build.Commit))
	line("state", stateLine(s))
	if s.Message != "" {
		line("problem", s.Message)
	}
	if s.Remedy != "" {
		line("what to do", s.Remedy)
	}
	line("control plane", s.ControlPlane)
	if s.NodeID != "" {
		line("node", s.NodeID)
		line("certificate", "until "+moment(s.CertificateNotAfter)+", renewed after "+moment(s.RenewAfter))
	}
	if !s.LastContactAt.IsZero() {
		line("last contact", moment(s.LastContactAt))
	}
	line("verifiers", fmt.Sprintf("version %d", s.VerifierVersion))
	line("tasks", fmt.Sprintf("%d unfinished, %d results not sent", s.TasksUnfinished, s.ResultsUnsent))
	if s.Draining {
		line("draining", "no new users are accepted")
	}
	for _, d := range s.JournalDamage {
		line("journal damaged", d)
	}
	_ = w.Flush() // to a terminal or a pipe; nothing is left to tell if it is gone
}

func stateLine(s agent.Status) string {
	if !s.Running || s.Since.IsZero() {
		return s.State
	}
	return fmt.Sprintf("%s since %s, process %d", s.State, moment(s.Since), s.ProcessID)
}

func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

func (p *program) doctor(ctx context.Context, flags *flag.FlagSet, args []string) int {
	if goOn, status := p.parse(flags, args); !goOn {
		return status
	}
	checks := agent.Doctor(ctx, p.options)
	if p.json {
		p.print(map[string]any{"checks": checks})
	} else {
		for _, c := range checks {
			fmt.Fprintf(p.out, "%s %s: %s\n", map[string]string{
				agent.CheckOK: "✓", agent.CheckWarning: "!",
				agent.CheckFailed: "✗",
			}[c.Status], c.Name, c.Detail)
			if c.Remedy != "" {
				fmt.Fprintf(p.out, "    what to do: %s\n", c.Remedy)
			}
		}
	}
	if slices.ContainsFunc(checks, func(c agent.Check) bool { return c.Status == agent.CheckFailed }) {
		return exitFailed
	}
	return exitOK
}
