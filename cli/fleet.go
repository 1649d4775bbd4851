package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

// driftStates are what the agent of a node can be.
func driftStates() []string {
	return []string{"in_sync", "version_drift", "config_drift", "certificate_only_repair_needed", "unknown"}
}

// fleetCommand counts by itself: it is what people look at first.
func (a *app) fleetCommand() *cobra.Command {
	cmd := a.verb(verb{
		use: "fleet", short: "The whole fleet at a glance", group: groupMachines, operations: []string{"get-fleet-summary"},
		long: "Counts nodes by state, region and site, and what needs attention: agents that are not what they should be, findings\n" +
			"of reconciliation and jobs that wait for an operator. gpuaas fleet map has a line for every node.",
		example: "  gpuaas fleet\n  gpuaas fleet --site dc1 --drift version_drift\n  gpuaas fleet map --region eu-1",
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			sku := f.String("sku", "", "only nodes of this kind")
			region := f.String("region", "", "only nodes of this region")
			site := f.String("site", "", "only nodes of this site, by name or id")
			search := f.String("search", "", "only nodes that have this in their hostname or host, or whose id starts so")
			drift := f.String("drift", "", "only nodes whose agent is so, such as version_drift")
			agent := f.String("agent", "", "only nodes whose agent is so: current, drift or unknown_build")
			held := f.String("held", "", "only nodes that are kept out of scheduling (true), or are not (false)")
			tainted := f.String("tainted", "", "only nodes that are not proven clean (true), or the others (false)")
			complete(cmd, "drift", driftStates()...)
			complete(cmd, "agent", "current", "drift", "unknown_build")
			complete(cmd, "held", "true", "false")
			complete(cmd, "tainted", "true", "false")
			return func(s *session, _ []string) error {
				params := apiclient.GetFleetSummaryParams{
					Sku: given(s, "sku", sku), RegionCode: given(s, "region", region), Q: given(s, "search", search),
					DriftState: givenAs[apiclient.GetFleetSummaryParamsDriftState](s, "drift", drift),
					Agent:      givenAs[apiclient.GetFleetSummaryParamsAgent](s, "agent", agent),
					Held:       givenAs[apiclient.GetFleetSummaryParamsHeld](s, "held", held),
					Tainted:    givenAs[apiclient.GetFleetSummaryParamsTainted](s, "tainted", tainted),
				}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				return s.showFleet(params)
			}
		},
	})
	cmd.AddCommand(a.fleetMapCommand())
	return cmd
}

func (s *session) showFleet(params apiclient.GetFleetSummaryParams) error {
	raw, err := apiclient.Read(s.api.GetFleetSummaryWithResponse(s.ctx, &params))
	if err != nil {
		return err
	}
	if err := printOne(s.app, s.fleetColumns(), raw); err != nil {
		return err
	}
	summary, err := decode[apiclient.FleetviewSummary](raw)
	if err != nil {
		return err
	}
	places := []place{{"all", summary.value.Total, summary.value.ByStatus}}
	for _, r := range summary.value.Regions {
		places = append(places, place{"region " + r.RegionCode, r.Total, r.ByStatus})
	}
	for _, site := range summary.value.Sites {
		places = append(places, place{"site " + site.Name, site.Total, site.ByStatus})
	}
	return printPart(s, placeColumns(), places)
}

func (a *app) fleetColumns() []column[apiclient.FleetviewSummary] {
	type view = apiclient.FleetviewSummary
	number := func(of func(view) int64) func(view) string {
		return func(v view) string { return strconv.FormatInt(of(v), 10) }
	}
	jobs := func(running, parked int64) string { return fmt.Sprintf("%d running, %d parked", running, parked) }
	return []column[view]{
		{title: "NODES", text: number(func(v view) int64 { return v.Total })},
		{title: "GPUS", text: number(func(v view) int64 { return v.GpusTotal })},
		{title: "SCHEDULABLE", text: number(func(v view) int64 { return v.Schedulable })},
		{title: "HELD", text: number(func(v view) int64 { return v.Held })},
		{title: "TAINTED", text: number(func(v view) int64 { return v.Tainted })},
		{title: "AGENTS", text: func(v view) string {
			return fmt.Sprintf("%d current, %d drift, %d unknown build", v.Agents.Current, v.Agents.Drift, v.Agents.UnknownBuild)
		}},
		{title: "FINDINGS", text: func(v view) string { return countsText(apiclient.ReconciliationFindingCounts(v.Findings)) }},
		{title: "ONBOARDINGS", text: func(v view) string { return jobs(v.Jobs.OnboardingsRunning, v.Jobs.OnboardingsParked) }},
		{title: "DECOMMISSIONS", text: func(v view) string { return jobs(v.Jobs.DecommissionsRunning, v.Jobs.DecommissionsParked) }},
		{title: "KINDS", text: func(v view) string {
			kinds := make([]string, len(v.Skus))
			for i, k := range v.Skus {
				kinds[i] = fmt.Sprintf("%d × %s", k.Total, k.Sku)
			}
			return strings.Join(kinds, ", ")
		}},
		{title: "AS OF", text: func(v view) string { return a.when(v.AsOf) }},
	}
}

