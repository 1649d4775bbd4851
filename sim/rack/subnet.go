package rack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// freeSubnet finds a private network that no interface of this system is in.
// The search begins at a place of the rack's own, so that addresses stay the
// same and racks that are opened at the same time do not collide.
func freeSubnet(first byte, used []netip.Prefix) (netip.Prefix, error) {
	for n := range 256 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, first + byte(n), 0}), 24)
		free := true
		for _, u := range used {
			free = free && !u.Overlaps(p)
		}
		if free {
			return p, nil
		}
	}
	return netip.Prefix{}, errors.New("find a subnet for the rack: all of 10.213.0.0/16 is in use")
}

// subnetsInUse returns the networks of this system's interfaces.
func subnetsInUse() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses of this system: %w", err)
	}
	var used []netip.Prefix
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			used = append(used, p.Masked())
		}
	}
	return used, nil
}
