package onboarding

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

// partInMAAS is how many machines one request asks MAAS about: each takes up to
// a tenth of a second, and somebody waits for the answer.
const partInMAAS = 100

// inMAAS checks one part of the machines against MAAS. The onboarding adds a
// machine that MAAS does not know, which is right for a new server and wrong
// for a mistyped name.
func (p *preflight) inMAAS(ctx context.Context, from int) {
	const name = "machines_in_maas"
	if from == 0 && !p.wellSo("token_valid") {
		p.bad(name, "not_checked", "first correct: token_valid", "not looked at")
		return
	}
	total := len(p.asked.Machines)
	to := min(from+partInMAAS, total)
	names := make([]string, to-from)
	for i, m := range p.asked.Machines[from:to] {
		names[i] = m.Hostname
	}
	found, err := p.sites.MachinesNamed(ctx, p.asked.Site, names)
	var owners map[string]string
	if err == nil {
		owners, err = p.owners(ctx, found)
	}
	if err != nil {
		p.note(name, err, "")
		return
	}
	which := ""
	if total > partInMAAS {
		which = fmt.Sprintf("machines %d to %d of %d: ", from+1, to, total)
	}
	if p.found.LookedAt = to; to < total {
		p.found.Next = to
	}
	p.judge(name, which, names, found, owners)
}

func (p *preflight) judge(check, which string, names []string, found []site.RegionMachine, owners map[string]string) {
	var taken, nodes, strangers []string
	for _, m := range found {
		switch owner := owners[m.Hostname]; {
		case !m.Taken:
		case owner != "":
			taken = append(taken, fmt.Sprintf("%s is %s: it is the machine of %s", m.Hostname, m.Status, owner))
			nodes = append(nodes, m.Hostname)
		default:
			taken = append(taken, m.Hostname+" is "+m.Status)
			strangers = append(strangers, m.Hostname)
		}
	}
	unknown := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return slices.ContainsFunc(found, func(m site.RegionMachine) bool { return m.Hostname == n })
	})
	switch {
	case len(taken) > 0:
		p.bad(check, "machine_in_use", leave(nodes, strangers), "%sin MAAS, %s", which, some(taken))
	case len(unknown) > 0:
		p.well(check, "%sMAAS has %d of %d; NEW to it, and added when the work begins: %s", which, len(names)-len(unknown),
			len(names), some(unknown))
	default:
		p.well(check, "%sMAAS has all %d, and nothing is installed on them", which, len(names))
	}
}

// leave suggests what to do about machines that are taken. The machine of a
// node must never be released in MAAS: somebody may be working on it.
func leave(nodes, strangers []string) string {
	var out []string
	if len(nodes) > 0 {
		out = append(out, fmt.Sprintf("take %s out of the request: nodes are reinstalled with gpuaas node reimage",
			some(nodes)))
	}
	if len(strangers) > 0 {
		out = append(out, fmt.Sprintf("take %s out of the request, or release them in MAAS if nobody needs what is on them",
			some(strangers)))
	}
	return strings.Join(out, "; ")
}

// owners returns the nodes that the machines in MAAS belong to, by the host
// name in MAAS.
func (p *preflight) owners(ctx context.Context, found []site.RegionMachine) (map[string]string, error) {
	var hostnames, systemIDs []string
	for _, m := range found {
		hostnames, systemIDs = append(hostnames, m.Hostname), append(systemIDs, m.SystemID)
	}
	out := map[string]string{}
	named, err := p.reads.NodesNamed(ctx, onboardingdb.NodesNamedParams{
		RegionCode: p.site.Settings.RegionCode, Hostnames: hostnames,
	})
	if err != nil {
		return nil, fmt.Errorf("look for nodes of the same name: %w", err)
	}
	for _, n := range named {
		out[n.Hostname] = "node " + n.Hostname
	}
	bound, err := p.reads.NodesOfMachines(ctx, onboardingdb.NodesOfMachinesParams{SiteID: p.site.ID, SystemIds: systemIDs})
	if err != nil {
		return nil, fmt.Errorf("look for nodes of the same machines: %w", err)
	}
	for _, b := range bound {
		i := slices.IndexFunc(found, func(m site.RegionMachine) bool { return m.SystemID == b.MaasSystemID })
		out[found[i].Hostname] = fmt.Sprintf("node %s, which is %s", b.Hostname, b.Status)
	}
	return out, nil
}
