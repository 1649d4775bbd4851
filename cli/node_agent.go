package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// nodeAgentCommand shows the agent of a node; below it are the commands that bring it
// another one, or mend it.
func (a *app) nodeAgentCommand() *cobra.Command {
	cmd := a.verb(verb{
		use: "agent NODE", short: "Show which agent a node has and should have, and what was last done to it",
		args: frame.Exactly("NODE"), operations: []string{"get-node-agent-lifecycle"},
		run: nodeVerb(func(s *session, id types.UUID) error {
			return frame.Show(s.Session, a.agentColumns())(s.API.GetNodeAgentLifecycleWithResponse(s.Ctx, id))
		}),
	})
	cmd.AddCommand(a.agentStartCommand(), a.agentRunsCommand(), a.agentRunCommand(),
		a.agentRunAct("retry", "Let the parked run of a node begin again",
			func(s *session, node, run types.UUID, b apiclient.AgentrunReasonBody) (apiclient.Answer, error) {
				return s.API.RetryAgentRunWithResponse(s.Ctx, node, run, &apiclient.RetryAgentRunParams{}, b)
			}),
		a.agentRunAct("cancel", "End the run of a node; what its agent has fetched goes to its end",
			func(s *session, node, run types.UUID, b apiclient.AgentrunReasonBody) (apiclient.Answer, error) {
				return s.API.CancelAgentRunWithResponse(s.Ctx, node, run, &apiclient.CancelAgentRunParams{}, b)
			}))
	return cmd
}

func (a *app) agentRunColumns() []table.Column[apiclient.AgentrunView] {
	type run = apiclient.AgentrunView
	spaced := func(word string) string { return strings.ReplaceAll(word, "_", " ") }
	return []table.Column[run]{
		{Title: "RUN", Text: func(v run) string { return v.RunId.String() }},
		{Title: "NODE", Text: func(v run) string { return v.Hostname }, Detail: true},
		{Title: "STATUS", Text: func(v run) string { return spaced(string(v.Status)) }},
		{Title: "SCENARIO", Text: func(v run) string { return spaced(string(v.Scenario)) }},
		{Title: "MODE", Text: func(v run) string { return spaced(string(v.Mode)) }},
		{Title: "VERSION", Text: func(v run) string { return v.TargetVersion }, Detail: true},
		{Title: "BEGUN", Text: func(v run) string { return a.When(v.CreatedAt) }},
		{Title: "SAFETY", Text: func(v run) string { return spaced(string(v.SafetyPolicy)) }, Detail: true},
		{Title: "FROM", Text: func(v run) string { return v.FromVersion }, Detail: true},
		{Title: "BY", Text: func(v run) string { return spaced(string(v.Way)) }, Detail: true},
		{Title: "DETAIL", Text: func(v run) string { return v.Detail }, Detail: true},
		{
			Title: "PARKED FOR", Detail: true,
			Text: func(v run) string { return strings.Trim(v.ErrorCode+": "+v.ErrorMessage, ": ") },
		},
		{Title: "NEXT", Text: func(v run) string { return v.NextAction.Text }, Detail: true},
		{Title: "COMMAND", Text: func(v run) string { return v.NextAction.Command }, Detail: true},
		{Title: "DECOMMISSION", Text: func(v run) string { return idText(v.DecommissionId) }, Detail: true},
		{Title: "TASK", Text: func(v run) string { return idText(v.TaskId) }, Detail: true},
		{Title: "UNTIL", Text: func(v run) string { return a.Whenever(v.DeadlineAt) }, Detail: true},
		{Title: "REASON", Text: func(v run) string { return v.Reason }, Detail: true},
	}
}

func (a *app) agentStartCommand() *cobra.Command {
	return a.verb(verb{
		use: "start NODE", short: "Bring an agent to a node, or mend the one that is there",
		args: frame.Exactly("NODE"), operations: []string{"begin-agent-run"},
		long: "Where nobody can tell the agent anything, what somebody must run on the machine is printed this once.\n" +
			"With --mode reimage the machine is reinstalled, which DESTROYS what is on it.",
		example: "  gpuaas node agent start c07u31 --scenario in_place_upgrade --version 1.4.0 --reason \"less memory\"\n" +
			"  gpuaas node agent start c07u31 --scenario certificate_repair --reason \"it has lapsed\"",
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			mode := f.String("mode", "rebootstrap", "rebootstrap, manual_install or reimage; the last DESTROYS what is on the machine")
			scenario := f.String("scenario", "",
				"bootstrap_install, in_place_upgrade, repair_reinstall, certificate_repair or drift_reconcile")
			version := f.String("version", "", "version that the node must report in the end (default what it should run, or runs)")
			safety := f.String("safety", "idle_only", "idle_only, after_drain (nothing new is placed on it meanwhile) or force")
			frame.Complete(cmd, "mode", apiclient.Words("AgentrunNewBody.mode")...)
			frame.Complete(cmd, "scenario", apiclient.Words("AgentrunNewBody.scenario")...)
			frame.Complete(cmd, "safety", apiclient.Words("AgentrunNewBody.safety_policy")...)
			reason := f.String("reason", "", "why; the audit log keeps it")
			yes := frame.AddYesFlag(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("scenario", "reason"); err != nil {
					return err
				}
				id, err := s.nodeID(args[0])
				if err != nil {
					return err
				}
				if *mode == string(apiclient.AgentrunNewBodyModeReimage) {
					if err := s.Confirm(*yes, "reinstalling %s DESTROYS what is on it", args[0]); err != nil {
						return err
					}
				}
				return s.startAgentRun(id, apiclient.AgentrunNewBody{
					Mode: apiclient.AgentrunNewBodyMode(*mode), Scenario: apiclient.AgentrunNewBodyScenario(*scenario),
					SafetyPolicy:  apiclient.AgentrunNewBodySafetyPolicy(*safety),
					TargetVersion: frame.Given(s.Session, "version", version), Reason: *reason,
				})
			}
		},
	})
}

