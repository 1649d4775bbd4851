package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// driftStates are what the agent of a node can be.
func driftStates() []string {
	return apiclient.Words("list-nodes.drift_state")
}

// searchedNodes is what --search looks at, in words.
const searchedNodes = "only nodes that have this in their hostname, host or address, whose id starts with this, " +
	"or of which a serial, a MAC address or the system UUID starts or ends with this"

// fleetCommand counts by itself: it is what people look at first.
func (a *app) fleetCommand() *cobra.Command {
	cmd := a.verb(verb{
		use: "fleet", short: "The whole fleet at a glance", group: groupMachines, operations: []string{"get-fleet-summary"},
		long: "Counts nodes by state, region and site, and what needs attention: agents that are not what they should be, " +
			"findings\n" +
			"of reconciliation and jobs that wait for an operator. gpuaas fleet map has a line for every node.",
		example: "  gpuaas fleet\n  gpuaas fleet --site dc1 --drift version_drift\n  gpuaas fleet map --region eu-1",
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			sku := f.String("sku", "", "only nodes of this kind")
			region := f.String("region", "", "only nodes of this region")
			site := f.String("site", "", "only nodes of this site, by name or id")
			search := f.String("search", "", searchedNodes)
			drift := f.String("drift", "", "only nodes whose agent has this drift, such as version_drift")
			agent := f.String("agent", "", "only nodes whose agent has this state: current, drift or unknown_build")
			held := f.String("held", "", "only nodes that are kept out of scheduling (true), or are not (false)")
			tainted := f.String("tainted", "", "only nodes that are not proven clean (true), or the others (false)")
			frame.Complete(cmd, "drift", driftStates()...)
			frame.Complete(cmd, "agent", apiclient.Words("get-fleet-summary.agent")...)
			frame.Complete(cmd, "held", apiclient.Words("get-fleet-summary.held")...)
			frame.Complete(cmd, "tainted", apiclient.Words("get-fleet-summary.tainted")...)
			return func(s *session, _ []string) error {
				params := apiclient.GetFleetSummaryParams{
					Sku: frame.Given(s.Session, "sku", sku), RegionCode: frame.Given(s.Session, "region", region),
					Q:          frame.Given(s.Session, "search", search),
					DriftState: frame.GivenAs[apiclient.GetFleetSummaryParamsDriftState](s.Session, "drift", drift),
					Agent:      frame.GivenAs[apiclient.GetFleetSummaryParamsAgent](s.Session, "agent", agent),
					Held:       frame.GivenAs[apiclient.GetFleetSummaryParamsHeld](s.Session, "held", held),
					Tainted:    frame.GivenAs[apiclient.GetFleetSummaryParamsTainted](s.Session, "tainted", tainted),
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
	raw, err := apiclient.Read(s.API.GetFleetSummaryWithResponse(s.Ctx, &params))
	if err != nil {
		return err
	}
	if err := frame.PrintOne(s.App, s.app.fleetColumns(), raw); err != nil {
		return err
	}
	summary, err := output.Decode[apiclient.FleetviewSummary](raw)
	if err != nil {
		return err
	}
	var places []place
	add := func(name string, total int64, by apiclient.FleetviewStatusCounts) error {
		counts, err := countsOf(by)
		places = append(places, place{name, total, counts})
		return err
	}
	if err := add("all", summary.Value.Total, summary.Value.ByStatus); err != nil {
		return err
	}
	for _, r := range summary.Value.Regions {
		if err := add("region "+r.RegionCode, r.Total, r.ByStatus); err != nil {
			return err
		}
	}
	for _, site := range summary.Value.Sites {
		if err := add("site "+site.Name, site.Total, site.ByStatus); err != nil {
			return err
		}
	}
	return frame.PrintPart(s.Session, placeColumns(), places)
}

func (a *app) fleetColumns() []table.Column[apiclient.FleetviewSummary] {
	type view = apiclient.FleetviewSummary
	number := func(of func(view) int64) func(view) string {
		return func(v view) string { return strconv.FormatInt(of(v), 10) }
	}
	columns := []table.Column[view]{
		{Title: "NODES", Text: number(func(v view) int64 { return v.Total })},
		{Title: "GPUS", Text: number(func(v view) int64 { return v.GpusTotal })},
		{Title: "SCHEDULABLE", Text: number(func(v view) int64 { return v.Schedulable })},
		{Title: "HELD", Text: number(func(v view) int64 { return v.Held })},
		{Title: "TAINTED", Text: number(func(v view) int64 { return v.Tainted })},
		{Title: "AGENTS", Text: func(v view) string {
			return fmt.Sprintf("%d current, %d drift, %d unknown build", v.Agents.Current, v.Agents.Drift, v.Agents.UnknownBuild)
		}},
		{Title: "FINDINGS", Text: func(v view) string {
			return countsText(
				apiclient.ReconciliationFindingCounts(v.Findings))
		}},
	}
	for _, kind := range apiclient.Words("FleetviewSpotJob.kind") {
		columns = append(columns, table.Column[view]{Title: strings.ToUpper(kind) + "S", Text: func(v view) string {
			counts, err := countsOf(v.Jobs)
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%d running, %d parked", counts[kind+"s_running"], counts[kind+"s_parked"])
		}})
	}
	return append(columns, []table.Column[view]{
		{Title: "KINDS", Text: func(v view) string {
			kinds := make([]string, len(v.Skus))
			for i, k := range v.Skus {
				kinds[i] = fmt.Sprintf("%d × %s", k.Total, k.Sku)
			}
			return strings.Join(kinds, ", ")
		}},
		{Title: "AS OF", Text: func(v view) string { return a.When(v.AsOf) }},
	}...)
}

// place is a part of the fleet.
type place struct {
	name  string
	total int64
	by    map[string]int64 // state to number
}

// countsOf reads counts by their names, so that a new state or kind of job needs no
// line here.
func countsOf(by any) (map[string]int64, error) {
	raw, err := json.Marshal(by)
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	var counts map[string]int64
	if err := json.Unmarshal(raw, &counts); err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	return counts, nil
}

func placeColumns() []table.Column[place] {
	out := []table.Column[place]{
		{Title: "WHERE", Text: func(p place) string { return p.name }},
		{Title: "NODES", Text: func(p place) string { return strconv.FormatInt(p.total, 10) }},
	}
	for _, state := range apiclient.Words("FleetviewSpot.status") {
		out = append(out, table.Column[place]{
			Title: strings.ToUpper(strings.ReplaceAll(state, "_", " ")),
			Text:  func(p place) string { return strconv.FormatInt(p.by[state], 10) },
		})
	}
	return out
}

func (a *app) fleetMapCommand() *cobra.Command {
	return a.verb(verb{
		use: "map", short: "Show every node with what tells at a glance how it is", operations: []string{"get-fleet-map"},
		flags: func(cmd *cobra.Command) action {
			region := cmd.Flags().String("region", "", "only nodes of this region")
			site := cmd.Flags().String("site", "", "only nodes of this site, by name or id")
			search := cmd.Flags().String("search", "", searchedNodes)
			return func(s *session, _ []string) error {
				params := apiclient.GetFleetMapParams{
					RegionCode: frame.Given(s.Session, "region", region), Q: frame.Given(s.Session, "search", search),
				}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				raw, err := apiclient.Read(s.API.GetFleetMapWithResponse(s.Ctx, &params))
				if err != nil {
					return err
				}
				return s.showMap(raw)
			}
		},
	})
}

func (s *session) showMap(raw json.RawMessage) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, raw)
	}
	all, err := output.Decode[apiclient.FleetviewMap](raw)
	if err != nil {
		return err
	}
	if len(all.Value.Nodes) == 0 {
		s.Note("there are no nodes")
		return nil
	}
	spots := make([]output.Object[apiclient.FleetviewSpot], len(all.Value.Nodes))
	for i, v := range all.Value.Nodes {
		spots[i].Value = v
	}
	if err := table.Print(s.Program.Out, spotColumns(), spots, !s.Flags.NoHeaders, s.Wide()); err != nil {
		return err
	}
	if all.Value.Truncated {
		s.Note("there are more; see those of one site or region with --site or --region")
	}
	return nil
}

func spotColumns() []table.Column[apiclient.FleetviewSpot] {
	type spot = apiclient.FleetviewSpot
	return []table.Column[spot]{
		{Title: "HOSTNAME", Text: func(v spot) string { return v.Hostname }},
		{Title: "REGION", Text: func(v spot) string { return v.RegionCode }},
		{Title: "STATUS", Text: func(v spot) string { return string(v.Status) }},
		{Title: "SCHEDULABLE", Text: func(v spot) string { return yesNo(v.Schedulable) }},
		{Title: "AGENT DRIFT", Text: func(v spot) string { return string(v.DriftState) }},
		{Title: "MACHINE FINDING", Text: func(v spot) string {
			if v.Severity == nil {
				return ""
			}
			return string(*v.Severity)
		}},
		{Title: "JOB", Text: func(v spot) string {
			if v.Job == nil {
				return ""
			}
			return string(v.Job.Kind) + " " + string(v.Job.Status)
		}},
		{Title: "ID", Wide: true, Text: func(v spot) string { return v.NodeId.String() }},
	}
}
