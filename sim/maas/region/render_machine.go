package region

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"
)

func (r *Region) machineDoc(m *Machine) *MachineDoc {
	r.rendered.Add(1)
	d := &MachineDoc{
		TestsDoc: r.tests(m), SystemID: m.SystemID, Hostname: m.Hostname, FQDN: m.FQDN(), Description: m.Description,
		HardwareUUID: optional(m.HardwareUUID),
		Architecture: m.Architecture, MinHWEKernel: m.MinHWEKernel, HWEKernel: optional(m.HWEKernel),
		BootMethod: optional(m.BootMethod),
		CPUCount:   m.CPUCount, CPUSpeed: m.CPUSpeed, Memory: m.Memory, SwapSize: m.SwapSize, Status: m.Status,
		StatusName:       m.Status.String(),
		ErrorDescription: m.ErrorDescription, OSystem: m.OSystem, DistroSeries: m.DistroSeries, EphemeralDeploy: m.Ephemeral,
		Netboot: m.Netboot,
		Locked:  m.Locked, IsDPU: m.IsDPU, Owner: optional(m.Owner), PowerType: m.PowerType, PowerState: m.PowerState,
		NodeTypeName: "Machine",
		EnableHWSync: m.EnableHWSync, CrashDump: m.CrashDump, SyncInterval: optionalInt(m.SyncInterval),
		LastSync:    optionalTime(m.LastSync),
		ResourceURI: "/MAAS/api/2.0/machines/" + m.SystemID + "/", Domain: defaultDomain, Zone: r.zoneDoc(m.Zone),
		Pool:  r.poolDoc(m.Pool),
		RAIDs: []StubDoc{}, BCaches: []StubDoc{}, CacheSets: []StubDoc{}, VolumeGroups: []StubDoc{},
		Special:     []FilesystemDoc{},
		IPAddresses: m.addresses(), TagNames: listed(m.Tags), OwnerData: copied(m.Annotations),
		HardwareInfo: hardwareInfo(m.inspected()),
	}
	d.Annotations = d.OwnerData
	d.Domain.Name = m.Domain
	if m.Said != nil {
		d.StatusMessage, d.StatusAction = &m.Said.Text, &m.Said.Action
	}
	if m.SyncInterval > 0 && !m.LastSync.IsZero() {
		d.NextSync = optionalTime(m.LastSync.Add(time.Duration(m.SyncInterval) * time.Second))
	}
	r.addDevices(m, d)
	d.NUMANodes = numaNodes(m)
	return d
}

// laggingDoc shows the boot disk as under another status, as two answers of
// MAAS do.
func (r *Region) laggingDoc(m *Machine, was Status) *MachineDoc {
	doc := r.machineDoc(m)
	if boot := m.bootDisk(); boot != nil {
		m.shownAs = &was
		doc.BootDisk = r.blockDoc(m, boot)
		m.shownAs = nil
	}
	return doc
}

// inspected returns the hardware as far as commissioning has looked at it.
func (m *Machine) inspected() *Hardware {
	if m.HardwareUUID == "" {
		return nil
	}
	return m.Hardware
}

func copied(from map[string]string) map[string]string {
	to := make(map[string]string, len(from))
	for k, v := range from {
		to[k] = v
	}
	return to
}

func (r *Region) addDevices(m *Machine, d *MachineDoc) {
	d.Interfaces = make([]*InterfaceDoc, 0, len(m.Interfaces))
	for _, i := range m.Interfaces {
		d.Interfaces = append(d.Interfaces, r.interfaceDoc(m, i))
	}
	if len(d.Interfaces) > 0 {
		d.BootInterface = d.Interfaces[0]
	}
	d.BlockDevices = make([]*BlockDeviceDoc, 0, len(m.Disks))
	d.Physical, d.Virtual = make([]*BlockDeviceDoc, 0, len(m.Disks)), []*BlockDeviceDoc{}
	boot := m.bootDisk()
	for _, b := range m.Disks {
		doc := r.blockDoc(m, b)
		d.BlockDevices = append(d.BlockDevices, doc)
		if b.Virtual {
			d.Virtual = append(d.Virtual, doc)
			continue
		}
		d.Physical = append(d.Physical, doc)
		d.Storage += float(float64(b.Size) / 1e6)
		if b == boot {
			d.BootDisk = doc
		}
	}
	for _, id := range m.VolumeGroups {
		d.VolumeGroups = append(d.VolumeGroups, StubDoc{SystemID: m.SystemID, ID: id, Incomplete: true})
	}
	d.Gateways = r.gateways(m)
}

