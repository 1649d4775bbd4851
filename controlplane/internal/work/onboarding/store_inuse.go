package onboarding

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

// InUse is a requested name or address that is taken.
type InUse struct {
	Index   int    // index of the machine in the request
	Field   string // hostname or ipmi_ip
	Value   string
	Message string // what has it
}

// InUse returns the machines that are already being onboarded or in the
// inventory, or that the request names twice.
func (s *Service) InUse(ctx context.Context, of id.Site, machines []Request) ([]InUse, error) {
	where, err := s.sites.Site(ctx, of)
	if err != nil {
		return nil, err
	}
	return inUse(ctx, s.reads, where, machines)
}

// holders maps a field and its value to what has it.
type holders map[[2]string]string

func inUse(ctx context.Context, q *onboardingdb.Queries, where site.Site, machines []Request) ([]InUse, error) {
	hostnames, addresses := make([]string, len(machines)), make([]string, len(machines))
	for i, m := range machines {
		hostnames[i], addresses[i] = m.Hostname, m.IPMIIP
	}
	held, err := heldBy(ctx, q, where, hostnames, addresses)
	if err != nil {
		return nil, err
	}
	var out []InUse
	for i, m := range machines {
		for _, f := range []struct{ field, value string }{{"hostname", m.Hostname}, {"ipmi_ip", m.IPMIIP}} {
			key := [2]string{f.field, f.value}
			if by, taken := held[key]; taken {
				out = append(out, InUse{Index: i, Field: f.field, Value: f.value, Message: by})
				continue
			}
			held[key] = fmt.Sprintf("%s is asked for more than once in this request", f.value)
		}
	}
	return out, nil
}

func heldBy(ctx context.Context, q *onboardingdb.Queries, where site.Site, hostnames, addresses []string) (holders,
	error,
) {
	held := holders{}
	nodes, err := q.NodesNamed(ctx, onboardingdb.NodesNamedParams{
		RegionCode: where.Settings.RegionCode,
		Hostnames:  hostnames,
	})
	if err != nil {
		return nil, fmt.Errorf("look for nodes of the same name: %w", err)
	}
	for _, n := range nodes {
		held[[2]string{"hostname", n.Hostname}] = fmt.Sprintf("%s is a node of the inventory already: %s", n.Hostname, n.ID)
	}
	bound, err := q.MachinesBound(ctx, onboardingdb.MachinesBoundParams{SiteID: where.ID, IpmiIps: addresses})
	if err != nil {
		return nil, fmt.Errorf("look for nodes with the same BMC: %w", err)
	}
	for _, b := range bound {
		held[[2]string{"ipmi_ip", b.IpmiIp}] = fmt.Sprintf("%s is the BMC of node %s already: %s", b.IpmiIp, b.Hostname,
			b.NodeID)
	}
	flying, err := q.InFlight(ctx, onboardingdb.InFlightParams{SiteID: where.ID, Hostnames: hostnames, IpmiIps: addresses})
	if err != nil {
		return nil, fmt.Errorf("look for onboardings of the same machine: %w", err)
	}
	for _, o := range flying {
		held[[2]string{"hostname", o.Hostname}] = fmt.Sprintf("%s is being onboarded already: %s is %s", o.Hostname, o.ID,
			o.Status)
		held[[2]string{"ipmi_ip", o.IpmiIp}] = fmt.Sprintf("%s is being onboarded already, as %s: %s is %s", o.IpmiIp,
			o.Hostname, o.ID, o.Status)
	}
	return held, nil
}
