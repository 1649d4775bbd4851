package reconciliation

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
)

// What a server was found by.
const (
	byHostname = "hostname"
	byMAC      = "mac_address"
	byPower    = "power_address"
)

const (
	maxMACs = 32
	// maxCandidates limits how many machines are asked for the address of their
	// BMC.
	maxCandidates = 200
	// candidatesFreshFor is how long a listing may be used to choose
	// candidates.
	candidatesFreshFor = 10 * time.Minute
)

// candidates are the machines that may be a server which somebody entered in
// MAAS a second time: they are not deployed. MAAS lists the youngest last.
type candidates struct {
	ids []string
	at  time.Time
}

func (c *candidates) add(m maas.Machine) {
	c.ids = append(c.ids, m.SystemID)
	if len(c.ids) >= 2*maxCandidates {
		c.ids = append(c.ids[:0], c.ids[maxCandidates:]...)
	}
}

// Find looks for a server by its name, its interfaces and its BMC. A machine
// with the same name and other interfaces is another server.
func (r *region) Find(ctx context.Context, hostname string, macs []string, power string) (*Machine, string, error) {
	macs = validMACs(macs)
	named, err := r.named(ctx, hostname, macs)
	if err != nil {
		return nil, "", err
	}
	var wired []maas.Machine
	if len(macs) > 0 {
		if wired, err = r.Machines(ctx, maas.Filter{MACs: macs}); err != nil {
			return nil, "", err
		}
		wired = slices.DeleteFunc(wired, func(m maas.Machine) bool { return !overlaps(macsOf(m), macs) })
	}
	if m, by, err := agreed(hostname, evidence{wired, byMAC}, evidence{named, byHostname}); m != nil || err != nil {
		return m, by, err
	}
	reached, err := r.reached(ctx, canonical(power))
	if err != nil {
		return nil, "", err
	}
	return agreed(hostname, evidence{reached, byPower})
}

// evidence is a list of machines and what points at them.
type evidence struct {
	machines []maas.Machine
	by       string
}

// agreed returns the machine that all evidence agrees on, and the first
// evidence for it. Callers pass the strongest evidence first.
func agreed(hostname string, matches ...evidence) (*Machine, string, error) {
	var found *Machine
	by := ""
	for _, m := range matches {
		for _, candidate := range m.machines {
			switch {
			case found == nil:
				seen := machineOf(candidate)
				found, by = &seen, m.by
			case found.SystemID != candidate.SystemID:
				return nil, "", fault.New(fault.Conflict, "twin_ambiguous",
					"more than one machine of MAAS could be the server of %s: %s by its %s, and %s by its %s",
					hostname, found.SystemID, by, clean(candidate.SystemID), m.by).
					WithRemedy("remove or correct the wrong ones in MAAS")
			}
		}
	}
	return found, by, nil
}

// named finds machines by host name, without the domain: MAAS keeps it apart.
func (r *region) named(ctx context.Context, hostname string, macs []string) ([]maas.Machine, error) {
	if hostname == "" {
		return nil, nil
	}
	names := []string{hostname}
	if label, _, dotted := strings.Cut(hostname, "."); dotted {
		names = append(names, label)
	}
	found, err := r.Machines(ctx, maas.Filter{Hostnames: names})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(m maas.Machine) bool {
		called := strings.EqualFold(m.Hostname, hostname) || strings.EqualFold(m.FQDN, hostname)
		theirs := macsOf(m)
		return !called || len(macs) > 0 && len(theirs) > 0 && !overlaps(theirs, macs)
	}), nil
}

// reached finds machines by the address of their BMC. MAAS has no filter for
// it, so reached asks a limited number of machines one by one. MAAS sends BMC
// credentials with the address; reached drops them.
func (r *region) reached(ctx context.Context, power string) ([]maas.Machine, error) {
	if power == "" {
		return nil, nil
	}
	ids, err := r.candidates(ctx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	powers, err := r.PowerOf(ctx, ids...)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(systemID string) bool { return canonical(powers[systemID].Address) != power })
	if len(ids) == 0 {
		return nil, nil
	}
	return r.Machines(ctx, maas.Filter{IDs: ids})
}

func (r *region) candidates(ctx context.Context) ([]string, error) {
	r.opened.mu.Lock()
	known := r.opened.known
	r.opened.mu.Unlock()
	if time.Since(known.at) > candidatesFreshFor {
		known = candidates{at: time.Now()}
		err := r.EachMachine(ctx, maas.Filter{NotStatus: []maas.Status{maas.StatusDeployed}}, func(m maas.Machine) error {
			known.add(m)
			return nil
		})
		if err != nil {
			return nil, err
		}
		r.opened.mu.Lock()
		r.opened.known = known
		r.opened.mu.Unlock()
	}
	ids := known.ids[max(len(known.ids)-maxCandidates, 0):]
	return slices.Clone(ids), nil
}

// canonical returns the one spelling of an address.
func canonical(address string) string {
	if a, err := netip.ParseAddr(strings.TrimSpace(address)); err == nil {
		return a.Unmap().String()
	}
	return strings.ToLower(strings.TrimSpace(address))
}

// validMACs drops addresses for which MAAS would refuse the whole request.
func validMACs(macs []string) []string {
	var out []string
	for _, mac := range macs {
		if hw, err := net.ParseMAC(strings.TrimSpace(mac)); err == nil && len(hw) == 6 && len(out) < maxMACs {
			out = append(out, hw.String())
		}
	}
	return out
}

func overlaps(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
