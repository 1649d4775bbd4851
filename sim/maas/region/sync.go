package region

import (
	"slices"
	"strings"
)

// Synced is what the scripts of a hardware sync found on a running machine.
type Synced struct {
	OSystem, Series string   // by which the running system calls itself
	Addresses       []string // on its interfaces
}

// Sync accepts what a deployed machine found out about itself. MAAS believes it:
// it renames the installed system, makes found addresses static, and drops the
// links whose address the machine did not name.
func (r *Region) Sync(systemID string, s Synced) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.bySystem[systemID]
	if m == nil {
		return missing("Machine")
	}
	if m.Status == Deployed && m.EnableHWSync {
		r.sync(m, s)
	}
	return nil
}

// ping notes that a machine was heard of.
func (r *Region) ping(m *Machine) {
	if !r.mischief.Phase(m.ref("sync"), PhaseSync).Fail {
		m.LastSync = r.clock.Now()
		r.changes++
	}
}

// report is a hardware sync of a machine on which nothing has changed since it
// was deployed: MAAS renames what it installed to what that calls itself. Links
// change only by Sync.
func (r *Region) report(m *Machine) {
	if r.mischief.Phase(m.ref("sync"), PhaseSync).Fail {
		return
	}
	m.LastSync = r.clock.Now()
	r.changes++
	for _, i := range r.state.Images {
		if os, series := i.system(); os == m.OSystem && series == m.DistroSeries && i.BaseImage != "" {
			m.OSystem, m.DistroSeries, _ = strings.Cut(i.BaseImage, "/")
			return
		}
	}
}

func (r *Region) sync(m *Machine, s Synced) {
	m.LastSync = r.clock.Now()
	r.changes++
	m.OSystem, m.DistroSeries = s.OSystem, s.Series
	for _, i := range m.Interfaces {
		r.syncLinks(m, i, s.Addresses)
		r.sayDuring(m, "updated", Info, "Node Interface hardware sync state change",
			"interface "+i.Name+" was updated on node "+m.SystemID)
	}
	for _, b := range m.Disks {
		if !b.Virtual {
			r.sayDuring(m, "updated", Info, "Node Block Device hardware sync state change",
				"block device "+b.Name+" was updated on node "+m.SystemID)
		}
	}
}

func (r *Region) syncLinks(m *Machine, i *Interface, found []string) {
	var kept []*Link
	for _, l := range i.Links {
		switch {
		case l.Mode == "dhcp":
		case slices.Contains(found, l.IP):
			l.Mode = "static"
		default:
			r.free(l.IP)
			if m.GatewayLink == l.ID {
				m.GatewayLink = 0
			}
			continue
		}
		kept = append(kept, l)
	}
	if len(kept) == 0 && i.Enabled && i.VLAN != 0 {
		kept = []*Link{{ID: r.id("link"), Mode: "link_up"}}
	}
	i.Links = kept
	if !slices.ContainsFunc(kept, func(l *Link) bool { return l.Mode == "dhcp" }) {
		i.Discovered = nil
	}
}

// Lease makes DHCP give an address to the boot interface of a machine, or ends
// its lease if there is none. An address has one holder.
func (r *Region) Lease(systemID, ip string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.bySystem[systemID]
	if m == nil || len(m.Interfaces) == 0 {
		return missing("Machine")
	}
	boot := m.Interfaces[0]
	for _, other := range r.state.Machines {
		for _, i := range other.Interfaces {
			if ip != "" && slices.ContainsFunc(i.Discovered, func(d Discovery) bool { return d.IP == ip }) {
				i.Discovered = nil
			}
		}
	}
	for _, s := range r.state.Subnets {
		if s.VLAN == boot.VLAN {
			boot.Discovered = []Discovery{{Subnet: s.ID, IP: ip}}
			break
		}
	}
	r.changes++
	return nil
}
