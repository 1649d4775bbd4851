package reconciliation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// TypeIPChanged says: the machine no longer has the address by which the node
// is reached.
const TypeIPChanged Type = "ip_changed"

var ruleIPChanged = Rule{
	Type: TypeIPChanged, Severity: Info, Looks: 2, Action: UpdateHost, Adopt: true,
	Title: "Another address",
	Means: "The agent keeps working, since it calls out; people who use SSH do not reach the node until the inventory " +
		"has its new address.",
	When: whenIPChanged,
	Advice: []string{
		adviceShow, "gpuaas node update NODE --host ADDRESS: if gpuaas could not choose the address",
	},
	Holds: "The machine of a node that is active or offline is Deployed and has addresses, but not the one that the " +
		"node is reached by, or that one is for RoCE. RoCE addresses are never chosen. Among several others, gpuaas takes " +
		"the one on the login interface, or else the one in the previous network. If that does not leave exactly one, " +
		"nothing is done.",
}

func whenIPChanged(s Subject) (Verdict, bool) {
	host, err := netip.ParseAddr(s.Host)
	if err != nil || !s.InService() || !s.shows(Installed) {
		return Verdict{}, false
	}
	host = host.Unmap()
	has := parsed(s.Machine.IPs)
	apart := slices.Contains(s.roceAddresses(), host)
	if len(has) == 0 || slices.Contains(has, host) && !apart {
		return Verdict{}, false
	}
	message := fmt.Sprintf("the machine of %s does not have the address %s any more, but %s", s.Hostname, s.Host,
		strings.Join(written(has), ", "))
	if apart {
		message = fmt.Sprintf("the address %s of %s is a RoCE address, at which people cannot reach it", s.Host, s.Hostname)
	}
	v := Verdict{
		Expected: s.Host, Observed: strings.Join(written(has), ", "), Message: message,
		Details: s.with(map[string]any{"host": s.Host, "observed_ips": written(has)}),
	}
	next, certain := s.nextHost(host, has)
	if certain {
		v.Host = next.String()
	}
	switch {
	case !certain:
		v.Withheld = "it has several addresses, and it is not clear which one people should use"
	case s.reinstalled():
		v.Withheld = "the machine was reinstalled by somebody else: settle that first"
	}
	return v, true
}

// nextHost chooses the address by which the node is reached from now on. A
// preference counts only if it leaves exactly one address; nextHost never
// guesses.
func (s Subject) nextHost(host netip.Addr, has []netip.Addr) (netip.Addr, bool) {
	apart := s.roceAddresses()
	candidates := slices.DeleteFunc(slices.Clone(has), func(a netip.Addr) bool {
		return slices.Contains(apart, a) || !a.IsGlobalUnicast()
	})
	if same := only(candidates, func(a netip.Addr) bool { return a.Is4() == host.Is4() }); len(same) > 0 {
		candidates = same
	}
	if len(candidates) == 1 {
		return candidates[0], true
	}
	login := s.Machine.addressesOf(s.Site.Settings.DeploySSHIface)
	for _, preferred := range []func(netip.Addr) bool{
		func(a netip.Addr) bool { return slices.Contains(login, a) },
		func(a netip.Addr) bool { return neighbours(a, host) },
	} {
		if left := only(candidates, preferred); len(left) == 1 {
			return left[0], true
		}
	}
	return netip.Addr{}, false
}

// roceAddresses lists the addresses by which nobody reaches the node: those that
// the site assigns for RoCE, and whatever else these interfaces have.
func (s Subject) roceAddresses() []netip.Addr {
	var out []netip.Addr
	for _, row := range s.RoCE {
		if row.Interface != s.Site.Settings.DeploySSHIface {
			out = append(out, s.Machine.addressesOf(row.Interface)...)
		}
		if p, err := netip.ParsePrefix(row.IPv4CIDR); err == nil {
			out = append(out, p.Addr())
		}
	}
	return out
}

// neighbours says whether two addresses lie in one network, by the usual prefix
// lengths.
func neighbours(a, b netip.Addr) bool {
	bits := 64
	if a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	return err == nil && p.Contains(b)
}

// parsed returns the addresses among texts, each once and sorted: MAAS returns
// them in no fixed order.
func parsed(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil && !slices.Contains(out, a.Unmap()) {
			out = append(out, a.Unmap())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

func only(addresses []netip.Addr, which func(netip.Addr) bool) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return !which(a) })
}