// gateways returns the default gateway of each family: the chosen one, or else
// that of the first linked subnet that has one. Only a choice names its link.
func (r *Region) gateways(m *Machine) map[string]GatewayDoc {
	all := map[string]GatewayDoc{"ipv4": {}, "ipv6": {}}
	for _, i := range m.Interfaces {
		for _, l := range i.Links {
			s := r.subnet(l.Subnet)
			if s == nil || s.Gateway == "" {
				continue
			}
			family := "ipv4"
			if strings.Contains(s.Gateway, ":") {
				family = "ipv6"
			}
			switch {
			case l.ID == m.GatewayLink:
				all[family] = GatewayDoc{IP: &s.Gateway, Link: &l.ID}
			case all[family].IP == nil:
				all[family] = GatewayDoc{IP: &s.Gateway}
			}
		}
	}
	return all
}

func numaNodes(m *Machine) []NUMADoc {
	h := m.inspected()
	if h == nil || h.NUMANodes == 0 {
		return []NUMADoc{{Cores: []int{}, HugePages: []int{}}}
	}
	list := make([]NUMADoc, h.NUMANodes)
	per := h.CPUCount / h.NUMANodes
	for n := range list {
		cores := make([]int, per)
		for c := range cores {
			cores[c] = n*per + c
		}
		list[n] = NUMADoc{Index: n, Memory: h.Memory / h.NUMANodes, Cores: cores, HugePages: []int{}}
	}
	return list
}

var rackServices = []string{
	"rackd", "temporal", "temporal-worker", "ntp_rack", "ntp_region", "reverse_proxy",
	"regiond", "syslog_rack", "syslog_region", "dhcpd", "dhcpd6", "proxy", "proxy_rack", "http", "tftp", "bind9", "agent",
}

// rackFilters are the constraints of a list of racks that a rack can meet; the
// others of a list of machines are accepted and meet none.
var rackFilters = map[string]func(*Rack) string{
	"id": func(k *Rack) string { return k.SystemID }, "hostname": func(k *Rack) string { return k.Hostname },
	"mac_address": func(k *Rack) string { return k.MAC }, "domain": func(*Rack) string { return "maas" },
	"zone": func(*Rack) string { return "default" }, "arch": func(*Rack) string { return "amd64/generic" },
}

// Racks lists the rack controllers by filters. A plain user sees none.
func (r *Region) Racks(c Caller, q url.Values) ([]RackDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := []RackDoc{}
	if err := r.checkFilters(q); err != nil {
		return nil, err
	}
	if c.User == nil || !c.User.Admin {
		return list, nil
	}
	for _, k := range r.state.Racks {
		if k.passes(q) {
			list = append(list, r.rackDoc(k))
		}
	}
	return list, nil
}

func (k *Rack) passes(q url.Values) bool {
	for name, values := range q {
		of, known := rackFilters[name]
		if name != "op" && (!known || !slices.Contains(values, of(k))) {
			return false
		}
	}
	return true
}

func (r *Region) rackDoc(k *Rack) RackDoc {
	version := Version
	d := RackDoc{
		TestsDoc: unknownTests, SystemID: k.SystemID, Hostname: k.Hostname, FQDN: k.Hostname + ".maas",
		Domain: defaultDomain, Architecture: "amd64/generic",
		CPUCount: 8, CPUSpeed: 3000, Memory: 32768, OSystem: "ubuntu", DistroSeries: "noble", PowerState: "unknown",
		IPAddresses: []string{k.IP}, Zone: r.zoneDoc("default"),
		NodeType: 4, NodeTypeName: "Region and rack controller", Version: &version, HardwareInfo: hardwareInfo(nil),
		TagNames:    []string{},
		ResourceURI: "/MAAS/api/2.0/rackcontrollers/" + k.SystemID + "/",
	}
	id := "ee46a3e2-e08e-11f1-9258-02fc00000001"
	d.HardwareUUID = &id
	i := &Interface{
		ID: k.Interface, Name: cmp.Or(k.Iface, "eno1"), MAC: k.MAC, Kind: "physical", VLAN: k.VLAN, Enabled: true,
		Links: []*Link{{ID: k.Link, Mode: "static", IP: k.IP, Subnet: k.Subnet}},
	}
	d.Interfaces = []InterfaceDoc{*r.interfaceDoc(&Machine{SystemID: k.SystemID}, i)}
	for _, name := range rackServices {
		status := "running"
		if name == "rackd" && !k.Healthy {
			status = "dead"
		}
		d.Services = append(d.Services, ServiceDoc{Name: name, Status: status})
	}
	return d
}

// SetRackInterface names the interface of the racks on the PXE network.
func (r *Region) SetRackInterface(name string) {
	r.change(func() {
		for _, k := range r.state.Racks {
			k.Iface = name
		}
	})
}

// SetRackHealth makes the racks of the region healthy or not.
func (r *Region) SetRackHealth(healthy bool) {
	r.change(func() {
		for _, k := range r.state.Racks {
			k.Healthy = healthy
		}
	})
}
