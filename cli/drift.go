package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

func severities() []string { return apiclient.Words("list-drift.severity") }

func (a *app) findingColumns() []table.Column[apiclient.ReconciliationFindingView] {
	type view = apiclient.ReconciliationFindingView
	return []table.Column[view]{
		{Title: "NODE", Text: func(v view) string { return cmp.Or(text(v.Hostname), text(v.MaasSystemId)) }},
		{Title: "SITE", Text: func(v view) string { return v.SiteName }},
		{Title: "FINDING", Text: func(v view) string { return v.Type }},
		{Title: "SEVERITY", Text: func(v view) string { return string(v.Severity) }},
		ago(a, "SINCE", func(v view) time.Time { return v.OpenedAt }),
		{Title: "STATE", Long: true, Text: findingState},
		{Title: "ACTION", Long: true, Text: findingAction},
		{Title: "ID", Text: func(v view) string { return v.FindingId.String() }, Detail: true},
		{Title: "EXPECTED", Text: func(v view) string { return v.Expected }, Detail: true},
		{Title: "OBSERVED", Text: func(v view) string { return v.Observed }, Detail: true},
		{Title: "WHAT HAPPENED", Text: func(v view) string { return v.Message }, Detail: true},
		{Title: "OCCURRENCE", Text: func(v view) string { return strconv.Itoa(int(v.Occurrence)) }, Detail: true},
		{Title: "KNOWN", Text: acknowledgedText, Detail: true},
	}
}

// pastColumns are findings of all times: when each ended matters, and by which id somebody
// says that it is known.
func (a *app) pastColumns() []table.Column[apiclient.ReconciliationFindingView] {
	type view = apiclient.ReconciliationFindingView
	now := a.findingColumns()
	return append(now[:6:6], []table.Column[view]{
		wide(ago(a, "ENDED", func(v view) *time.Time { return v.ClosedAt })),
		{Title: "WHAT HAPPENED", Long: true, Text: func(v view) string { return v.Message }},
		{Title: "ID", Wide: true, Text: func(v view) string { return v.FindingId.String() }},
	}...)
}

// findingState is how a finding stands; what came back again and again says so.
func findingState(v apiclient.ReconciliationFindingView) string {
	state := string(v.Status)
	if v.Status == "open" {
		state = "seen once"
	}
	if v.AcknowledgedAt != nil {
		state += ", known"
	}
	if v.Occurrence > 1 {
		state += fmt.Sprintf(", time %d", v.Occurrence)
	}
	return state
}

// findingAction is what reconciliation does about a finding by itself.
func findingAction(v apiclient.ReconciliationFindingView) string {
	action := text(v.Action)
	switch {
	case action == "":
		return ""
	case v.ActedAt != nil:
		return action + ": done"
	case text(v.Withheld) != "":
		return action + ": withheld, " + text(v.Withheld)
	case v.Status == "closed":
		return action + ": not done"
	}
	return action + ": due"
}

func acknowledgedText(v apiclient.ReconciliationFindingView) string {
	if v.AcknowledgedAt == nil {
		return ""
	}
	return text(v.Acknowledgement) + " (" + text(v.AcknowledgedBy) + ")"
}

// driftCommand lists by itself: it is what people look at first.
func (a *app) driftCommand() *cobra.Command {
	cmd := a.driftListCommand("drift", groupMachines)
	cmd.Short = "Nodes that MAAS, the agents and the inventory disagree about"
	cmd.Long = "Lists the nodes that are not as expected, worst first: what was found, since when, and what\n" +
		"reconciliation did about it automatically. gpuaas drift show NODE explains one and says what to do; gpuaas drift\n" +
		"resolve NODE settles it. Findings close automatically when the problem is gone, and stay listed in gpuaas drift findings."
	cmd.Example = "  gpuaas drift --site dc1 --severity critical\n  gpuaas drift show c07u43\n  gpuaas drift resolve " +
		"c07u43 return-to-service --reason 'board was replaced'"
	list := a.driftListCommand("list", "")
	list.Aliases = []string{"ls"}
	cmd.AddCommand(list, a.driftShowCommand(), a.driftResolveCommand(), a.driftFindingsCommand(),
		a.driftAcknowledgeCommand())
	return cmd
}

func (a *app) driftListCommand(use, group string) *cobra.Command {
	return a.verb(verb{
		use: use, short: "List the nodes that are not as expected, worst first", group: group,
		operations: []string{"list-drift"},
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			site := f.String("site", "", "only nodes of this site, by name or id")
			severity := f.String("severity", "", "only nodes with a finding of this severity: critical, warning, info or debug")
			kind := f.String("type", "", "only nodes with a finding of this kind, such as released")
			repeated := f.Bool("repeated", false, "only nodes with a finding that came back three times or more within a month")
			frame.Complete(cmd, "severity", severities()...)
			l := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				params := apiclient.ListDriftParams{
					Severity: frame.GivenAs[apiclient.ListDriftParamsSeverity](s.Session, "severity", severity),
					Type:     frame.Given(s.Session, "type", kind), Repeated: frame.Given(s.Session, "repeated", repeated),
				}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				return s.listDrift(l, params)
			}
		},
	})
}

