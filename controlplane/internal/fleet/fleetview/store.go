package fleetview

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/fleetview/internal/fleetviewdb"
	"gpuaas/controlplane/internal/fleet/node"
)

// Service reads the fleet. It is safe for concurrent use.
type Service struct {
	reads    *fleetviewdb.Queries
	families []Family
	now      func() time.Time
}

// New makes the service, which shows jobs of these families. It connects to
// nothing. A nil clock means the clock of this machine.
func New(db *postgres.DB, families []Family, clock func() time.Time) *Service {
	if clock == nil {
		clock = time.Now
	}
	return &Service{reads: fleetviewdb.New(db), families: families, now: clock}
}

// Summary counts the nodes that match a filter, with their findings and jobs.
func (s *Service) Summary(ctx context.Context, f Filter) (Summary, error) {
	now := s.now()
	nodes, err := s.alike(ctx, f, now)
	if err != nil {
		return Summary{}, err
	}
	findings, err := s.findings(ctx, f)
	if err != nil {
		return Summary{}, err
	}
	jobs, err := s.jobs(ctx, f)
	if err != nil {
		return Summary{}, err
	}
	rows, err := s.reads.Sites(ctx)
	if err != nil {
		return Summary{}, fmt.Errorf("read sites: %w", err)
	}
	sites := make([]Site, len(rows))
	for i, r := range rows {
		sites[i] = Site{ID: r.ID, Name: r.Name, RegionCode: r.RegionCode, Deleted: r.DeletedAt != nil}
	}
	out := summarise(f, f.keep(nodes), findings, jobs, sites, noJobs(s.families))
	out.AsOf = now.UTC()
	return out, nil
}

// Look reads at most so many nodes of a region or site, or those that a search
// finds, by region and hostname, with the findings and jobs of each. It returns
// the time of the reading, and whether there are more nodes. It ignores all other
// fields of the filter.
func (s *Service) Look(ctx context.Context, f Filter, most int32) (nodes []Node, asOf time.Time, more bool, err error) {
	asOf = s.now()
	if nodes, err = s.nodes(ctx, f, asOf, most+1); err != nil {
		return nil, asOf, false, err
	}
	findings, err := s.findings(ctx, f)
	if err != nil {
		return nil, asOf, false, err
	}
	jobs, err := s.jobs(ctx, f)
	if err != nil {
		return nil, asOf, false, err
	}
	if more = len(nodes) > int(most); more {
		nodes = nodes[:most]
	}
	mark(nodes, findings, jobs)
	return nodes, asOf, more, nil
}

func (s *Service) nodes(ctx context.Context, f Filter, now time.Time, most int32) ([]Node, error) {
	rows, err := s.reads.Nodes(ctx, fleetviewdb.NodesParams{
		RegionCode: optional(f.RegionCode), SiteID: f.site(),
		Search: optional(f.Search), Hardware: node.SoughtHardware(f.Search),
		Most: most,
	})
	if err != nil {
		return nil, fmt.Errorf("read nodes of the fleet: %w", err)
	}
	out := make([]Node, len(rows))
	for i, r := range rows {
		agent := node.Build{
			Version: r.ReportedAgentVersion, Commit: r.ReportedAgentCommit, Desired: r.WantedAgentVersion,
			CertificateNotAfter: r.CertificateNotAfter, Verifiers: r.VerifierVersion, VerifiersWanted: r.VerifiersWanted,
		}
		n := Node{
			ID: r.ID, Hostname: r.Hostname, Status: node.Status(r.Status), Schedulable: r.Schedulable,
			RegionCode: r.RegionCode, Rack: r.Rack, Site: r.SiteID, Drift: agent.Drift(now),
		}
		if n.Site.IsZero() {
			n.Site = r.ArrivingAt
		}
		out[i] = n
	}
	return out, nil
}

// alike reads nodes and ignores the condition filters: conditions are computed
// afterwards.
func (s *Service) alike(ctx context.Context, f Filter, now time.Time) ([]Alike, error) {
	rows, err := s.reads.Alike(ctx, fleetviewdb.AlikeParams{
		ByNode: f.byNode(), Now: now, SkuID: optional(f.SKU), RegionCode: optional(f.RegionCode), SiteID: f.site(),
		Search: optional(f.Search), Hardware: node.SoughtHardware(f.Search),
	})
	if err != nil {
		return nil, fmt.Errorf("count nodes of the fleet: %w", err)
	}
	out := make([]Alike, len(rows))
	for i, r := range rows {
		agent := node.Build{
			Version: r.ReportedAgentVersion, Commit: r.ReportedAgentCommit, Desired: r.WantedAgentVersion,
			CertificateNotAfter: &r.CertificateNotAfter, Verifiers: r.VerifierVersion, VerifiersWanted: r.VerifiersWanted,
		}
		n := Alike{
			Number: r.Nodes, Node: r.NodeID, Status: node.Status(r.Status), Schedulable: r.Schedulable, Held: r.Held,
			Tainted: r.Tainted, GPUs: r.GpusTotal,
			SKU: r.SkuID, RegionCode: r.RegionCode, Site: r.SiteID, Drift: agent.Drift(now),
			Agent: agent.State(node.Status(r.Status), now),
		}
		if n.Site.IsZero() {
			n.Site = r.ArrivingAt
		}
		out[i] = n
	}
	return out, nil
}

func (s *Service) findings(ctx context.Context, f Filter) ([]Finding, error) {
	rows, err := s.reads.Findings(ctx, fleetviewdb.FindingsParams{RegionCode: optional(f.RegionCode), SiteID: f.site()})
	if err != nil {
		return nil, fmt.Errorf("count findings: %w", err)
	}
	out := make([]Finding, len(rows))
	for i, r := range rows {
		out[i] = Finding{Node: r.NodeID, Severity: r.Severity, Number: r.Findings}
	}
	return out, nil
}

func (s *Service) jobs(ctx context.Context, f Filter) ([]Job, error) {
	nouns := make([]string, len(s.families))
	for i, of := range s.families {
		nouns[i] = string(of.Noun)
	}
	rows, err := s.reads.Jobs(ctx, fleetviewdb.JobsParams{
		Families: nouns,
		SkuID:    optional(f.SKU), RegionCode: optional(f.RegionCode), SiteID: f.site(),
		Search: optional(f.Search), Hardware: node.SoughtHardware(f.Search),
	})
	if err != nil {
		return nil, fmt.Errorf("read unfinished jobs: %w", err)
	}
	out := make([]Job, len(rows))
	for i, r := range rows {
		out[i] = Job{Kind: Kind(r.Kind), ID: r.JobID, Node: r.NodeID, Status: r.Status, Parked: r.Parked}
	}
	return out, nil
}

func (f Filter) site() *string {
	if f.Site.IsZero() {
		return nil
	}
	return optional(f.Site.String())
}

// optional returns nil for an empty value.
func optional(v string) *string {
	if v == "" {
		return nil
	}
	return &v
}
