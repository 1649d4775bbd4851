package inspect

import (
	"slices"
	"strconv"

	"gpuaas/contract/agentwire"
)

// nics lists interfaces with a device behind them. A container has none; there
// it lists the others, except bridges and tunnels.
func (m Machine) nics() []agentwire.NIC {
	rdma := m.rdmaInterfaces()
	names := m.list("/sys/class/net")
	physical := slices.DeleteFunc(slices.Clone(names),
		func(n string) bool { return !m.exists("/sys/class/net/" + n + "/device") })
	if len(physical) == 0 {
		physical = slices.DeleteFunc(names, func(n string) bool {
			return n == "lo" || m.exists("/sys/class/net/"+n+"/bridge") || m.exists("/sys/class/net/"+n+"/tun_flags")
		})
	}
	nics := []agentwire.NIC{}
	for _, name := range physical {
		dir := "/sys/class/net/" + name
		nic := agentwire.NIC{
			Name: name, MAC: m.line(dir + "/address"), Driver: m.target(dir + "/device/driver"),
			RDMA: slices.Contains(rdma, name),
		}
		if speed, err := strconv.ParseInt(m.line(dir+"/speed"), 10, 64); err == nil && speed > 0 {
			nic.SpeedMbps = speed
		}
		nics = append(nics, nic)
	}
	return nics
}

// rdmaInterfaces returns the network interfaces of RDMA devices.
func (m Machine) rdmaInterfaces() []string {
	var names []string
	for _, device := range m.list("/sys/class/infiniband") {
		names = append(names, m.list("/sys/class/infiniband/"+device+"/device/net")...)
	}
	return names
}

// fabric names the fastest way to other machines. A port of an RDMA device says
// whether it is InfiniBand or Ethernet, which then carries RoCE.
func (m Machine) fabric(nics []agentwire.NIC) string {
	best := none
	if len(nics) > 0 {
		best = "ethernet"
	}
	for _, device := range m.list("/sys/class/infiniband") {
		ports := "/sys/class/infiniband/" + device + "/ports"
		for _, port := range m.list(ports) {
			switch m.line(ports + "/" + port + "/link_layer") {
			case "InfiniBand":
				return "infiniband"
			case "Ethernet":
				best = "roce"
			}
		}
	}
	return best
}
