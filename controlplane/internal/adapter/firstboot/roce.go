package firstboot

import (
	_ "embed" // script and unit
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"gpuaas/controlplane/internal/base/redact"
)

var (
	//go:embed scripts/roce-routing.sh
	roceScript string
	//go:embed scripts/roce-routing.service
	roceUnit string

	interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
)

// Numbers of tables and rules that nobody else uses by default: systemd, MAAS
// and VPNs use lower ones, and the kernel's own tables are 253 to 255.
const (
	firstTable    = 1000
	firstPriority = 10000
	maxTable      = 1<<31 - 1
	maxRoCE       = 64
)

// RoCEAssignment is the address of one interface, which MAAS has configured.
type RoCEAssignment struct {
	Interface string
	CIDR      netip.Prefix // with the address of the interface itself
	Gateway   netip.Addr   // zero: the other end of a /31; a wider network then has no gateway
	MTU       int          // 0: keep the present one
	Table     int          // 0: choose one
}

// RoCERouting makes traffic of each RoCE interface leave by that interface, now
// and at every boot.
func RoCERouting(assignments []RoCEAssignment) (Layer, error) {
	if len(assignments) == 0 || len(assignments) > maxRoCE {
		return Layer{}, invalid(RoCERoutingLayer, "it has %d interfaces, not 1 to %d", len(assignments), maxRoCE)
	}
	interfaces, addresses, tables := map[string]bool{}, map[netip.Addr]bool{}, map[int]bool{}
	var text strings.Builder
	for i, a := range assignments {
		if a.Table == 0 {
			a.Table = firstTable + i
		}
		if err := a.check(); err != nil {
			return Layer{}, err
		}
		if interfaces[a.Interface] || addresses[a.CIDR.Addr()] || tables[a.Table] {
			return Layer{}, invalid(RoCERoutingLayer, "interface %s, address %s or table %d is there twice", a.Interface,
				a.CIDR.Addr(), a.Table)
		}
		interfaces[a.Interface], addresses[a.CIDR.Addr()], tables[a.Table] = true, true, true
		gateway, mtu := "-", "-"
		if g := a.gateway(); g.IsValid() {
			gateway = g.String()
		}
		if a.MTU != 0 {
			mtu = strconv.Itoa(a.MTU)
		}
		fmt.Fprintf(&text, "%s %s %s %s %s %d %d\n", a.Interface, a.CIDR.Addr(), a.CIDR.Masked(), gateway, mtu, a.Table,
			firstPriority+i)
	}
	const unit = "gpuaas-roce-routing.service"
	return checked(Layer{
		Name: RoCERoutingLayer, Version: roceRoutingVersion,
		Files: []File{
			{"/etc/gpuaas/roce-routing.conf", 0o644, redact.New(text.String())},
			{scripts + "/roce-routing.sh", 0o755, redact.New(roceScript)},
			{"/etc/systemd/system/" + unit, 0o644, redact.New(roceUnit)},
		},
		Commands: [][]string{{"systemctl", "daemon-reload"}, {"systemctl", "enable", unit}, {"systemctl", "restart", unit}},
	})
}

func (a RoCEAssignment) check() error {
	addr := a.CIDR.Addr()
	point := a.CIDR.Bits() >= 31
	switch {
	case !interfaceName.MatchString(a.Interface) || a.Interface == "lo":
		return invalid(RoCERoutingLayer, "%q is no interface", a.Interface)
	case !a.CIDR.IsValid() || !addr.Is4() || !addr.IsGlobalUnicast() || a.CIDR.Bits() < 8:
		return invalid(RoCERoutingLayer, "%s of %s is no IPv4 address with a prefix", a.CIDR, a.Interface)
	case !point && addr == a.CIDR.Masked().Addr():
		return invalid(RoCERoutingLayer, "%s of %s is a network, not an address in it", a.CIDR, a.Interface)
	case a.Gateway.IsValid() && (!a.CIDR.Contains(a.Gateway) || a.Gateway == addr):
		return invalid(RoCERoutingLayer, "gateway %s of %s is not in %s, or is the interface itself", a.Gateway, a.Interface,
			a.CIDR.Masked())
	case a.MTU != 0 && (a.MTU < 1280 || a.MTU > 9216):
		return invalid(RoCERoutingLayer, "MTU %d of %s is not between 1280 and 9216", a.MTU, a.Interface)
	case a.Table < 1 || a.Table > maxTable || a.Table >= 253 && a.Table <= 255:
		return invalid(RoCERoutingLayer, "table %d of %s is not free to use", a.Table, a.Interface)
	}
	return nil
}

func (a RoCEAssignment) gateway() netip.Addr {
	if a.Gateway.IsValid() || a.CIDR.Bits() != 31 {
		return a.Gateway
	}
	if first := a.CIDR.Masked().Addr(); a.CIDR.Addr() != first {
		return first
	}
	return a.CIDR.Addr().Next()
}
