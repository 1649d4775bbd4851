package region

import (
	"fmt"
	"maps"
	"slices"
)

// Stage is the state in which a machine is added to the record.
type Stage struct {
	Hostname     string
	Status       Status
	PowerType    string
	User, Pass   string
	Owner        string
	Image        string // of a deployed machine: os/series
	EnableHWSync bool
}

// AddHardware puts a server into the rack. MAAS does not know of it yet.
func (r *Region) AddHardware(h *Hardware) {
	r.change(func() {
		r.state.Hardware = append(r.state.Hardware, h)
		r.indexHardware(h)
	})
}

// AddMachine puts a server into the rack and into the record, as if it had come
// to the stage in the usual way.
func (r *Region) AddMachine(h *Hardware, s Stage) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	r.state.Hardware = append(r.state.Hardware, h)
	r.indexHardware(h)
	m := r.newRecord(h, s.Hostname)
	m.PowerType, m.Status = s.PowerType, s.Status
	if s.PowerType == "ipmi" || s.PowerType == "redfish" {
		m.PowerParameters = maps.Clone(ipmiDefaults)
		m.PowerParameters["power_address"], m.PowerParameters["power_user"], m.PowerParameters["power_pass"] = h.BMCAddress,
			s.User, s.Pass
	}
	m.PowerState = "off"
	if s.Status != New {
		r.inspect(m)
	}
	if s.Status == Deployed {
		r.stageDeployed(m, s)
	}
	r.say(m, Info, s.Status.String(), "")
	return m.SystemID
}

func (r *Region) stageDeployed(m *Machine, s Stage) {
	m.Owner, m.HoldsDisks, m.Netboot, m.PowerState = s.Owner, true, false, "on"
	m.Hardware.Powered = true
	if image, err := r.resolveImage(s.Image); err == nil {
		r.install(m, image)
	}
	m.InstallationSet = r.addSet(m, setInstallation, nil).ID
	r.finishSet(m.InstallationSet, ScriptPassed)
	r.claimAuto(m)
	r.giveToken(m)
	if s.EnableHWSync {
		d, _ := parseInterval(r.text("hardware_sync_interval"))
		m.EnableHWSync, m.SyncInterval, m.LastSync = true, int(d.Seconds()), r.clock.Now()
		r.scheduleSync(m)
	}
}

func (r *Region) newRecord(h *Hardware, hostname string) *Machine {
	m := &Machine{
		ID: r.id("machine"), SystemID: r.systemID(), Hostname: hostname, Domain: "maas", Zone: "default",
		Pool: "default", PowerState: "unknown", Netboot: true, Architecture: h.Architecture, Hardware: h,
		PowerParameters: map[string]any{},
	}
	if m.Hostname == "" {
		m.Hostname = r.petName()
	}
	m.Interfaces = []*Interface{{ID: r.id("interface"), Name: "eth0", MAC: h.PXEMAC, Kind: "physical", Enabled: true}}
	r.state.Machines = append(r.state.Machines, m)
	r.indexMachine(m)
	return m
}

// Enlist boots a server that nobody announced from the network: it appears as
// New. A server that MAAS knows simply boots.
func (r *Region) Enlist(bmc string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.byBMC[bmc]
	if h == nil {
		return "", fmt.Errorf("no server has the BMC address %q", bmc)
	}
	for _, m := range r.state.Machines {
		if m.Hardware == h || m.powerAddress() == bmc {
			m.PowerState = "on"
			r.boot(m)
			return m.SystemID, nil
		}
	}
	m := r.newRecord(h, "")
	m.PowerState, m.Enlisting, m.Status = "on", true, New
	h.Powered = true
	r.say(m, Debug, "PXE Request", "enlist")
	r.inspect(m)
	r.takeBMC(m)
	r.say(m, Info, "New", "")
	r.changes++
	return m.SystemID, nil
}

// inspect records what commissioning finds out about a server.
func (r *Region) inspect(m *Machine) {
	if m.Hardware == nil {
		r.adopt(m)
	}
	if m.Hardware == nil {
		m.Hardware = r.plainHardware(m)
		r.state.Hardware = append(r.state.Hardware, m.Hardware)
		r.indexHardware(m.Hardware)
	}
	h := m.Hardware
	m.HardwareUUID, m.BootMethod = h.UUID, h.BootMethod
	if m.Architecture == "" {
		m.Architecture = h.Architecture
	}
	m.CPUCount, m.CPUSpeed, m.Memory = h.CPUCount, h.CPUSpeed, h.Memory
	for _, t := range h.Tags {
		if !slices.Contains(m.Tags, t) {
			m.Tags = append(m.Tags, t)
		}
		if !slices.Contains(r.state.Tags, t) {
			r.state.Tags = append(r.state.Tags, t)
		}
	}
	r.inspectDisks(m)
	r.inspectNICs(m)
	if !m.SkipStorage && !m.Enlisting && m.Status != New {
		r.applyLayout(m, r.text("default_storage_layout"), nil)
	}
	if !m.SkipNetworking && !m.Enlisting && m.Status != New {
		r.configureNetwork(m)
	}
}

// takeBMC makes MAAS's own account on the BMC, as commissioning does unless it
// is told not to. It overwrites the credentials that were given before.
func (r *Region) takeBMC(m *Machine) {
	if m.SkipBMCConfig || m.PowerType != "ipmi" && m.PowerType != "" || m.Hardware == nil || m.Hardware.BMCAddress == "" {
		return
	}
	params := maps.Clone(ipmiDefaults)
	maps.Copy(params, m.PowerParameters)
	params["power_address"], params["power_user"], params["power_pass"] = m.Hardware.BMCAddress,
		r.text("maas_auto_ipmi_user"), r.randomKey(14)
	m.PowerType, m.PowerParameters = "ipmi", params
}

