package region

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// filter is one constraint of a list. It checks its values once, and then
// machines.
type filter struct {
	check func(r *Region, values []string) error
	match func(r *Region, m *Machine, values []string) bool
}

func equals(get func(*Machine) string) func(*Region, *Machine, []string) bool {
	return func(_ *Region, m *Machine, values []string) bool { return slices.Contains(values, get(m)) }
}

func atLeast(get func(*Machine) int) func(*Region, *Machine, []string) bool {
	return func(_ *Region, m *Machine, values []string) bool {
		n, _ := strconv.ParseFloat(values[0], 64)
		return get(m) >= int(n)
	}
}

func isNumber(name string) func(*Region, []string) error {
	return func(_ *Region, values []string) error {
		if _, err := strconv.ParseFloat(values[0], 64); err != nil {
			return fieldError(name, "Invalid "+name+": number required.")
		}
		return nil
	}
}

func named(field, kind string, known func(*Region, string) bool) func(*Region, []string) error {
	return func(r *Region, values []string) error {
		var unknown []string
		for _, v := range values {
			if !known(r, v) {
				unknown = append(unknown, v)
			}
		}
		if len(unknown) == 0 {
			return nil
		}
		if kind == "tag" {
			return fieldError(field, "No such tag(s): '"+strings.Join(unknown, "', '")+"'.")
		}
		return fieldError(field, fmt.Sprintf("No such %s(s): %s.", kind, strings.Join(unknown, ", ")))
	}
}

func checkStatuses(field string) func(*Region, []string) error {
	return func(_ *Region, values []string) error {
		for _, v := range values {
			if _, ok := StatusOf(v); !ok {
				return choice(field, v)
			}
		}
		return nil
	}
}

func checkMACFilter(_ *Region, values []string) error {
	for _, v := range values {
		if _, ok := normaliseMAC(v); !ok {
			return fieldError("mac_address", fmt.Sprintf("'%s' is not a valid MAC address.", v))
		}
	}
	return nil
}

func hasMAC(_ *Region, m *Machine, values []string) bool {
	return slices.ContainsFunc(m.Interfaces, func(i *Interface) bool {
		return slices.ContainsFunc(values, func(v string) bool { mac, _ := normaliseMAC(v); return mac == i.MAC })
	})
}

func onSubnets(r *Region, m *Machine, values []string) bool {
	for _, v := range values {
		s := r.findSubnet(v)
		if s == nil || !slices.ContainsFunc(m.Interfaces, func(i *Interface) bool {
			return i.VLAN == s.VLAN && slices.ContainsFunc(i.Links, func(l *Link) bool { return l.Subnet == s.ID })
		}) {
			return false
		}
	}
	return true
}

func allTags(_ *Region, m *Machine, values []string) bool {
	for _, v := range values {
		if !slices.Contains(m.Tags, v) {
			return false
		}
	}
	return true
}

func archMatches(_ *Region, m *Machine, values []string) bool {
	return slices.ContainsFunc(values, func(v string) bool {
		return m.Architecture == v ||
			strings.HasPrefix(m.Architecture, v+"/")
	})
}

var positiveFilters = map[string]filter{
	"id":          {match: equals(func(m *Machine) string { return m.SystemID })},
	"system_id":   {match: equals(func(m *Machine) string { return m.SystemID })},
	"hostname":    {match: equals(func(m *Machine) string { return m.Hostname })},
	"domain":      {match: equals(func(m *Machine) string { return m.Domain })},
	"agent_name":  {match: equals(func(m *Machine) string { return m.AgentName })},
	"power_state": {match: equals(func(m *Machine) string { return m.PowerState })},
	"owner": {
		check: named("owner", "owner", func(r *Region, s string) bool { return r.user(s) != nil }),
		match: equals(func(m *Machine) string { return m.Owner }),
	},
	"zone": {
		check: named("zone", "zone", func(r *Region, s string) bool { return r.zoneDoc(s).Name != "" }),
		match: equals(func(m *Machine) string { return m.Zone }),
	},
	"pool": {
		check: named("pool", "pool", func(r *Region, s string) bool { return r.poolDoc(s).Name != "" }),
		match: equals(func(m *Machine) string { return m.Pool }),
	},
	"tags": {check: named("tags", "tag",
		func(r *Region, s string) bool { return slices.Contains(r.state.Tags, s) }), match: allTags},
	"status":      {check: checkStatuses("status"), match: equals(func(m *Machine) string { return m.Status.Ident() })},
	"mac_address": {check: checkMACFilter, match: hasMAC},
	"arch":        {match: archMatches},
	"cpu_count":   {check: isNumber("cpu_count"), match: atLeast(func(m *Machine) int { return m.CPUCount })},
	"mem":         {check: isNumber("mem"), match: atLeast(func(m *Machine) int { return m.Memory })},
	"cpu_speed":   {check: isNumber("cpu_speed"), match: atLeast(func(m *Machine) int { return m.CPUSpeed })},
	"subnets":     {match: onSubnets},
	"power_type":  {match: equals(func(m *Machine) string { return m.PowerType })},
	"osystem":     {match: equals(func(m *Machine) string { return m.OSystem })},
}