func (s *session) startAgentRun(node types.UUID, body apiclient.AgentrunNewBody) error {
	raw, err := apiclient.Read(s.API.BeginAgentRunWithResponse(s.Ctx, node, &apiclient.BeginAgentRunParams{}, body))
	if err != nil {
		return err
	}
	v, err := output.Decode[apiclient.AgentrunNewView](raw)
	if err != nil {
		return err
	}
	if p := v.Value.Package; p != nil {
		s.Note("version %s has the digest %s, and these programs:", p.Version, p.Digest)
		for _, name := range sortedKeys(p.Programs) {
			s.Note("  %s %s", p.Programs[name], name)
		}
	}
	said := fmt.Sprintf("run %s is %s", v.Value.RunId, strings.ReplaceAll(string(v.Value.Status), "_", " "))
	if b := v.Value.Bootstrap; b != nil {
		because, _, _ := strings.Cut(v.Value.NextAction.Text, "run on the machine, as root")
		return s.showBootstrap(raw, *b, strings.TrimRight(said+": "+because, ":; "))
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, raw)
	}
	return output.Write(s.Program.Out, said+"; see it: gpuaas node agent run "+v.Value.Hostname+"\n")
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (a *app) agentRunsCommand() *cobra.Command {
	return a.verb(verb{
		use: "runs NODE", short: "List what was done to the agent of a node", args: frame.Exactly("NODE"),
		operations: []string{"list-agent-runs"},
		flags: func(cmd *cobra.Command) action {
			f := listing.AddFlags(cmd, 0)
			return nodeVerb(func(s *session, id types.UUID) error {
				return listing.Print(s.Session, f, listing.Listing[apiclient.AgentrunView]{
					Columns: a.agentRunColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListAgentRunsWithResponse(s.Ctx, id,
							&apiclient.ListAgentRunsParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			})
		},
	})
}

func (a *app) agentRunCommand() *cobra.Command {
	return a.verb(verb{
		use: "run NODE [RUN]", short: "Show what is done to the agent of a node, why it waits, and what to do",
		long: "Without RUN, what was last done.", args: cobra.RangeArgs(1, 2),
		operations: []string{"get-node-agent-lifecycle", "get-agent-run"},
		run: func(s *session, args []string) error {
			node, err := s.nodeID(args[0])
			if err != nil {
				return err
			}
			run, err := s.agentRun(node, args)
			if err != nil {
				return err
			}
			return frame.Show(s.Session, a.agentRunColumns())(s.API.GetAgentRunWithResponse(s.Ctx, node, run))
		},
	})
}

// agentRun is the run that is named after its node, or the last one.
func (s *session) agentRun(node types.UUID, args []string) (types.UUID, error) {
	if len(args) > 1 {
		return s.IDOf("a run", args[1])
	}
	raw, err := apiclient.Read(s.API.GetNodeAgentLifecycleWithResponse(s.Ctx, node))
	if err != nil {
		return types.UUID{}, err
	}
	v, err := output.Decode[apiclient.AgentrunLifecycleView](raw)
	if err != nil {
		return types.UUID{}, err
	}
	if v.Value.LatestRun == nil {
		return types.UUID{}, failure.New(failure.NotFound, "agent_run_not_found",
			"begin one: gpuaas node agent start "+args[0], "nothing was done to the agent of %s yet", args[0])
	}
	return v.Value.LatestRun.RunId, nil
}

func (a *app) agentRunAct(name, short string,
	call func(s *session, node, run types.UUID, b apiclient.AgentrunReasonBody) (apiclient.Answer, error),
) *cobra.Command {
	return a.withReason(verb{
		use: name + " NODE", short: short, args: frame.Exactly("NODE"),
		operations: []string{"get-node-agent-lifecycle", name + "-agent-run"},
	}, func(s *session, args []string, reason string) error {
		node, err := s.nodeID(args[0])
		if err != nil {
			return err
		}
		run, err := s.agentRun(node, args)
		if err != nil {
			return err
		}
		return frame.Show(s.Session, a.agentRunColumns())(call(s, node, run, apiclient.AgentrunReasonBody{Reason: reason}))
	})
}
