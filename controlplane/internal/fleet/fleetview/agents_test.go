package fleetview_test

import (
	"slices"
	"testing"

	"gpuaas/controlplane/internal/engine/telemetry/telemetrytest"
	"gpuaas/controlplane/internal/fleet/fleetview"
	"gpuaas/controlplane/internal/fleet/node"
)

func TestAgentsAreCountedByVersionChannelAndDrift(t *testing.T) {
	scraper := telemetrytest.New(t)
	w := newWorld(t)
	const follows = `agent_channel = 'stable', `
	w.node(t, "a1", "eu", "active", follows+`desired_agent_version = ''`)
	w.node(t, "a2", "eu", "offline", follows+`desired_agent_version = '1.0.0'`)
	w.node(t, "a3", "eu", "active", follows+`desired_agent_version = '1.1.0'`)
	w.node(t, "a4", "eu", "active", `certificate_not_after = '2020-01-01'`)
	w.node(t, "b1", "us", "active", follows+`reported_agent_version = '1.1.0'`)
	w.node(t, "b2", "us", "active", `reported_agent_version = 'dev'`)
	w.node(t, "b3", "us", "bootstrap_issued", `reported_agent_version = ''`)
	w.node(t, "gone", "us", "retired", "")
	want := []fleetview.AgentGroup{
		{Version: "1.0.0", Channel: node.Stable, Badge: node.BadgeCurrent, Nodes: 2},
		{Version: "1.0.0", Channel: node.Stable, Badge: node.BadgeOutdated, Nodes: 1},
		{Version: "1.0.0", Channel: node.Unassigned, Badge: node.BadgeCertRepair, Nodes: 1},
		{Version: "", Channel: node.Unassigned, Badge: node.BadgeUnknownBuild, Nodes: 1},
		{Version: "1.1.0", Channel: node.Stable, Badge: node.BadgeCurrent, Nodes: 1},
		{Version: "dev", Channel: node.Unassigned, Badge: node.BadgeUnknownBuild, Nodes: 1},
	}
	if got := get[fleetview.Agents](t, w, "/agents"); got.Total != 7 || !slices.Equal(got.Items, want) {
		t.Errorf("%d nodes: %+v", got.Total, got.Items)
	}
	if err := w.service.ObserveStats(); err != nil {
		t.Fatal(err)
	}
	scraper.Wants(
		t, `gpuaas_node_agents{badge="current"} 3`, `gpuaas_node_agents{badge="config_drift"} 0`,
		`gpuaas_node_agents_versions{version="1.0.0"} 4`, `gpuaas_node_agents_versions{version="none"} 1`,
	)
}
