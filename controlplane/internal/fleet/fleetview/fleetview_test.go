package fleetview_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/fleetview"
	"gpuaas/controlplane/internal/fleet/node"
)

// fleet is two regions with one site each, and everything that can be wrong.
type fleet struct {
	*world
	north, south, empty id.Site
	nodes               map[string]id.Node
	jobs                map[string]*fleetview.SpotJob // by node, those that the map shows
}

func newFleet(tb testing.TB) fleet {
	tb.Helper()
	w := newWorld(tb)
	f := fleet{
		world: w, north: w.site(tb, "north", "eu-1"), south: w.site(tb, "south", "eu-2"),
		empty: w.site(tb, "empty", "eu-2"),
	}
	gone := w.site(tb, "gone", "eu-1")
	w.exec(tb, `UPDATE maas_sites SET deleted_at = clock_timestamp() WHERE id = $1`, gone)
	f.nodes = map[string]id.Node{
		"healthy": w.node(tb, "healthy", "eu-1", "active", ""),
		"held": w.node(tb, "held", "eu-1", "active",
			"schedulable = false, hold_reason = 'two fans', tainted_at = clock_timestamp(), gpus_total = 4"),
		"draining": w.node(tb, "draining", "eu-1", "draining",
			"held_by = 'decommission x', tainted_at = clock_timestamp() - interval '1 day', clean_at = clock_timestamp()"),
		"behind": w.node(tb, "behind", "eu-2", "offline", "desired_agent_version = '1.1.0'"),
		"dev":    w.node(tb, "dev", "eu-2", "quarantined", "reported_agent_version = 'dev'"),
		"nameless": w.node(tb, "nameless", "eu-2", "retired",
			"reported_agent_commit = 'unknown', certificate_not_after = NULL"),
		"uncertified": w.node(tb, "uncertified", "eu-2", "removing", "certificate_not_after = '2020-01-01', sku_id = '"+
			otherSKU+"'"),
		"arriving": w.node(tb, "arriving", "eu-1", "bootstrap_issued",
			"reported_agent_version = '', reported_agent_commit = ''"),
		"enrolling": w.node(tb, "enrolling", "eu-1", "enrolling", ""),
		"deleted":   w.node(tb, "deleted", "eu-1", "deleted", ""),
	}
	for name, site := range map[string]id.Site{
		"healthy": f.north, "held": f.north, "draining": f.north, "behind": f.south,
		"dev": f.south,
	} {
		w.bind(tb, f.nodes[name], site)
	}
	w.find(tb, f.north, f.nodes["held"], "info", "open")
	w.find(tb, f.north, f.nodes["held"], "critical", "confirmed")
	w.find(tb, f.north, f.nodes["held"], "warning", "acted")
	w.find(tb, f.north, f.nodes["healthy"], "critical", "closed")
	w.find(tb, f.south, f.nodes["dev"], "warning", "open")
	w.find(tb, f.south, id.Node{}, "debug", "open")
	w.find(tb, gone, id.Node{}, "critical", "open")
	w.find(tb, f.north, f.nodes["deleted"], "critical", "confirmed") // nobody can settle it any more
	onboard := func(site id.Site, n id.Node, hostname, status string) *fleetview.SpotJob {
		return &fleetview.SpotJob{
			Kind: "onboarding", JobID: w.onboard(tb, site, n, hostname, status).String(),
			Status: status,
		}
	}
	decommission := func(site id.Site, name, status string) *fleetview.SpotJob {
		return &fleetview.SpotJob{
			Kind:  "decommission",
			JobID: w.decommission(tb, site, f.nodes[name], status).String(), Status: status,
		}
	}
	onboard(f.north, f.nodes["draining"], "draining", "compensating") // the decommission was asked for later
	f.jobs = map[string]*fleetview.SpotJob{
		"arriving": onboard(f.north, f.nodes["arriving"], "arriving", "failed_retryable"),
		"healthy":  onboard(f.south, f.nodes["healthy"], "elsewhere", "running"), // it has a machine of north
		"draining": decommission(f.north, "draining", "running"),
		"dev":      decommission(f.south, "dev", "failed_manual_intervention"),
	}
	onboard(f.north, f.nodes["healthy"], "healthy", "completed")
	onboard(f.south, id.New[id.Node](), "expected", "pending")
	decommission(f.south, "behind", "cancelled")
	return f
}