// inspectDisks keeps the ids of disks that are still there and drops the
// others.
func (r *Region) inspectDisks(m *Machine) {
	var disks []*BlockDevice
	for _, d := range m.Hardware.Disks {
		at := slices.IndexFunc(m.Disks, func(b *BlockDevice) bool { return b.Serial == d.Serial && b.Model == d.Model })
		var b *BlockDevice
		if at >= 0 {
			b = m.Disks[at]
		} else {
			b = &BlockDevice{ID: r.id("blockdevice")}
		}
		b.Name, b.Model, b.Serial, b.IDPath, b.Firmware, b.Size, b.BlockSize, b.NUMA, b.Tags = d.Name, d.Model, d.Serial,
			d.IDPath, d.Firmware, d.Size, d.BlockSize, d.NUMA, d.Tags
		disks = append(disks, b)
	}
	for _, b := range m.Disks {
		if b.Virtual && m.SkipStorage {
			disks = append(disks, b)
		}
	}
	m.Disks = disks
	if m.disk(m.BootDisk) == nil {
		m.BootDisk = 0
	}
}

func (r *Region) inspectNICs(m *Machine) {
	for _, n := range m.Hardware.NICs {
		at := slices.IndexFunc(m.Interfaces, func(i *Interface) bool { return i.MAC == n.MAC })
		var i *Interface
		if at >= 0 {
			i = m.Interfaces[at]
		} else {
			i = &Interface{ID: r.id("interface"), MAC: n.MAC, Kind: "physical", Enabled: true}
			m.Interfaces = append(m.Interfaces, i)
			r.byMAC[n.MAC] = m
		}
		if !m.SkipNetworking {
			i.Name = n.Name
		}
		i.Vendor, i.Product, i.Firmware, i.Speed, i.NUMA, i.VFs = n.Vendor, n.Product, n.Firmware, n.Speed, n.NUMA, n.VFs
	}
	slices.SortStableFunc(m.Interfaces, func(a, b *Interface) int {
		switch m.Hardware.PXEMAC {
		case a.MAC:
			return -1
		case b.MAC:
			return 1
		}
		return 0
	})
}

// configureNetwork links the boot interface to its subnet and leaves the rest up.
func (r *Region) configureNetwork(m *Machine) {
	v := r.defaultVLAN()
	for n, i := range m.Interfaces {
		r.dropLinks(m, i)
		i.Links = []*Link{{ID: r.id("link"), Mode: "link_up"}}
		if n > 0 || v == nil {
			continue
		}
		i.VLAN = v.ID
		for _, s := range r.state.Subnets {
			if s.VLAN == v.ID {
				i.Links[0].Mode, i.Links[0].Subnet = "auto", s.ID
				i.Discovered = []Discovery{{Subnet: s.ID}}
				break
			}
		}
	}
}

// plainHardware stands for a server about which nothing was said beforehand.
func (r *Region) plainHardware(m *Machine) *Hardware {
	h := &Hardware{
		BMCAddress: m.powerAddress(), UUID: r.uuid(), Architecture: "amd64/generic", BootMethod: "uefi",
		CPUCount: 32, CPUSpeed: 2400, Memory: 131072, NUMANodes: 1, Serial: fmt.Sprintf("SIM%06d", m.ID),
		System: &System{
			Vendor: "Simulated", Product: "Plain Server", Family: "Unknown", SKU: "Unknown", CPUModel: "Unknown",
			BoardVendor: "Simulated", BoardProduct: "Board", Firmware: "1.0",
		},
	}
	if m.Architecture != "" {
		h.Architecture = m.Architecture
	}
	for n, i := range m.Interfaces {
		h.NICs = append(h.NICs, NIC{
			Name: fmt.Sprintf("eno%d", n+1), MAC: i.MAC, Vendor: "Simulated", Product: "NIC",
			Speed: 10000,
		})
	}
	if len(h.NICs) == 0 {
		h.NICs = []NIC{{
			Name: "eno1", MAC: fmt.Sprintf("52:54:01:%02x:%02x:%02x", m.ID>>16&0xff, m.ID>>8&0xff, m.ID&0xff),
			Vendor: "Simulated", Product: "NIC", Speed: 10000,
		}}
	}
	h.PXEMAC = h.NICs[0].MAC
	h.Disks = []Disk{
		{
			Name: "sda", Model: "Plain SSD", Serial: fmt.Sprintf("SSD%06d", m.ID), Size: 480_000_000_000, BlockSize: 512,
			Firmware: "1", Tags: []string{"ssd"},
		},
		{
			Name: "nvme0n1", Model: "Plain NVMe", Serial: fmt.Sprintf("NVM%06d", m.ID), Size: 3_840_000_000_000, BlockSize: 512,
			Firmware: "1", Tags: []string{"ssd"},
		},
	}
	return h
}

// Inspect accepts what the commissioning scripts of a node found, as MAAS does
// when the node uploads their output.
func (r *Region) Inspect(systemID string, h *Hardware) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.bySystem[systemID]
	if m == nil {
		return missing("Machine")
	}
	m.Hardware = h
	r.inspect(m)
	r.changes++
	return nil
}
