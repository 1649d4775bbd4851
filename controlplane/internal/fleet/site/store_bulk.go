package site

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// Policies are those of all profiles that a site ever had: nodes outlive the
// profile that they were onboarded by.
func (s *Service) Policies(ctx context.Context, site id.Site) (map[id.Profile]Policy, error) {
	rows, err := s.reads.ProfilesEver(ctx, site)
	if err != nil {
		return nil, fmt.Errorf("list profiles of site: %w", err)
	}
	out := make(map[id.Profile]Policy, len(rows))
	for _, r := range rows {
		out[r.ID] = profileFrom(r).Policy
	}
	return out, nil
}

// AssignmentsOf are the RoCE addresses of many nodes, by their host names.
func (s *Service) AssignmentsOf(ctx context.Context, site id.Site, hostnames []string) (map[string][]AssignmentRow,
	error,
) {
	rows, err := s.reads.AssignmentsOf(ctx, sitedb.AssignmentsOfParams{SiteID: site, Hostnames: hostnames})
	if err != nil {
		return nil, fmt.Errorf("list RoCE assignments of nodes: %w", err)
	}
	out := map[string][]AssignmentRow{}
	for _, r := range rows {
		out[r.Hostname] = append(out[r.Hostname], assignmentFrom(r).AssignmentRow)
	}
	return out, nil
}
