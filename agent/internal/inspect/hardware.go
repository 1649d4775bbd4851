package inspect

import (
	"slices"

	"gpuaas/contract/agentwire"
)

// firmware is where the kernel shows what the firmware says of the machine. A
// container, or a board without SMBIOS, has nothing there: whoever made it may
// say which machine it is in files of the same names at standIn. It is as good as
// any claim of a machine, and where firmware speaks it is not asked.
const (
	firmware = "/sys/class/dmi/id/"
	standIn  = "/etc/gpuaas-firmware/"
)

// Hardware says which machine this is, as far as firmware and interfaces tell.
// Nothing is judged here: the control plane knows which values mean nothing.
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

// macs are the addresses of the interfaces of the machine. A member of a bond
// shows that of the bond, and its own one beside it. What hangs on USB may be
// anybody's, and that of a BMC has the same address in all machines of a vendor.
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
