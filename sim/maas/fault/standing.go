package fault

import (
	"cmp"
	"slices"

	"gpuaas/sim/maas/region"
)

// meets says whether a rule still strikes a machine.
func (r *Rule) meets(m region.Ref) bool {
	names := []string{m.SystemID, m.Hostname, m.BMC}
	spent := r.Count > 0 && r.Struck >= r.Count
	return !spent && fits(r.Machine, names...) &&
		!slices.ContainsFunc(names, func(n string) bool { return n != "" && slices.Contains(r.Except, n) })
}

// about says whether a rule is in force for a machine and not for a service
// that is asked about it.
func (r *Rule) about(m region.Ref) bool {
	return r.meets(m) && (r.Machine != "" || !slices.Contains(requestKinds, r.Fault))
}

// Standing returns the rules in force for a machine: those that name it, and
// those whose pattern matches it.
func (p *Plan) Standing(m region.Ref) []Rule {
	return slices.DeleteFunc(p.Rules(), func(r Rule) bool { return !r.about(m) })
}

// Spare ends the rules for a machine and returns how many there were. A rule
// whose pattern also matches others goes on for them.
func (p *Plan) Spare(m region.Ref) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	spared := 0
	p.rules = slices.DeleteFunc(p.rules, func(r *Rule) bool {
		if !r.about(m) {
			return false
		}
		spared++
		if r.Machine != "" && slices.Contains([]string{m.SystemID, m.Hostname, m.BMC}, r.Machine) {
			return true
		}
		r.Except = slices.Concat(r.Except, []string{cmp.Or(m.Hostname, m.SystemID)})
		return false
	})
	return spared
}
