package region

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Happenings are what can happen to a machine past the API.
var Happenings = []string{
	"delete", "recreate", "release", "redeploy", "power_on", "power_off", "change_ip", "enlist",
	"twin", "disown", "break_disk", "remove_disk", "fail", "break", "heal",
	"netboot",
}

// Happen makes something happen to a machine that nobody asked MAAS for. The
// name is a system id, host name, MAC or BMC address; "enlist" takes the BMC
// address of a server that MAAS does not know.
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
		switch {
		case m.Status == DiskErasing: // MAAS does this itself when it believes that the erasing is done
			r.giveUp(m, Caller{})
		case m.Status.releasable():
			r.giveUp(m, somebody)
		case m.Status.in(Ready, Releasing): // MAAS says yes and does nothing
		default:
			return fmt.Errorf("machine %s is %s: nobody can release it", m.Hostname, m.Status)
		}
	case "fail":
		return r.failTests(m)
	case "break":
		return r.breakDown(m)
	case "heal":
		return r.heal(m)
	case "redeploy":
		r.redeploy(m)
	case "power_on", "power_off":
		r.flip(m, what == "power_on")
	case "change_ip":
		r.changeIP(m)
	case "netboot": // a rack answers with a boot configuration, and from then on the machine has an API key
		r.giveToken(m)
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

// recreate acts as somebody who deletes a machine and adds it again: the same
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

// somebody is another administrator of the region.
var somebody = Caller{User: &User{Name: "admin", Admin: true}}

// giveUp releases a machine at once.
func (r *Region) giveUp(m *Machine, c Caller) {
	m.Boots++
	if r.startReleasing(m, c, "") {
		r.switchOff(m)
		r.finishRelease(m)
	}
}

func (r *Region) switchOff(m *Machine) {
	m.PowerState = "off"
	if m.Hardware != nil {
		m.Hardware.Powered = false
	}
	r.stopMetal(m.SystemID)
	r.say(m, Debug, "Node powered off", "")
}

// stop acts as somebody who aborts what a machine is doing.
func (r *Region) stop(m *Machine) {
	a := abortions[m.Status]
	m.Boots++
	m.Ops++
	r.sayRequest(m, somebody, a.asked, "")
	r.say(m, Info, a.said, "")
	r.switchOff(m)
	r.move(m, a.to(m))
}

// redeploy acts as somebody who installs the default image over a machine. MAAS
// deploys only machines that are allocated and have nothing on them.
func (r *Region) redeploy(m *Machine) {
	switch {
	case m.Status == Deploying:
		r.stop(m)
	case m.Status.releasable() && m.Status != Allocated:
		r.giveUp(m, somebody)
	}
	if m.Status != Allocated {
		r.acquire(m, somebody, nil)
	}
	if image, err := r.resolveImage(""); err == nil {
		r.install(m, image)
	}
	m.UserData, m.HasUserData, m.EnableHWSync = "", false, false
	m.Boots++
	r.startDeploying(m)
	r.claimAuto(m)
	m.PowerState = "on"
	r.boot(m)
}

// failTests acts as somebody who tests a machine, and it fails. Its
// installation stays, and it runs again afterwards.
func (r *Region) failTests(m *Machine) error {
	if !Legal(m.Status, Testing) {
		return fmt.Errorf("machine %s is %s: it cannot be tested", m.Hostname, m.Status)
	}
	r.sayRequest(m, somebody, "User starting node testing", "")
	r.move(m, Testing)
	r.say(m, Info, "Testing", "")
	m.TestingSet = r.addSet(m, setTesting, []string{"smartctl-validate"}).ID
	r.markRun(m.TestingSet)
	r.say(m, Info, "Script", "smartctl-validate failed")
	r.signalTesting(m, "FAILED")
	return nil
}

// breakDown acts as somebody who marks a machine broken. MAAS releases it.
func (r *Region) breakDown(m *Machine) error {
	if m.Status == Broken || !m.Status.releasable() && !Legal(m.Status, Broken) {
		return fmt.Errorf("machine %s is %s: it cannot be marked broken", m.Hostname, m.Status)
	}
	m.Boots++
	if r.startBreaking(m, somebody, "hardware failed") {
		r.switchOff(m)
		r.freeAuto(m)
	}
	return nil
}

// heal acts as somebody who accepts a machine although its tests failed, or
// marks a broken one fixed. If it was deployed when it broke, nothing is on it
// then.
func (r *Region) heal(m *Machine) error {
	switch m.Status {
	case FailedTesting:
		r.override(m, somebody, "")
	case Broken:
		r.fix(m, somebody, "")
	default:
		return fmt.Errorf("machine %s is %s: there is nothing to heal", m.Hostname, m.Status)
	}
	return nil
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

// twin adds a New machine that looks like another one, so that discovery finds
// two.
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

// HappenLater makes something happen to a machine after a while.
func (r *Region) HappenLater(d time.Duration, name, what string) {
	r.clock.AfterFunc(d, func() {
		if err := r.Happen(name, what); err != nil {
			r.log.Error("happening", "machine", name, "what", what, "error", err)
		}
	})
}