func TestTheFleetIsCounted(t *testing.T) {
	f := newFleet(t)
	got := get[fleetview.Summary](t, f.world, "")
	want := fleetview.Summary{
		AsOf: now, Total: 9, GPUsTotal: 68, Schedulable: 1, Held: 2, Tainted: 1,
		ByStatus: counts(fleetview.StatusCounts{
			node.BootstrapIssued: 1, node.Enrolling: 1, node.Active: 2, node.Offline: 1, node.Quarantined: 1, node.Draining: 1,
			node.Retired: 1, node.Removing: 1,
		}),
		// of all but the retired and the removing node
		Agents:   fleetview.AgentCounts{Current: 4, Drift: 1, UnknownBuild: 2},
		Findings: fleetview.FindingCounts{Critical: 1, Warning: 2, Info: 1, Debug: 1},
		Jobs: fleetview.JobCounts{
			"onboardings_running": 3, "onboardings_parked": 1, "decommissions_running": 1, "decommissions_parked": 1,
			"loans_running": 0, "loans_parked": 0,
		},
		Regions: []fleetview.Region{
			{RegionCode: "eu-1", Counted: fleetview.Counted{
				Total: 5,
				ByStatus: counts(fleetview.StatusCounts{
					node.BootstrapIssued: 1, node.Enrolling: 1, node.Active: 2, node.Draining: 1,
				}),
			}},
			{RegionCode: "eu-2", Counted: fleetview.Counted{
				Total:    4,
				ByStatus: counts(fleetview.StatusCounts{node.Offline: 1, node.Quarantined: 1, node.Retired: 1, node.Removing: 1}),
			}},
		},
		Sites: []fleetview.SiteCount{
			{
				SiteID: f.empty, Name: "empty", RegionCode: "eu-2",
				Counted: fleetview.Counted{ByStatus: counts(fleetview.StatusCounts{})},
			},
			{
				SiteID: f.north, Name: "north", RegionCode: "eu-1",
				Counted: fleetview.Counted{
					Total:    4,
					ByStatus: counts(fleetview.StatusCounts{node.BootstrapIssued: 1, node.Active: 2, node.Draining: 1}),
				},
			},
			{
				SiteID: f.south, Name: "south", RegionCode: "eu-2",
				Counted: fleetview.Counted{
					Total:    2,
					ByStatus: counts(fleetview.StatusCounts{node.Offline: 1, node.Quarantined: 1}),
				},
			},
		},
		SKUs: []fleetview.SKUCount{{SKU: someSKU, Total: 8}, {SKU: otherSKU, Total: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the fleet is not as it is (- want, + got):\n%s", diff)
	}
}

// counts adds the zeroes.
func counts(c fleetview.StatusCounts) fleetview.StatusCounts {
	for _, s := range node.Lifecycle.Lasting() {
		c[s] += 0
	}
	return c
}

// machineJobs are the counts of onboardings and decommissions.
func machineJobs(s fleetview.Summary) [4]int64 {
	return [4]int64{
		s.Jobs["onboardings_running"], s.Jobs["onboardings_parked"], s.Jobs["decommissions_running"],
		s.Jobs["decommissions_parked"],
	}
}

// A kind of jobs that the view knows nothing of but its name and statuses is
// counted, shown and in the contract like every other one.
func TestAnyKindOfJobIsShown(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "reader", "eu-1", "active", "")
	w.onboard(t, w.site(t, "dc1", "eu-1"), n, "reader", "running")
	lent := w.lend(t, n, "asked")
	w.lend(t, id.Node{}, "stuck")
	if s := get[fleetview.Summary](t, w, ""); s.Jobs["loans_running"] != 1 || s.Jobs["loans_parked"] != 1 {
		t.Errorf("%v", s.Jobs)
	}
	m := get[fleetview.Map](t, w, "/map")
	want := fleetview.SpotJob{Kind: "loan", JobID: lent, Status: "asked"}
	if len(m.Nodes) != 1 || *m.Nodes[0].Job != want {
		t.Errorf("%+v, want the job that was asked for last", m.Nodes)
	}
	schemas := w.api.OpenAPI().Components.Schemas.Map()
	spot, counts := schemas["FleetviewSpotJob"].Properties, schemas["FleetviewJobCounts"]
	if !slices.Contains(spot["kind"].Enum, any("loan")) || !slices.Contains(spot["status"].Enum, any("stuck")) ||
		!slices.Contains(counts.Required, "loans_parked") || counts.Properties["loans_running"] == nil {
		t.Errorf("the contract says %v, %v, %v", spot["kind"].Enum, spot["status"].Enum, counts.Required)
	}
}

// Everything in a summary follows the filter, not only the nodes.
func TestTheSummaryIsNarrowed(t *testing.T) {
	f := newFleet(t)
	f.exec(t, `INSERT INTO node_hardware (node_id, known, origin) VALUES ($1, '{"macs": ["0c:42:a1:00:00:07"]}', 'maas')`,
		f.nodes["dev"])
	for query, want := range map[string]string{
		"?region_code=eu-1":              "5 nodes, findings {1 1 1 0}, jobs [2 1 1 0], sites [north]",
		"?region_code=eu-2":              "4 nodes, findings {0 1 0 1}, jobs [1 0 0 1], sites [empty south]",
		"?site_id=" + f.north.String():   "4 nodes, findings {1 1 1 0}, jobs [1 1 1 0], sites [north]",
		"?site_id=" + f.empty.String():   "0 nodes, findings {0 0 0 0}, jobs [0 0 0 0], sites [empty]",
		"?sku=" + otherSKU:               "1 nodes, findings {0 0 0 0}, jobs [0 0 0 0], sites [empty north south]",
		"?q=HELD":                        "1 nodes, findings {1 1 1 0}, jobs [0 0 0 0], sites [empty north south]",
		"?q=0c42a1000007":                "1 nodes, findings {0 1 0 0}, jobs [0 0 0 1], sites [empty north south]",
		"?q=host-of-dev":                 "1 nodes, findings {0 1 0 0}, jobs [0 0 0 1], sites [empty north south]",
		"?q=expected":                    "0 nodes, findings {0 0 0 0}, jobs [1 0 0 0], sites [empty north south]",
		"?q=" + f.nodes["dev"].String():  "1 nodes, findings {0 1 0 0}, jobs [0 0 0 1], sites [empty north south]",
		"?drift_state=in_sync":           "4 nodes, findings {1 1 1 0}, jobs [2 0 1 0], sites [empty north south]",
		"?drift_state=version_drift":     "2 nodes, findings {0 1 0 0}, jobs [0 0 0 1], sites [empty north south]",
		"?drift_state=unknown":           "1 nodes, findings {0 0 0 0}, jobs [0 1 0 0], sites [empty north south]",
		"?drift_state=unknown&q=healthy": "0 nodes, findings {0 0 0 0}, jobs [0 0 0 0], sites [empty north south]",
		"?agent=current":                 "4 nodes, findings {1 1 1 0}, jobs [2 0 1 0], sites [empty north south]",
		"?agent=drift":                   "1 nodes, findings {0 0 0 0}, jobs [0 0 0 0], sites [empty north south]",
		"?agent=unknown_build":           "2 nodes, findings {0 1 0 0}, jobs [0 1 0 1], sites [empty north south]",
		"?held=true":                     "2 nodes, findings {1 1 1 0}, jobs [1 0 1 0], sites [empty north south]",
		"?held=false":                    "7 nodes, findings {0 1 0 0}, jobs [1 1 0 1], sites [empty north south]",
		"?tainted=true":                  "1 nodes, findings {1 1 1 0}, jobs [0 0 0 0], sites [empty north south]",
		"?tainted=false&held=true":       "1 nodes, findings {0 0 0 0}, jobs [1 0 1 0], sites [empty north south]",
	} {
		s := get[fleetview.Summary](t, f.world, query)
		var sites []string
		for _, site := range s.Sites {
			sites = append(sites, site.Name)
		}
		got := fmt.Sprintf("%d nodes, findings %v, jobs %v, sites %v", s.Total, s.Findings, machineJobs(s), sites)
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// The region of a site may change while it has nodes, but that of the nodes
// does not. A finding about a node belongs to the node's region, others to the
// site's region.
func TestARegionHasWhatIsAboutItsNodes(t *testing.T) {
	f := newFleet(t)
	w := f.world
	w.find(t, f.north, id.Node{}, "debug", "open")
	w.onboard(t, f.north, id.New[id.Node](), "awaited", "pending")
	w.exec(t, `UPDATE maas_sites SET region_code = 'moved' WHERE id = $1`, f.north)
	for region, want := range map[string]string{
		"eu-1":  "5 nodes, findings {1 1 1 0}, jobs [2 1 1 0]",
		"moved": "0 nodes, findings {0 0 0 1}, jobs [1 0 0 0]",
	} {
		s := get[fleetview.Summary](t, w, "?region_code="+region)
		if got := fmt.Sprintf("%d nodes, findings %v, jobs %v", s.Total, s.Findings, machineJobs(s)); got != want {
			t.Errorf("%s: %s, want %s", region, got, want)
		}
	}
	var all []fleetview.Spot
	for _, spot := range get[fleetview.Map](t, w, "/map").Nodes {
		if spot.RegionCode == "eu-1" {
			all = append(all, spot)
		}
	}
	if diff := cmp.Diff(all, get[fleetview.Map](t, w, "/map?region_code=eu-1").Nodes); diff != "" {
		t.Errorf("the map of a region shows its nodes otherwise than that of the fleet (- fleet, + region):\n%s", diff)
	}
}

// A number of the summary equals the number of nodes that its filter selects.
func TestWhatIsCountedCanBeNarrowedTo(t *testing.T) {
	f := newFleet(t)
	all := get[fleetview.Summary](t, f.world, "")
	for query, want := range map[string]fleetview.Summary{
		"?agent=current": {Total: all.Agents.Current, Agents: fleetview.AgentCounts{Current: all.Agents.Current}},
		"?agent=drift":   {Total: all.Agents.Drift, Agents: fleetview.AgentCounts{Drift: all.Agents.Drift}},
		"?agent=unknown_build": {
			Total:  all.Agents.UnknownBuild,
			Agents: fleetview.AgentCounts{UnknownBuild: all.Agents.UnknownBuild},
		},
	} {
		if got := get[fleetview.Summary](t, f.world, query); got.Total != want.Total || got.Agents != want.Agents {
			t.Errorf("%s leaves %d nodes, %+v, want %d, %+v", query, got.Total, got.Agents, want.Total, want.Agents)
		}
	}
	for query, want := range map[string][2]int64{
		"?held=true": {all.Held, all.Held}, "?held=false": {all.Total - all.Held, 0},
	} {
		if got := get[fleetview.Summary](t, f.world, query); [2]int64{got.Total, got.Held} != want {
			t.Errorf("%s leaves %d nodes, %d of them held, want %v", query, got.Total, got.Held, want)
		}
	}
	for query, want := range map[string][2]int64{
		"?tainted=true": {all.Tainted, all.Tainted}, "?tainted=false": {all.Total - all.Tainted, 0},
	} {
		if got := get[fleetview.Summary](t, f.world, query); [2]int64{got.Total, got.Tainted} != want {
			t.Errorf("%s leaves %d nodes, %d of them tainted, want %v", query, got.Total, got.Tainted, want)
		}
	}
	for _, query := range []string{"?agent=in_sync", "?held=yes", "?tainted=1"} {
		if answer := f.get(t, "root", query); answer.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s answers %d %s", query, answer.Status, answer.Body)
		}
	}
}

// Nodes that are alike are read as one row. All of them count, and filters
// still find those with a finding or a job.
func TestNodesThatAreAlikeAreCountedOneByOne(t *testing.T) {
	w := newWorld(t)
	site := w.site(t, "dc1", "eu-1")
	for i := range 4 {
		n := w.node(t, fmt.Sprintf("n%d", i), "eu-1", "active",
			fmt.Sprintf("certificate_not_after = certificate_not_after + interval '%d minutes'", i))
		w.bind(t, n, site)
		if i < 2 {
			w.find(t, site, n, "warning", "open")
			w.onboard(t, site, n, fmt.Sprintf("n%d", i), "running")
		}
	}
	for i, set := range []string{
		"certificate_not_after = '2026-03-04T12:00:00Z'", // which is now
		"certificate_not_after = '2026-03-04T11:59:59Z'", "certificate_not_after = NULL",
	} {
		w.node(t, fmt.Sprintf("expired%d", i), "eu-1", "active", set)
	}
	for i, clean := range []string{"NULL", "'2026-03-04T10:59:59Z'", "'2026-03-04T11:00:00Z'", "'2026-03-04T11:00:01Z'"} {
		w.node(t, fmt.Sprintf("used%d", i), "eu-1", "active", "tainted_at = '2026-03-04T11:00:00Z', clean_at = "+clean)
	}
	for query, want := range map[string]string{
		"":                      "11 nodes, 88 GPUs, 3 tainted, agents {8 3 0}, findings {0 2 0 0}, jobs [2 0 0 0], sites 4",
		"?agent=current":        "8 nodes, 64 GPUs, 3 tainted, agents {8 0 0}, findings {0 2 0 0}, jobs [2 0 0 0], sites 4",
		"?agent=drift":          "3 nodes, 24 GPUs, 0 tainted, agents {0 3 0}, findings {0 0 0 0}, jobs [0 0 0 0], sites 0",
		"?tainted=true":         "3 nodes, 24 GPUs, 3 tainted, agents {3 0 0}, findings {0 0 0 0}, jobs [0 0 0 0], sites 0",
		"?q=n1":                 "1 nodes, 8 GPUs, 0 tainted, agents {1 0 0}, findings {0 1 0 0}, jobs [1 0 0 0], sites 1",
		"?tainted=false&q=n":    "4 nodes, 32 GPUs, 0 tainted, agents {4 0 0}, findings {0 2 0 0}, jobs [2 0 0 0], sites 4",
		"?q=n&agent=drift":      "0 nodes, 0 GPUs, 0 tainted, agents {0 0 0}, findings {0 0 0 0}, jobs [0 0 0 0], sites 0",
		"?drift_state=in_sync":  "8 nodes, 64 GPUs, 3 tainted, agents {8 0 0}, findings {0 2 0 0}, jobs [2 0 0 0], sites 4",
		"?region_code=eu-2&q=n": "0 nodes, 0 GPUs, 0 tainted, agents {0 0 0}, findings {0 0 0 0}, jobs [0 0 0 0], sites 0",
	} {
		s := get[fleetview.Summary](t, w, query)
		var sited int64
		for _, site := range s.Sites {
			sited += site.Total
		}
		got := fmt.Sprintf("%d nodes, %d GPUs, %d tainted, agents %v, findings %v, jobs %v, sites %d", s.Total, s.GPUsTotal,
			s.Tainted, s.Agents, s.Findings, machineJobs(s), sited)
		if got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
}

func TestTheMapShowsEveryNode(t *testing.T) {
	f := newFleet(t)
	spot := func(name, region string, status node.Status, drift node.Drift, site id.Site) fleetview.Spot {
		return fleetview.Spot{
			NodeID: f.nodes[name], Hostname: name, Status: node.Present(status), Drift: drift, RegionCode: region,
			SiteID: site, Job: f.jobs[name],
		}
	}
	want := []fleetview.Spot{
		spot("arriving", "eu-1", node.BootstrapIssued, node.UnknownDrift, f.north),
		spot("draining", "eu-1", node.Draining, node.InSync, f.north),
		spot("enrolling", "eu-1", node.Enrolling, node.InSync, id.Site{}),
		spot("healthy", "eu-1", node.Active, node.InSync, f.north),
		spot("held", "eu-1", node.Active, node.InSync, f.north),
		spot("behind", "eu-2", node.Offline, node.VersionDrift, f.south),
		spot("dev", "eu-2", node.Quarantined, node.VersionDrift, f.south),
		spot("nameless", "eu-2", node.Retired, node.CertificateRepairOnly, id.Site{}),
		spot("uncertified", "eu-2", node.Removing, node.CertificateRepairOnly, id.Site{}),
	}
	want[3].Schedulable = true
	want[4].Severity, want[6].Severity = "critical", "warning"
	got := get[fleetview.Map](t, f.world, "/map")
	if diff := cmp.Diff(fleetview.Map{AsOf: now, Nodes: want}, got); diff != "" {
		t.Errorf("the map is not as the fleet is (- want, + got):\n%s", diff)
	}
	f.exec(t, `INSERT INTO node_hardware (node_id, known, origin) VALUES ($1, '{"macs": ["0c:42:a1:00:00:07"]}', 'maas')`,
		f.nodes["dev"])
	for query, want := range map[string]string{
		"?region_code=eu-2": "behind dev nameless uncertified", "?site_id=" +
			f.north.String(): "arriving draining healthy held",
		"?region_code=eu-1&site_id=" + f.south.String(): "",
		"?q=HE":                         "healthy held",
		"?q=he&limit=1":                 "healthy",
		"?q=he&region_code=eu-1":        "healthy held",
		"?q=0c-42-a1-00-00-07":          "dev",
		"?q=" + f.nodes["dev"].String(): "dev",
	} {
		var names []string
		for _, n := range get[fleetview.Map](t, f.world, "/map"+query).Nodes {
			names = append(names, n.Hostname)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s shows %q, want %q", query, got, want)
		}
	}
}

func TestAMapThatIsTooLargeSaysSo(t *testing.T) {
	f := newFleet(t)
	for most, more := range map[int32]bool{1: true, 8: true, 9: false, 10: false} {
		nodes, _, got, err := f.service.Look(t.Context(), fleetview.Filter{}, most)
		if err != nil || got != more || len(nodes) != min(int(most), 9) || nodes[0].Hostname != "arriving" {
			t.Errorf("at most %d: %d nodes, more: %v, %v", most, len(nodes), got, err)
		}
	}
}

// A fleet without anything in it is shown with empty lists.
func TestAnEmptyFleet(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{"": `"regions":[],"sites":[],"skus":[]`, "/map": `"nodes":[]`} {
		if answer := w.get(t, "root", path); answer.Status != http.StatusOK || !strings.Contains(string(answer.Body), want) {
			t.Errorf("%s answers %d %s", path, answer.Status, answer.Body)
		}
	}
}

func TestTheFleetIsNotForEverybody(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"", "/map"} {
		for token, status := range map[string]int{"guest": http.StatusForbidden, "stranger": http.StatusUnauthorized} {
			if answer := w.get(t, token, path); answer.Status != status {
				t.Errorf("%s: %s answers %d, want %d", token, path, answer.Status, status)
			}
		}
		for _, query := range []string{"?site_id=dc1", "?region_code=" + strings.Repeat("x", 64)} {
			if answer := w.get(t, "root", path+query); answer.Status != http.StatusUnprocessableEntity ||
				!strings.Contains(string(answer.Body), "validation_error") {
				t.Errorf("%s%s answers %d %s", path, query, answer.Status, answer.Body)
			}
		}
	}
}
