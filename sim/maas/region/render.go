package region

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Version is the MAAS version that is imitated.
const Version = "3.7.3"

// float keeps its decimal point for whole numbers, as Python prints it.
type float float64

// MarshalJSON writes 0.0, not 0.
func (f float) MarshalJSON() ([]byte, error) {
	if f == float(math.Trunc(float64(f))) {
		return strconv.AppendFloat(nil, float64(f), 'f', 1, 64), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'f', -1, 64), nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func optionalInt(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func listed(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

func (r *Region) vlanDoc(v *VLAN) *VLANDoc {
	name := ""
	if f := r.fabric(v.Fabric); f != nil {
		name = f.Name
	}
	return &VLANDoc{
		ID: v.ID, VID: v.VID, Name: v.Name, Fabric: name, FabricID: v.Fabric, MTU: v.MTU, DHCPOn: v.DHCP,
		PrimaryRack: optional(v.Rack), Space: v.Space, ResourceURI: fmt.Sprintf("/MAAS/api/2.0/vlans/%d/", v.ID),
	}
}

func (r *Region) fabricDoc(f *Fabric) FabricDoc {
	d := FabricDoc{ID: f.ID, Name: f.Name, VLANs: []VLANDoc{}, ResourceURI: fmt.Sprintf("/MAAS/api/2.0/fabrics/%d/", f.ID)}
	for _, v := range r.state.VLANs {
		if v.Fabric == f.ID {
			d.VLANs = append(d.VLANs, *r.vlanDoc(v))
		}
	}
	return d
}

func (r *Region) subnetDoc(s *Subnet) *SubnetDoc {
	d := &SubnetDoc{
		ID: s.ID, Name: s.Name, Description: s.Description, CIDR: s.CIDR, DNSServers: listed(s.DNS),
		RDNSMode: 2, AllowDNS: true, AllowProxy: true, Managed: s.Managed, DisabledBoot: []string{}, Space: "undefined",
		ResourceURI: fmt.Sprintf("/MAAS/api/2.0/subnets/%d/", s.ID),
	}
	if s.Gateway != "" || s.ViaAPI {
		d.GatewayIP = &s.Gateway
	}
	if v := r.vlan(s.VLAN); v != nil {
		d.VLAN, d.Space = r.vlanDoc(v), v.Space
	}
	return d
}

func (r *Region) interfaceDoc(m *Machine, i *Interface) *InterfaceDoc {
	d := &InterfaceDoc{
		ID: i.ID, SystemID: m.SystemID, Name: i.Name, Type: i.Kind, MAC: i.MAC, Parents: listed(i.Parents),
		Children: []string{}, Tags: listed(i.Tags),
		Enabled: i.Enabled, Links: make([]LinkDoc, 0, len(i.Links)), EffectiveMTU: 1500, Vendor: optional(i.Vendor),
		Product:  optional(i.Product),
		Firmware: optional(i.Firmware), LinkConnected: true, InterfaceSpeed: i.Speed, LinkSpeed: i.Speed, NUMANode: i.NUMA,
		SRIOV:       i.VFs,
		ResourceURI: "/MAAS/api/2.0/nodes/" + m.SystemID + "/interfaces/" + strconv.Itoa(i.ID) + "/",
	}
	if v := r.vlan(i.VLAN); v != nil {
		d.VLAN, d.EffectiveMTU = r.vlanDoc(v), v.MTU
	}
	if i.MTU > 0 {
		d.EffectiveMTU = i.MTU
	}
	for _, l := range i.Links {
		subnet, ip := i.reach(l)
		link := LinkDoc{ID: l.ID, Mode: l.Mode, IP: ip}
		if s := r.subnet(subnet); s != nil {
			link.Subnet = r.subnetDoc(s)
		}
		d.Links = append(d.Links, link)
	}
	if i.Discovered != nil {
		d.Discovered = []DiscoveryDoc{} // a lease that ended leaves an empty list
	}
	for _, seen := range i.Discovered {
		if s := r.subnet(seen.Subnet); s != nil && seen.IP != "" {
			d.Discovered = append(d.Discovered, DiscoveryDoc{Subnet: r.subnetDoc(s), IP: seen.IP})
		}
	}
	return d
}

// filesystemDoc hides filesystems of which a machine in an owned state has no
// copy.
func (m *Machine) filesystemDoc(f *Filesystem) (*FilesystemDoc, string) {
	status := m.Status
	if m.shownAs != nil {
		status = *m.shownAs
	}
	if f == nil || status.holdsDisks() && !m.HoldsDisks {
		return nil, "Unused"
	}
	return &FilesystemDoc{FSType: f.Type, Label: optional(f.Label), UUID: f.UUID, Mount: optional(f.Mount)}, f.usedFor()
}

func (r *Region) blockDoc(m *Machine, b *BlockDevice) *BlockDeviceDoc {
	uri := "/MAAS/api/2.0/nodes/" + m.SystemID + "/blockdevices/" + strconv.Itoa(b.ID) + "/"
	d := &BlockDeviceDoc{
		ID: b.ID, SystemID: m.SystemID, Name: b.Name, UUID: optional(b.UUID), Type: "physical", Path: "/dev/disk/by-dname/" +
			b.Name, Model: optional(b.Model),
		Serial: optional(b.Serial), IDPath: optional(b.IDPath), Size: b.Size,
		BlockSize: b.BlockSize,
		UsedFor:   b.usedFor(), Tags: listed(b.Tags), Table: optional(b.Table),
		Partitions: make([]PartitionDoc, 0, len(b.Partitions)), ResourceURI: uri,
	}
	d.Filesystem, _ = m.filesystemDoc(b.Filesystem)
	switch {
	case b.Virtual:
		d.Type, d.Used = "virtual", b.Size
	default:
		numa, firmware := b.NUMA, optional(b.Firmware)
		d.NUMANode, d.Available, d.Firmware = &numa, usable(b.Size), &firmware
	}
	for n, p := range b.Partitions {
		d.Used += p.Size
		d.Available -= p.Size
		path := b.Name + "-part" + strconv.Itoa(n+1)
		part := PartitionDoc{
			ID: p.ID, UUID: p.UUID, DeviceID: b.ID, SystemID: m.SystemID, Size: p.Size, Bootable: p.Bootable,
			Path: "/dev/disk/by-dname/" + path, Type: "partition", Tags: []string{}, ResourceURI: uri + "partition/" +
				strconv.Itoa(p.ID),
		}
		part.Filesystem, part.UsedFor = m.filesystemDoc(p.Filesystem)
		d.Partitions = append(d.Partitions, part)
	}
	if b.Table != "" {
		d.Used += tableOverhead
	}
	return d
}

var unknownTests = TestsDoc{
	-1, "Unknown", -1, "Unknown", -1, "Unknown", -1, "Unknown", -1, "Unknown", -1, "Unknown",
	-1, "Unknown", -1, "Unknown", nil, nil, nil,
}

var defaultDomain = DomainDoc{
	Name: "maas", Authoritative: true, IsDefault: true,
	ResourceURI: "/MAAS/api/2.0/domains/0/",
}

func (r *Region) tests(m *Machine) TestsDoc {
	t := unknownTests
	t.CommissioningSet, t.TestingSet, t.InstallationSet = optionalInt(m.CommissioningSet), optionalInt(m.TestingSet),
		optionalInt(m.InstallationSet)
	if s := r.summary(m.CommissioningSet); s >= ScriptPending {
		t.Commissioning, t.CommissioningName = int(s), scriptStatusNames[s]
	}
	if s := r.summary(m.TestingSet); s >= ScriptPending {
		t.Testing, t.TestingName = int(s), scriptStatusNames[s]
		t.Storage, t.StorageName = t.Testing, t.TestingName
	}
	return t
}

func hardwareInfo(h *Hardware) map[string]string {
	info := map[string]string{}
	for _, k := range []string{
		"system_vendor", "system_product", "system_family", "system_version", "system_sku",
		"system_serial", "cpu_model", "mainboard_vendor", "mainboard_product", "mainboard_serial", "mainboard_version",
		"mainboard_firmware_vendor", "mainboard_firmware_date", "mainboard_firmware_version", "chassis_vendor",
		"chassis_type", "chassis_serial", "chassis_version",
	} {
		info[k] = "Unknown"
	}
	if h == nil || h.System == nil {
		return info
	}
	s := h.System
	info["system_vendor"], info["system_product"], info["system_family"], info["system_sku"], info["cpu_model"] = s.Vendor,
		s.Product, s.Family, s.SKU, s.CPUModel
	info["mainboard_vendor"], info["mainboard_product"], info["mainboard_firmware_version"] = s.BoardVendor,
		s.BoardProduct, s.Firmware
	info["system_serial"], info["chassis_serial"], info["chassis_vendor"] = h.Serial, h.Serial, s.Vendor
	return info
}

func (r *Region) zoneDoc(name string) NamedDoc {
	for _, z := range r.state.Zones {
		if z.Name == name {
			return NamedDoc{ID: z.ID, Name: z.Name, Description: z.Description, ResourceURI: "/MAAS/api/2.0/zones/" + z.Name +
				"/"}
		}
	}
	return NamedDoc{}
}

func (r *Region) poolDoc(name string) NamedDoc {
	for _, p := range r.state.Pools {
		if p.Name == name {
			return NamedDoc{
				ID: p.ID, Name: p.Name, Description: p.Description,
				ResourceURI: fmt.Sprintf("/MAAS/api/2.0/resourcepool/%d/", p.ID),
			}
		}
	}
	return NamedDoc{}
}

// Zones lists the availability zones.
func (r *Region) Zones() []NamedDoc {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := []NamedDoc{}
	for _, z := range r.state.Zones {
		list = append(list, r.zoneDoc(z.Name))
	}
	return list
}

// Pools lists the resource pools.
func (r *Region) Pools() []NamedDoc {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := []NamedDoc{}
	for _, p := range r.state.Pools {
		list = append(list, r.poolDoc(p.Name))
	}
	return list
}