// listDrift shows people one finding a line, and programs one node an object.
func (s *session) listDrift(f *listing.Flags, params apiclient.ListDriftParams) error {
	if f.Limit < 0 {
		return failure.Misuse(s.Cmd, "--limit cannot be negative")
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	var worst string
	read := func() ([]json.RawMessage, error) {
		raws, _, err := listing.Collect(func(p listing.Page) (apiclient.Answer, error) {
			params.Cursor, params.PageSize = p.Cursor, p.Size
			return s.API.ListDriftWithResponse(s.Ctx, &params)
		}, f.Limit)
		if err != nil || format != output.Table {
			return raws, err
		}
		raws, worst, err = findingsOf(raws)
		return raws, err
	}
	if f.Watch {
		return watch.List(s.Session, f.Interval, s.app.findingColumns(), read)
	}
	raws, err := read()
	if err != nil {
		return err
	}
	if len(raws) == 0 && format == output.Table {
		s.Note("no node has drifted")
		return nil
	}
	if err := frame.PrintList(s.App, s.app.findingColumns(), raws); err != nil {
		return err
	}
	if worst != "" {
		s.Note("what happened, and what to do: gpuaas drift show %s", worst)
	}
	return nil
}

// findingsOf are the findings of nodes, and the name of the node that comes first.
func findingsOf(nodes []json.RawMessage) (findings []json.RawMessage, first string, err error) {
	list, err := output.DecodeAll[struct {
		Hostname string            `json:"hostname"`
		Findings []json.RawMessage `json:"findings"`
	}](nodes)
	for i, n := range list {
		if i == 0 {
			first = n.Value.Hostname
		}
		findings = append(findings, n.Value.Findings...)
	}
	return findings, first, err
}

func (a *app) driftShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show NODE", short: "Explain what is wrong with a node, and what to do", aliases: []string{"get"},
		args:       frame.Exactly("NODE"),
		operations: []string{"get-node-drift"},
		run: func(s *session, args []string) error {
			id, err := s.nodeID(args[0])
			if err != nil {
				return err
			}
			raw, err := apiclient.Read(s.API.GetNodeDriftWithResponse(s.Ctx, id))
			if err != nil {
				return err
			}
			format, err := s.Format()
			if err != nil {
				return err
			}
			if format != output.Table {
				return output.Print(s.Program.Out, format, raw)
			}
			v, err := output.Decode[apiclient.ReconciliationDriftDetailView](raw)
			if err != nil {
				return err
			}
			if err := output.Write(s.Program.Out, a.driftText(v.Value)); err != nil {
				return err
			}
			return frame.PrintPart(s.Session, a.overColumns(), v.Value.History)
		},
	})
}

func (a *app) driftFindingsCommand() *cobra.Command {
	return a.verb(verb{
		use: "findings", short: "List everything that was ever found, newest first", aliases: []string{"history"},
		operations: []string{"list-findings"},
		long: "Includes closed findings and findings that are not about nodes: MAAS machines that nobody manages, settings that nobody " +
			"uses.",
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			site := f.String("site", "", "only those of this site, by name or id")
			node := f.String("node", "", "only those about this node, by hostname or id")
			kind := f.String("type", "", "only those of this kind, such as released")
			severity := f.String("severity", "", "only those of this severity: critical, warning, info or debug")
			status := f.String("status", "",
				"only those with this status: open, confirmed, acted, closed; present for all that are not closed")
			since := f.String("since", "",
				"only those found at or after this time: 2006-01-02T15:04:05Z, or so long ago: 90m, 12h, 7d")
			frame.Complete(cmd, "severity", severities()...)
			frame.Complete(cmd, "status", apiclient.Words("list-findings.status")...)
			l := listing.AddFlags(cmd, 50)
			return func(s *session, _ []string) error {
				params := apiclient.ListFindingsParams{
					Type:     frame.Given(s.Session, "type", kind),
					Severity: frame.GivenAs[apiclient.ListFindingsParamsSeverity](s.Session, "severity", severity),
					Status:   frame.GivenAs[apiclient.ListFindingsParamsStatus](s.Session, "status", status),
				}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				if params.NodeId, err = optionalID(*node, s.nodeID); err != nil {
					return err
				}
				if *since != "" {
					at, err := s.Moment(*since)
					if err != nil {
						return failure.Misuse(s.Cmd, "--since: %v", err)
					}
					params.Since = &at
				}
				return listing.Print(s.Session, l, listing.Listing[apiclient.ReconciliationFindingView]{
					Columns: a.pastColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						params.Cursor, params.PageSize = p.Cursor, p.Size
						return s.API.ListFindingsWithResponse(s.Ctx, &params)
					},
				})
			}
		},
	})
}

func (a *app) driftAcknowledgeCommand() *cobra.Command {
	return a.verb(verb{
		use: "acknowledge FINDING", short: "Mark one finding as known; nothing else changes",
		args: frame.Exactly("FINDING"), operations: []string{"acknowledge-finding"},
		long: "For a finding that is not about a node, or one of several; its id: gpuaas drift findings.\n" +
			"All of a node: gpuaas drift resolve NODE acknowledge",
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "what is known about it; it goes into the audit log")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				id, err := s.IDOf("a finding", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.findingColumns())(
					s.API.AcknowledgeFindingWithResponse(s.Ctx, id, &apiclient.AcknowledgeFindingParams{},
						apiclient.ReconciliationAcknowledgeBody{Reason: *reason}))
			}
		},
	})
}