func (f filter) negated() filter {
	return filter{check: f.check, match: func(r *Region, m *Machine,
		values []string,
	) bool {
		return !f.match(r, m, values)
	}}
}

var filters = buildFilters()

func buildFilters() map[string]filter {
	all := map[string]filter{}
	for name, f := range positiveFilters {
		all[name] = f
		not := "not_" + name
		if name == "zone" || name == "pool" {
			not = "not_in_" + name
		}
		all[not] = f.negated()
	}
	all["not_status"] = filter{check: checkStatuses("not_status"), match: positiveFilters["status"].negated().match}
	return all
}

// List lists machines by filters. There is no paging.
func (r *Region) List(c Caller, q url.Values) ([]*MachineDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found, err := r.filtered(c, q)
	if err != nil {
		return nil, err
	}
	docs := make([]*MachineDoc, 0, len(found))
	for _, m := range found {
		docs = append(docs, r.machineDoc(m))
	}
	return docs, nil
}

func (r *Region) filtered(c Caller, q url.Values) ([]*Machine, error) {
	if err := r.checkFilters(q); err != nil {
		return nil, err
	}
	var found []*Machine
	for _, m := range r.candidates(q) {
		if visible(c, m) && r.passes(m, q) {
			found = append(found, m)
		}
	}
	return found, nil
}

// checkFilters refuses constraints that do not exist or have impossible values.
func (r *Region) checkFilters(q url.Values) error {
	errs := map[string][]string{}
	for name, values := range q {
		f, known := filters[name]
		switch {
		case name == "op":
		case !known:
			errs[name] = []string{"No such constraint."}
		case f.check != nil:
			if err := f.check(r, values); err != nil {
				return err
			}
		}
	}
	return fieldErrors(errs)
}

// candidates returns the machines named by id, or all if none are named.
func (r *Region) candidates(q url.Values) []*Machine {
	ids := q["id"]
	if len(ids) == 0 {
		return r.state.Machines
	}
	var list []*Machine
	for _, id := range ids {
		if m := r.bySystem[id]; m != nil && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b *Machine) int { return a.ID - b.ID })
	return list
}

func (r *Region) passes(m *Machine, q url.Values) bool {
	for name, values := range q {
		if f, known := filters[name]; known && !f.match(r, m, values) {
			return false
		}
	}
	return true
}

// Allocate gives a Ready machine that meets the constraints to the caller.
func (r *Region) Allocate(c Caller, f url.Values) (*MachineDoc, error) {
	dry, err := wordBool(f, "dry_run")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := url.Values{}
	for k, v := range f {
		switch k {
		case "agent_name", "comment", "dry_run", "verbose", "bridge_all", "bridge_type", "bridge_stp", "bridge_fd", "op",
			"name":
		default:
			q[k] = v
		}
	}
	found, err := r.filtered(c, q)
	if err != nil {
		return nil, err
	}
	var best *Machine
	for _, m := range found {
		named := f.Get("name") == "" || m.Hostname == f.Get("name") || m.FQDN() == f.Get("name")
		free := m.Status == Ready && !m.Locked && (m.Owner == "" || m.Owner == c.name())
		if named && free && (best == nil || m.CPUCount+m.Memory < best.CPUCount+best.Memory) {
			best = m
		}
	}
	if best == nil {
		return nil, noneAvailable(f)
	}
	if !dry {
		r.acquire(best, c, f)
	}
	doc := r.machineDoc(best)
	doc.Constraints = &struct{}{}
	return doc, nil
}

func noneAvailable(f url.Values) *RefusalError {
	if id := f.Get("system_id"); id != "" {
		return conflict("No machine with system ID %s available.", id)
	}
	var pairs, resolved []string
	for _, k := range slices.Sorted(maps.Keys(f)) {
		if k == "agent_name" || k == "comment" || k == "op" {
			continue
		}
		pairs = append(pairs, fmt.Sprintf("('%s', ['%s'])", k, strings.Join(f[k], "', '")))
		resolved = append(resolved, k+"="+strings.Join(f[k], ","))
	}
	if len(pairs) == 0 {
		return conflict("No machine available.")
	}
	return conflict("No available machine matches constraints: [%s] (resolved to \"%s\")", strings.Join(pairs, ", "),
		strings.Join(resolved, " "))
}

func (r *Region) acquire(m *Machine, c Caller, f url.Values) {
	m.Owner, m.AgentName, m.HoldsDisks = c.name(), f.Get("agent_name"), true
	r.sayRequest(m, c, "User acquiring node", f.Get("comment"))
	r.move(m, Allocated)
	r.changes++
}
