package site

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

// RequireBMC refuses the address of a BMC to which credentials of the site must not
// be sent: MAAS would log on there with the password that opens every BMC of the site.
func RequireBMC(s Site, address string) error {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return fault.New(fault.Invalid, "bmc_not_an_address", "%q is no address of a BMC", address)
	}
	addr = addr.Unmap()
	if addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsUnspecified() || addr.IsMulticast() {
		return fault.New(fault.Conflict, "bmc_outside_networks", "%s is no address of a BMC in a network", addr).
			WithRemedy("name the address that the BMC has in its network")
	}
	if len(s.Settings.BMCNetworks) == 0 {
		return nil
	}
	for _, text := range s.Settings.BMCNetworks {
		if network, err := netip.ParsePrefix(text); err == nil && network.Contains(addr) {
			return nil
		}
	}
	return fault.New(fault.Conflict, "bmc_outside_networks",
		"the BMC address %s is outside of the networks that the site %s has its BMCs in: %s", addr, s.Name,
		strings.Join(s.Settings.BMCNetworks, ", ")).
		WithRemedy("correct the address; or let an administrator list its network: gpuaas site update %s --bmc-network NETWORK",
			s.Name)
}

// networks brings a list of networks to its normal form. The field is named as in the
// body of a request.
func networks(p *problems, field string, texts []string) []string {
	out := slices.Clone(texts)
	for i, text := range out {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			p.add(fmt.Sprintf("body.%s[%d]", field, i), "must be a network such as 10.0.0.0/8")
			continue
		}
		out[i] = prefix.Masked().String()
	}
	return out
}
