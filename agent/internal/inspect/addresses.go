package inspect

import (
	"encoding/hex"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Addresses returns the addresses by which others reach the machine, sorted. It
// returns none unless the machine is the one that the agent runs on.
func (m Machine) Addresses() []string {
	if !m.Host.Real() {
		return nil
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	passing := m.temporary()
	var found []netip.Addr
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || !m.outward(i.Name) {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue // it went away meanwhile
		}
		for _, a := range addresses {
			prefix, err := netip.ParsePrefix(a.String())
			if at := prefix.Addr().Unmap(); err == nil && at.IsGlobalUnicast() && !passing[at] {
				found = append(found, at)
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	var texts []string
	for _, a := range slices.Compact(found) {
		texts = append(texts, a.String())
	}
	return texts
}

// outward reports whether an interface leads out of the machine. Tunnels do
// not, and neither do bridges that have only containers behind them: they come
// and go with what runs.
func (m Machine) outward(name string) bool {
	dir := "/sys/class/net/" + name
	switch {
	case m.exists(dir + "/tun_flags"):
		return false
	case !m.exists(dir + "/bridge"):
		return true
	}
	return slices.ContainsFunc(m.list(dir+"/brif"), func(port string) bool {
		below := m.list("/sys/class/net/" + port)
		return slices.Contains(below, "device") ||
			slices.ContainsFunc(below, func(f string) bool { return strings.HasPrefix(f, "lower_") })
	})
}

// temporary returns the IPv6 privacy addresses, which the machine changes.
func (m Machine) temporary() map[netip.Addr]bool {
	const flag = 0x01
	out := map[netip.Addr]bool{}
	for line := range strings.Lines(m.text("/proc/net/if_inet6")) {
		fields := strings.Fields(line) // address, index, prefix length, scope, flags, name
		if len(fields) != 6 {
			continue
		}
		raw, err := hex.DecodeString(fields[0])
		at, isAddress := netip.AddrFromSlice(raw)
		flags, badFlags := hex.DecodeString(fields[4])
		if err == nil && badFlags == nil && isAddress && len(flags) == 1 && flags[0]&flag != 0 {
			out[at] = true
		}
	}
	return out
}
