package fleetview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/fleetview/internal/fleetviewdb"
	"gpuaas/controlplane/internal/fleet/node"
)

// AgentGroup counts nodes in service whose agents are alike.
type AgentGroup struct {
	Version string       `json:"version" doc:"As the agents report it; empty: they never enrolled." example:"1.4.0"`
	Channel node.Channel `json:"channel" doc:"Which releases the nodes follow."`
	Badge   node.Badge   `json:"badge" doc:"How the agents are shown: their drift in a word."`
	Nodes   int64        `json:"nodes"`
}

// Agents counts the agents of the fleet.
type Agents struct {
	AsOf  time.Time    `json:"as_of" doc:"When it was so; nothing here is older."`
	Total int64        `json:"total" doc:"Nodes in service."`
	Items []AgentGroup `json:"items" nullable:"false" doc:"By version, channel and badge; the version that most nodes run comes first."`
}

// Agents counts the nodes in service by version, channel and drift of their agents.
func (s *Service) Agents(ctx context.Context) (Agents, error) {
	now := s.now()
	rows, err := s.reads.Agents(ctx, now)
	if err != nil {
		return Agents{}, fmt.Errorf("count agents: %w", err)
	}
	out := Agents{AsOf: now.UTC(), Items: []AgentGroup{}}
	counted, run := map[AgentGroup]int64{}, map[string]int64{}
	for _, r := range rows {
		g := AgentGroup{Version: r.ReportedAgentVersion, Channel: node.Channel(r.AgentChannel), Badge: badge(r, now)}
		counted[g] += r.Nodes
		run[g.Version] += r.Nodes
		out.Total += r.Nodes
	}
	for g, nodes := range counted {
		g.Nodes = nodes
		out.Items = append(out.Items, g)
	}
	slices.SortFunc(out.Items, func(a, b AgentGroup) int {
		return cmp.Or(cmp.Compare(run[b.Version], run[a.Version]), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Badge, b.Badge))
	})
	return out, nil
}

func badge(r fleetviewdb.AgentsRow, now time.Time) node.Badge {
	return node.Build{
		Version: r.ReportedAgentVersion, Commit: r.ReportedAgentCommit, Desired: r.WantedAgentVersion,
		CertificateNotAfter: &r.CertificateNotAfter, Verifiers: r.VerifierVersion, VerifiersWanted: r.VerifiersWanted,
	}.Badge(now)
}

var (
	agentsBy = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.node_agents", Labels: []string{"badge"}, Help: "Nodes in service by the drift of their agents.",
	})
	agentVersions = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.node_agents.versions", Labels: []string{"version"},
		Help: "Nodes in service by the version of their agents: the ten that most of them run, and others.",
	})
)

// mostVersions bounds the values of a label. An agent may report any version.
const mostVersions = 10

// ObserveStats exports the agents of the fleet. It reads them at each collection.
func (s *Service) ObserveStats() error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		all, err := s.Agents(ctx)
		if err != nil {
			return err
		}
		badges, versions := map[node.Badge]int64{}, map[string]int64{}
		for _, g := range all.Items { // those that most nodes run come first
			badges[g.Badge] += g.Nodes
			name := cmp.Or(g.Version, "none")
			if _, known := versions[name]; !known && len(versions) >= mostVersions {
				name = "others"
			}
			versions[name] += g.Nodes
		}
		for _, b := range node.Badges() {
			seen(agentsBy, float64(badges[b]), string(b))
		}
		for version, nodes := range versions {
			seen(agentVersions, float64(nodes), version)
		}
		return nil
	}, agentsBy, agentVersions)
	return err
}