// place is a part of the fleet.
type place struct {
	name  string
	total int64
	by    apiclient.FleetviewStatusCounts
}

func placeColumns() []column[place] {
	out := []column[place]{
		{title: "WHERE", text: func(p place) string { return p.name }},
		{title: "NODES", text: func(p place) string { return strconv.FormatInt(p.total, 10) }},
	}
	for _, state := range []struct {
		title string
		of    func(apiclient.FleetviewStatusCounts) int64
	}{
		{"ACTIVE", func(c apiclient.FleetviewStatusCounts) int64 { return c.Active }},
		{"OFFLINE", func(c apiclient.FleetviewStatusCounts) int64 { return c.Offline }},
		{"QUARANTINED", func(c apiclient.FleetviewStatusCounts) int64 { return c.Quarantined }},
		{"DRAINING", func(c apiclient.FleetviewStatusCounts) int64 { return c.Draining }},
		{"RETIRED", func(c apiclient.FleetviewStatusCounts) int64 { return c.Retired }},
		{"REMOVING", func(c apiclient.FleetviewStatusCounts) int64 { return c.Removing }},
		{"BOOTSTRAP ISSUED", func(c apiclient.FleetviewStatusCounts) int64 { return c.BootstrapIssued }},
		{"ENROLLING", func(c apiclient.FleetviewStatusCounts) int64 { return c.Enrolling }},
	} {
		out = append(out, column[place]{title: state.title, text: func(p place) string { return strconv.FormatInt(state.of(p.by), 10) }})
	}
	return out
}

func (a *app) fleetMapCommand() *cobra.Command {
	return a.verb(verb{
		use: "map", short: "Show every node with what tells at a glance how it is", operations: []string{"get-fleet-map"},
		flags: func(cmd *cobra.Command) action {
			region := cmd.Flags().String("region", "", "only nodes of this region")
			site := cmd.Flags().String("site", "", "only nodes of this site, by name or id")
			return func(s *session, _ []string) error {
				params := apiclient.GetFleetMapParams{RegionCode: given(s, "region", region)}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				raw, err := apiclient.Read(s.api.GetFleetMapWithResponse(s.ctx, &params))
				if err != nil {
					return err
				}
				return s.showMap(raw)
			}
		},
	})
}

func (s *session) showMap(raw json.RawMessage) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printRaw(s.program.Out, format, raw)
	}
	all, err := decode[apiclient.FleetviewMap](raw)
	if err != nil {
		return err
	}
	if len(all.value.Nodes) == 0 {
		s.note("there are no nodes")
		return nil
	}
	spots := make([]object[apiclient.FleetviewSpot], len(all.value.Nodes))
	for i, v := range all.value.Nodes {
		spots[i].value = v
	}
	if err := printTable(s.program.Out, spotColumns(), spots, !s.flags.noHeaders); err != nil {
		return err
	}
	if all.value.Truncated {
		s.note("there are more; see those of one site or region with --site or --region")
	}
	return nil
}

func spotColumns() []column[apiclient.FleetviewSpot] {
	type spot = apiclient.FleetviewSpot
	return []column[spot]{
		{title: "HOSTNAME", text: func(v spot) string { return v.Hostname }},
		{title: "REGION", text: func(v spot) string { return v.RegionCode }},
		{title: "STATUS", text: func(v spot) string { return string(v.Status) }},
		{title: "SCHEDULABLE", text: func(v spot) string { return yesNo(v.Schedulable) }},
		{title: "DRIFT", text: func(v spot) string { return string(v.DriftState) }},
		{title: "WORST FINDING", text: func(v spot) string {
			if v.Severity == nil {
				return ""
			}
			return string(*v.Severity)
		}},
		{title: "JOB", text: func(v spot) string {
			if v.Job == nil {
				return ""
			}
			return string(v.Job.Kind) + " " + string(v.Job.Status)
		}},
		{title: "ID", text: func(v spot) string { return v.NodeId.String() }},
	}
}
