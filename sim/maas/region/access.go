package region

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// visible says whether lists show a machine to a caller at all.
func visible(c Caller, m *Machine) bool {
	return c.User != nil && (c.User.Admin || m.Owner == "" || m.Owner == c.User.Name)
}

func (r *Region) forReading(c Caller, systemID string) (*Machine, error) {
	m := r.bySystem[systemID]
	switch {
	case m == nil:
		return nil, missing("Machine")
	case !visible(c, m):
		return nil, forbidden()
	}
	return m, nil
}

// forAdmin finds a machine for an operation of administrators.
func (r *Region) forAdmin(c Caller, systemID string) (*Machine, error) {
	m := r.bySystem[systemID]
	switch {
	case m == nil:
		return nil, missing("Machine")
	case c.User == nil || !c.User.Admin || m.Locked:
		return nil, forbidden()
	}
	return m, nil
}

// forEditing finds a machine for an operation of its owner or an administrator.
func (r *Region) forEditing(c Caller, systemID string) (*Machine, error) {
	m, err := r.forReading(c, systemID)
	if err == nil && m.Locked {
		return nil, forbidden()
	}
	return m, err
}

// Machine reads one machine.
func (r *Region) Machine(c Caller, systemID string) (*MachineDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, err := r.forReading(c, systemID)
	if err != nil {
		return nil, err
	}
	return r.machineDoc(m), nil
}

// Count returns the number of machines.
func (r *Region) Count() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.state.Machines)
}

// SystemIDs returns the machines in the order in which they were added.
func (r *Region) SystemIDs() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	ids := make([]string, 0, len(r.state.Machines))
	for _, m := range r.state.Machines {
		ids = append(ids, m.SystemID)
	}
	return ids
}

// Find returns the system id of a machine by its id, host name, MAC or BMC
// address.
func (r *Region) Find(name string) (string, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.find(name); m != nil {
		return m.SystemID, true
	}
	return "", false
}

func (r *Region) find(name string) *Machine {
	if m := r.bySystem[name]; m != nil {
		return m
	}
	if m := r.byMAC[strings.ToLower(name)]; m != nil {
		return m
	}
	for _, m := range r.state.Machines {
		if m.Hostname == name || m.FQDN() == name || m.powerAddress() == name && name != "" {
			return m
		}
	}
	return nil
}

// SetAnnotations merges the owner's notes on a machine. An empty value removes
// one.
func (r *Region) SetAnnotations(c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forEditing(c, systemID)
	switch {
	case err != nil:
		return nil, err
	case m.Owner == "":
		return nil, conflict("Cannot set workload annotation: it hasn't been acquired.")
	}
	notes := maps.Clone(m.Annotations)
	if notes == nil {
		notes = map[string]string{}
	}
	for k, v := range f {
		if k == "op" {
			continue
		}
		notes[k] = v[0]
		if v[0] == "" {
			delete(notes, k)
		}
	}
	m.Annotations = notes
	r.changes++
	return r.machineDoc(m), nil
}

// Lock and Unlock guard a deployed machine against changes.
func (r *Region) Lock(c Caller, systemID, comment string) (*MachineDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forReading(c, systemID)
	switch {
	case err != nil:
		return nil, err
	case m.Locked:
		return nil, conflict("Machine is already locked")
	case !m.Status.in(Deployed, Deploying):
		return nil, conflict("Can't lock, node is not deployed or deploying")
	}
	r.sayRequest(m, c, "User locking node", comment)
	m.Locked = true
	r.changes++
	return r.machineDoc(m), nil
}

// Unlock removes the guard.
func (r *Region) Unlock(c Caller, systemID, comment string) (*MachineDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forReading(c, systemID)
	switch {
	case err != nil:
		return nil, err
	case !m.Locked:
		return nil, conflict("Machine is not locked")
	}
	r.sayRequest(m, c, "User unlocking node", comment)
	m.Locked = false
	r.changes++
	return r.machineDoc(m), nil
}

// PowerParameters returns the BMC settings of a machine, including secrets.
func (r *Region) PowerParameters(c Caller, systemID string) (map[string]any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.bySystem[systemID]
	switch {
	case m == nil:
		return nil, missing("Machine")
	case c.User == nil || !c.User.Admin:
		return nil, forbidden()
	}
	return maps.Clone(m.PowerParameters), nil
}

// AllPowerParameters returns the BMC settings of the requested machines, or of
// all.
func (r *Region) AllPowerParameters(c Caller, ids []string) (any, error) {
	if c.User == nil || !c.User.Admin {
		return nil, adminOnly()
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]map[string]any{}
	for _, m := range r.state.Machines {
		if len(ids) == 0 || slices.Contains(ids, m.SystemID) {
			all[m.SystemID] = maps.Clone(m.PowerParameters)
		}
	}
	return all, nil
}

// MachineToken returns the API key with which a machine speaks to MAAS, once it
// has one.
func (r *Region) MachineToken(c Caller, systemID string) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.bySystem[systemID]
	switch {
	case m == nil:
		return nil, missing("Machine")
	case c.User == nil || !c.User.Admin:
		return nil, forbidden()
	case m.NodeToken == nil:
		return nil, nil //nolint:nilnil // MAAS answers null
	}
	return map[string]string{
		"token_key": m.NodeToken.Key, "token_secret": m.NodeToken.Secret,
		"consumer_key": m.NodeToken.Consumer,
	}, nil
}

func (r *Region) giveToken(m *Machine) {
	if m.NodeToken == nil {
		m.NodeToken = r.addToken("node", "", m.SystemID)
	}
}

func (r *Region) takeToken(m *Machine) {
	if m.NodeToken == nil {
		return
	}
	m.NodeToken = nil
	r.state.Tokens = slices.DeleteFunc(r.state.Tokens, func(t *Token) bool { return t.Machine == m.SystemID })
}

// Ref names a machine by its system id.
func (r *Region) Ref(systemID string) (Ref, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.bySystem[systemID]; m != nil {
		return m.ref(""), true
	}
	return Ref{}, false
}
