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
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) siteStateColumns() []table.Column[apiclient.ReconciliationSiteOverview] {
	type view = apiclient.ReconciliationSiteOverview
	number := func(of func(view) int64) func(view) string {
		return func(v view) string { return strconv.FormatInt(of(v), 10) }
	}
	return []table.Column[view]{
		{Title: "SITE", Text: func(v view) string { return v.Name }},
		{Title: "STATE", Text: func(v view) string { return string(v.State) }},
		{Title: "NODES", Text: number(func(v view) int64 { return v.Nodes })},
		{Title: "OK", Text: number(func(v view) int64 { return v.Ok })},
		{Title: "DRIFTED", Text: number(func(v view) int64 { return v.Drifted })},
		{Title: "UNRECONCILED", Text: number(func(v view) int64 { return v.Unreconciled })},
		{Title: "FINDINGS", Long: true, Text: func(v view) string { return countsText(v.Findings) }},
		wide(orElse("never", ago(a, "INFORMED", func(v view) *time.Time { return v.LastInformedAt }))),
		{Title: "NEXT", Text: func(v view) string { return text(v.Remedy) }},
		{Title: "LAST CYCLE", Text: func(v view) string { return cmp.Or(a.Whenever(v.LastCycleAt), "never") }, Detail: true},
		{
			Title: "ALL READ BY", Text: func(v view) string { return cmp.Or(a.Whenever(v.SweepEndedAt), "never") },
			Detail: true,
		},
		{Title: "LAST ERROR", Text: func(v view) string {
			if v.LastError == nil {
				return ""
			}
			return v.LastError.Message + " (" + v.LastError.Code + ")"
		}, Detail: true},
		{Title: "BREAKER", Text: a.breakerText, Detail: true},
		{Title: "ID", Text: func(v view) string { return v.SiteId.String() }, Detail: true},
	}
}

// countsText are the findings that matter most.
func countsText(c apiclient.ReconciliationFindingCounts) string {
	if c.Critical+c.Warning+c.Info+c.Debug == 0 {
		return "none"
	}
	return fmt.Sprintf("%d critical, %d warning, %d info", c.Critical, c.Warning, c.Info+c.Debug)
}

func (a *app) breakerText(v apiclient.ReconciliationSiteOverview) string {
	if v.Breaker == nil {
		return "closed"
	}
	out := fmt.Sprintf("open since %s: %s would be quarantined", a.When(v.Breaker.Since),
		plural(len(v.Breaker.Nodes), "node"))
	if v.Breaker.ConfirmedAt != nil {
		out += "; confirmed " + a.When(*v.Breaker.ConfirmedAt)
	}
	return out
}

func breakerColumns() []table.Column[apiclient.ReconciliationBreakerNode] {
	type view = apiclient.ReconciliationBreakerNode
	return []table.Column[view]{
		{Title: "NOT QUARANTINED", Text: func(v view) string { return v.Hostname }},
		{Title: "SEE WHY", Text: func(v view) string { return "gpuaas drift show " + v.Hostname }},
	}
}

func (a *app) reconcileStatusCommand() *cobra.Command {
	return a.verb(verb{
		use: "status", short: "Say how well MAAS, the agents and the inventory agree, site by site",
		operations: []string{"get-reconciliation-status"},
		long: "ok: MAAS recently showed the node as expected. drifted: it is not as expected. unreconciled: " +
			"its machine\n" +
			"has not been checked for long. stale: MAAS of the site has not answered completely for long.",
		flags: func(cmd *cobra.Command) action {
			site := cmd.Flags().String("site", "", "only this site, in detail, by name or id")
			return func(s *session, _ []string) error {
				raw, err := apiclient.Read(s.API.GetReconciliationStatusWithResponse(s.Ctx))
				if err != nil {
					return err
				}
				if *site != "" {
					return s.showSiteState(raw, *site)
				}
				return s.showStates(raw)
			}
		},
	})
}

func (s *session) showStates(raw json.RawMessage) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, raw)
	}
	all, err := output.Decode[apiclient.ReconciliationOverview](raw)
	if err != nil {
		return err
	}
	sites := make([]output.Object[apiclient.ReconciliationSiteOverview], len(all.Value.Sites))
	for i, v := range all.Value.Sites {
		sites[i].Value = v
	}
	if len(sites) == 0 {
		s.Note("there are no sites")
		return nil
	}
	if err := table.Print(s.Program.Out, s.app.siteStateColumns(), sites, !s.Flags.NoHeaders, s.Wide()); err != nil {
		return err
	}
	s.Note("%s", totalsText(all.Value.Totals))
	return nil
}

func (s *session) showSiteState(raw json.RawMessage, site string) error {
	all, err := output.Decode[struct {
		Sites []json.RawMessage `json:"sites"`
	}](raw)
	if err != nil {
		return err
	}
	sites, err := output.DecodeAll[apiclient.ReconciliationSiteOverview](all.Value.Sites)
	if err != nil {
		return err
	}
	for _, o := range sites {
		if o.Value.Name != site && o.Value.SiteId.String() != site {
			continue
		}
		columns := s.app.siteStateColumns()
		for i := range columns {
			if columns[i].Title == "NEXT" {
				columns[i].Text = nextOf
			}
		}
		if err := frame.PrintOne(s.App, columns, o.Raw); err != nil || o.Value.Breaker == nil {
			return err
		}
		return s.showHeldBack(o.Value)
	}
	return failure.Missing("list them: gpuaas site list", "there is no site %q", site)
}

// nextOf is what to do about a site that is shown in detail. Of an open breaker
// the nodes are shown already, so what is left is to decide.
func nextOf(v apiclient.ReconciliationSiteOverview) string {
	switch {
	case v.Breaker == nil:
		return text(v.Remedy)
	case v.Breaker.ConfirmedAt != nil:
		return "gpuaas reconcile runs --site " + v.Name
	}
	return fmt.Sprintf("if MAAS is right: gpuaas reconcile confirm --site %s; if not: gpuaas reconcile dismiss "+
		"--site %s", v.Name, v.Name)
}

// maxHeldBack is how many nodes are shown; programs see all.
const maxHeldBack = 20

// showHeldBack prints the nodes that an open breaker keeps from being quarantined.
func (s *session) showHeldBack(v apiclient.ReconciliationSiteOverview) error {
	nodes := v.Breaker.Nodes
	if err := frame.PrintPart(s.Session, breakerColumns(), nodes[:min(len(nodes), maxHeldBack)]); err != nil {
		return err
	}
	format, err := s.Format()
	if err != nil || format != output.Table || len(nodes) <= maxHeldBack {
		return err
	}
	return output.Write(s.Program.Out, output.Harmless(
		fmt.Sprintf("and %d more: gpuaas reconcile status --site %s -o json", len(nodes)-maxHeldBack, v.Name))+"\n")
}

func totalsText(t apiclient.ReconciliationTotals) string {
	out := fmt.Sprintf("%s: %d ok, %d drifted, %d unreconciled", plural(int(t.Nodes), "node"), t.Ok, t.Drifted,
		t.Unreconciled)
	if t.StaleSites > 0 {
		out += "; " + plural(int(t.StaleSites), "stale site")
	}
	return out
}
