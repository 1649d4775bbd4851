package region

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Happenings are what can befall a machine past the API.
var Happenings = []string{"delete", "recreate", "release", "redeploy", "power_on", "power_off", "change_ip", "enlist", "twin", "disown", "break_disk", "remove_disk"}

// Happen lets something befall a machine that nobody asked MAAS for. The name
// is a system id, host name, MAC or BMC address; "enlist" takes the BMC address
// of a server that MAAS does not know.
func (r *Region) Happen(name, what string) error {
	if what == "enlist" {
		_, err := r.Enlist(name)
		return err
	}
	if !slices.Contains(Happenings, what) {
		return fmt.Errorf("%q cannot happen; one of %v can", what, Happenings)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.find(name)
	if m == nil {
		return fmt.Errorf("no machine is called %q", name)
	}
	r.changes++
	switch what {
	case "delete":
		r.forget(m)
	case "recreate":
		r.recreate(m)
	case "release":
		m.Boots++
		if r.startReleasing(m, Caller{}, "") {
			m.PowerState = "off"
			r.stopMetal(m.SystemID)
			r.finishRelease(m)
		}
	case "redeploy":
		r.redeploy(m)
	case "power_on", "power_off":
		r.flip(m, what == "power_on")
	case "change_ip":
		r.changeIP(m)
	case "disown":
		m.Owner = ""
	case "twin":
		r.twin(m)
	case "break_disk":
		m.ErrorDescription = "disk failed"
		r.say(m, Error, "Node Block Device hardware sync state change", "disk failed")
	case "remove_disk":
		r.removeDisk(m)
	}
	return nil
}

// recreate is somebody who deleted a machine and added it again: the same
// server under another system id.
func (r *Region) recreate(m *Machine) {
	h, name, kind, params := m.Hardware, m.Hostname, m.PowerType, m.PowerParameters
	if h == nil {
		h = r.plainHardware(m)
	}
	r.forget(m)
	n := r.newRecord(h, name)
	n.PowerType, n.PowerParameters, n.PowerState = kind, params, "off"
	r.say(n, Info, "New", "")
}

// redeploy is somebody who installed the default image over a machine.
func (r *Region) redeploy(m *Machine) {
	if image, err := r.resolveImage(""); err == nil {
		r.install(m, image)
	}
	m.Owner, m.UserData, m.HasUserData, m.EnableHWSync, m.HoldsDisks = "admin", "", false, false, true
	m.Boots++
	r.startDeploying(m)
	r.claimAuto(m)
	m.PowerState = "on"
	r.boot(m)
}

func (r *Region) flip(m *Machine, on bool) {
	m.PowerState = "off"
	m.Boots++
	if m.Hardware != nil {
		m.Hardware.Powered = on
	}
	if !on {
		r.stopMetal(m.SystemID)
		return
	}
	m.PowerState = "on"
	r.boot(m)
}

func (r *Region) changeIP(m *Machine) {
	for _, i := range m.Interfaces {
		for _, l := range i.Links {
			s := r.subnet(l.Subnet)
			if l.IP == "" || s == nil {
				continue
			}
			if ip, err := r.claim(s); err == nil {
				r.free(l.IP)
				l.IP = ip
			}
		}
	}
}

// twin adds a New machine that looks like another one: discovery finds two.
func (r *Region) twin(m *Machine) {
	h := &Hardware{Architecture: "amd64/generic", UUID: r.uuid(), BootMethod: "uefi", CPUCount: 32, Memory: 131072}
	if m.Hardware != nil {
		c := *m.Hardware
		h = &c
	}
	n := r.state.Counters["machine"] + 1
	h.PXEMAC = fmt.Sprintf("52:54:02:%02x:%02x:%02x", n>>16&0xff, n>>8&0xff, n&0xff)
	h.NICs = []NIC{{Name: "eno1", MAC: h.PXEMAC}}
	t := r.newRecord(h, "")
	t.PowerType, t.PowerParameters, t.PowerState = m.PowerType, m.PowerParameters, "on"
	r.say(t, Info, "New", "")
}

func (r *Region) removeDisk(m *Machine) {
	if m.Hardware != nil && len(m.Hardware.Disks) > 1 {
		m.Hardware.Disks = m.Hardware.Disks[:len(m.Hardware.Disks)-1]
		r.say(m, Info, "Node Block Device hardware sync state change", "disk "+strconv.Itoa(len(m.Hardware.Disks))+" removed")
	}
}

// HappenLater lets something befall a machine after a while.
func (r *Region) HappenLater(d time.Duration, name, what string) {
	r.clock.AfterFunc(d, func() {
		if err := r.Happen(name, what); err != nil {
			r.log.Error("happening", "machine", name, "what", what, "error", err)
		}
	})
}
