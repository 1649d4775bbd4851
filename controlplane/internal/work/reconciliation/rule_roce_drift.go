package reconciliation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// TypeRoCEDrift says: a RoCE interface lacks its address.
const TypeRoCEDrift Type = "roce_drift"

var ruleRoCEDrift = Rule{
	Type: TypeRoCEDrift, Severity: Warning, Looks: 2, Action: None,
	Title: "RoCE interface without its address",
	Means: "Multi-node work cannot use the interface, or reaches the wrong peer.",
	When:  whenRoCEDrift,
	Advice: []string{
		adviceShow, "gpuaas site roce list SITE: the addresses that are assigned",
		"gpuaas site roce import SITE FILE: if the assignment is what is wrong, such as the name of an interface",
		adviceReimage,
	},
	Holds: "The machine of a node that is active, offline or quarantined is Deployed, `enable_phase2_roce` is set in " +
		"the profile, and MAAS does not show the address that the site assigns to an interface, or does not have that interface.",
	Runbook: "machine-settings-drifted",
}

func whenRoCEDrift(s Subject) (Verdict, bool) {
	if !s.judgedByMachine() || !s.shows(Installed) || !s.Policy.EnablePhase2RoCE {
		return Verdict{}, false
	}
	var wrong []map[string]any
	var names []string
	for _, row := range s.RoCE {
		prefix, err := netip.ParsePrefix(row.IPv4CIDR)
		if err != nil {
			continue // an assignment without an address demands nothing
		}
		has := s.Machine.addressesOf(row.Interface)
		if slices.Contains(has, prefix.Addr()) {
			continue
		}
		found := map[string]any{"interface": row.Interface, "expected": prefix.Addr().String(), "observed": written(has)}
		wrong, names = append(wrong, found), append(names, row.Interface)
	}
	if len(wrong) == 0 {
		return Verdict{}, false
	}
	slices.Sort(names)
	return Verdict{
		Expected: fmt.Sprintf("%d addresses", len(s.RoCE)), Observed: fmt.Sprintf("%d without", len(wrong)),
		Message: fmt.Sprintf("interfaces of %s lack the address that is assigned to them: %s", s.Hostname,
			strings.Join(names, ", ")),
		Details: s.with(map[string]any{"interfaces": wrong}),
	}, true
}

// addressesOf lists the addresses that MAAS has configured on an interface. An
// interface that does not exist has none.
func (m Machine) addressesOf(name string) []netip.Addr {
	var out []netip.Addr
	for _, l := range m.Links {
		if l.Interface != name {
			continue
		}
		if a, err := netip.ParseAddr(l.Address); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}

// written formats addresses for people.
func written(addresses []netip.Addr) []string {
	out := make([]string, len(addresses))
	for i, a := range addresses {
		out[i] = a.String()
	}
	return out
}
