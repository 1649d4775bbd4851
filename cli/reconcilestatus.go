package cli

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) siteStateColumns() []column[apiclient.ReconciliationSiteOverview] {
	type view = apiclient.ReconciliationSiteOverview
	number := func(of func(view) int64) func(view) string {
		return func(v view) string { return strconv.FormatInt(of(v), 10) }
	}
	return []column[view]{
		{title: "SITE", text: func(v view) string { return v.Name }},
		{title: "STATE", text: func(v view) string { return string(v.State) }},
		{title: "NODES", text: number(func(v view) int64 { return v.Nodes })},
		{title: "OK", text: number(func(v view) int64 { return v.Ok })},
		{title: "DRIFTED", text: number(func(v view) int64 { return v.Drifted })},
		{title: "UNRECONCILED", text: number(func(v view) int64 { return v.Unreconciled })},
		{title: "FINDINGS", text: func(v view) string { return countsText(v.Findings) }},
		{title: "INFORMED", text: func(v view) string { return or(a.whenever(v.LastInformedAt), "never") }},
		{title: "NEXT", text: func(v view) string { return text(v.Remedy) }},
		{title: "LAST CYCLE", text: func(v view) string { return or(a.whenever(v.LastCycleAt), "never") }, detail: true},
		{title: "ALL READ BY", text: func(v view) string { return or(a.whenever(v.SweepEndedAt), "never") }, detail: true},
		{title: "LAST ERROR", text: func(v view) string {
			if v.LastError == nil {
				return ""
			}
			return v.LastError.Message + " (" + v.LastError.Code + ")"
		}, detail: true},
		{title: "BREAKER", text: a.breakerText, detail: true},
		{title: "ID", text: func(v view) string { return v.SiteId.String() }, detail: true},
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
	out := fmt.Sprintf("open since %s: %s would be quarantined", a.when(v.Breaker.Since), plural(len(v.Breaker.Nodes), "node"))
	if v.Breaker.ConfirmedAt != nil {
		out += "; confirmed " + a.when(*v.Breaker.ConfirmedAt)
	}
	return out
}

func breakerColumns() []column[apiclient.ReconciliationBreakerNode] {
	type view = apiclient.ReconciliationBreakerNode
	return []column[view]{
		{title: "NOT QUARANTINED", text: func(v view) string { return v.Hostname }},
		{title: "SEE WHY", text: func(v view) string { return "gpuaas drift show " + v.Hostname }},
	}
}

func (a *app) reconcileStatusCommand() *cobra.Command {
	return a.verb(verb{
		use: "status", short: "Say how well MAAS, the agents and the inventory agree, site by site", operations: []string{"get-reconciliation-status"},
		long: "ok: MAAS showed the node as it should be, not long ago. drifted: it is not as it should be. unreconciled: its machine\n" +
			"was not looked at for long. stale: MAAS of the site has not told all that was asked for long.",
		flags: func(cmd *cobra.Command) action {
			site := cmd.Flags().String("site", "", "only this site, in detail, by name or id")
			return func(s *session, _ []string) error {
				raw, err := apiclient.Read(s.api.GetReconciliationStatusWithResponse(s.ctx))
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
	format, err := s.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printRaw(s.program.Out, format, raw)
	}
	all, err := decode[apiclient.ReconciliationOverview](raw)
	if err != nil {
		return err
	}
	sites := make([]object[apiclient.ReconciliationSiteOverview], len(all.value.Sites))
	for i, v := range all.value.Sites {
		sites[i].value = v
	}
	if len(sites) == 0 {
		s.note("there are no sites")
		return nil
	}
	if err := printTable(s.program.Out, s.siteStateColumns(), sites, !s.flags.noHeaders); err != nil {
		return err
	}
	s.note("%s", totalsText(all.value.Totals))
	return nil
}

func (s *session) showSiteState(raw json.RawMessage, site string) error {
	all, err := decode[struct {
		Sites []json.RawMessage `json:"sites"`
	}](raw)
	if err != nil {
		return err
	}
	sites, err := decodeAll[apiclient.ReconciliationSiteOverview](all.value.Sites)
	if err != nil {
		return err
	}
	for _, o := range sites {
		if o.value.Name != site && o.value.SiteId.String() != site {
			continue
		}
		columns := s.siteStateColumns()
		for i := range columns {
			if columns[i].title == "NEXT" {
				columns[i].text = nextOf
			}
		}
		if err := printOne(s.app, columns, o.raw); err != nil || o.value.Breaker == nil {
			return err
		}
		return s.showHeldBack(o.value)
	}
	return notFound("see which there are: gpuaas site list", "there is no site %q", site)
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
	return fmt.Sprintf("if it is true: gpuaas reconcile confirm --site %s --reason …; if not: gpuaas reconcile dismiss --site %s --reason …", v.Name, v.Name)
}

// maxHeldBack is how many nodes are shown; programs see all.
const maxHeldBack = 20

// showHeldBack prints the nodes that an open breaker keeps from being quarantined.
func (s *session) showHeldBack(v apiclient.ReconciliationSiteOverview) error {
	nodes := v.Breaker.Nodes
	if err := printPart(s, breakerColumns(), nodes[:min(len(nodes), maxHeldBack)]); err != nil {
		return err
	}
	format, err := s.format()
	if err != nil || format != formatTable || len(nodes) <= maxHeldBack {
		return err
	}
	return write(s.program.Out, harmless(fmt.Sprintf("and %d more: gpuaas reconcile status --site %s -o json", len(nodes)-maxHeldBack, v.Name))+"\n")
}

func totalsText(t apiclient.ReconciliationTotals) string {
	out := fmt.Sprintf("%s: %d ok, %d drifted, %d unreconciled", plural(int(t.Nodes), "node"), t.Ok, t.Drifted, t.Unreconciled)
	if t.StaleSites > 0 {
		out += "; " + plural(int(t.StaleSites), "stale site")
	}
	return out
}
