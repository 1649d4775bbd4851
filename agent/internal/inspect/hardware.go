package inspect

import (
	"slices"

	"gpuaas/contract/agentwire"
)

// firmware is where the kernel shows what the firmware says of the machine. In
// a container, or on a board without SMBIOS, it is empty. Then files with the
// same names at standIn may say which machine it is. They are as good as any
// other claim of a machine, and are not read if the firmware says something.
const (
	firmware = "/sys/class/dmi/id/"
	standIn  = "/etc/gpuaas-firmware/"
)

// Hardware says which machine this is, as far as firmware and interfaces tell.
// It judges nothing: the control plane knows which values mean nothing.
func (m Machine) Hardware() agentwire.Hardware {
	var h agentwire.Hardware
	for _, dir := range []string{firmware, standIn} {
		h = agentwire.Hardware{
			UUID: m.line(dir + "product_uuid"), SystemSerial: m.line(dir + "product_serial"),
			BoardSerial: m.line(dir + "board_serial"), ChassisSerial: m.line(dir + "chassis_serial"),
		}
		if h.UUID != "" || h.SystemSerial != "" || h.BoardSerial != "" || h.ChassisSerial != "" {
			break
		}
	}
	h.MACs = m.macs()
	return h
}

// macs returns the addresses of the machine's interfaces. For a member of a
// bond it returns the permanent address. It skips USB interfaces, which may
// belong to anybody, and those of BMCs, which have the same address in all
// machines of a vendor.
func (m Machine) macs() []string {
	var out []string
	for _, nic := range m.nics() {
		dir := "/sys/class/net/" + nic.Name
		if m.target(dir+"/device/subsystem") == "usb" {
			continue
		}
		for _, mac := range []string{nic.MAC, m.line(dir + "/bonding_slave/perm_hwaddr")} {
			if mac != "" {
				out = append(out, mac)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
