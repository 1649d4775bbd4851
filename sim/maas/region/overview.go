package region

import "time"

// Brief is a machine in one line, for people and for code beside a region.
type Brief struct {
	SystemID     string        `json:"system_id"`
	Hostname     string        `json:"hostname"`
	Status       string        `json:"status"`
	Power        string        `json:"power"`
	Owner        string        `json:"owner,omitempty"`
	BMC          string        `json:"bmc_address,omitempty"`
	Addresses    []string      `json:"addresses"`
	LastSync     *time.Time    `json:"last_sync,omitempty"`
	SyncInterval time.Duration `json:"-"` // 0: hardware sync is off
}

func (m *Machine) brief() Brief {
	b := Brief{
		SystemID: m.SystemID, Hostname: m.Hostname, Status: m.Status.String(), Power: m.PowerState, Owner: m.Owner,
		BMC: m.powerAddress(), Addresses: m.addresses(),
	}
	if m.EnableHWSync {
		b.SyncInterval = time.Duration(m.SyncInterval) * time.Second
	}
	if !m.LastSync.IsZero() {
		at := m.LastSync
		b.LastSync = &at
	}
	return b
}

// Overview returns all machines in the order in which they were added.
func (r *Region) Overview() []Brief {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]Brief, 0, len(r.state.Machines))
	for _, m := range r.state.Machines {
		all = append(all, m.brief())
	}
	return all
}

// Brief returns one machine by its system id.
func (r *Region) Brief(systemID string) (Brief, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.bySystem[systemID]
	if m == nil {
		return Brief{}, false
	}
	return m.brief(), true
}

// Named returns one machine by its system id, host name, MAC or BMC address.
func (r *Region) Named(name string) (Brief, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.find(name)
	if m == nil {
		return Brief{}, false
	}
	return m.brief(), true
}

// Ref names the machine to code that decides its fate.
func (b Brief) Ref() Ref { return Ref{SystemID: b.SystemID, Hostname: b.Hostname, BMC: b.BMC} }

// AtAddress returns the machine that has an address now.
func (r *Region) AtAddress(ip string) (Brief, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if ip == "" || !r.usedIPs[ip] {
		return Brief{}, false
	}
	for _, m := range r.state.Machines {
		for _, i := range m.Interfaces {
			for _, l := range i.Links {
				if l.IP == ip {
					return m.brief(), true
				}
			}
		}
	}
	return Brief{}, false
}
