package region

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Fabric is a set of VLANs that can reach each other.
type Fabric struct {
	ID   int
	Name string
}

// VLAN is one layer-2 network.
type VLAN struct {
	ID, VID, Fabric, MTU int
	Name                 string
	DHCP                 bool
	Rack                 string
	Space                string
}

// Subnet is one range of addresses on a VLAN.
type Subnet struct {
	ID          int
	Name        string
	CIDR        string
	VLAN        int
	Gateway     string
	ViaAPI      bool // made by the API: MAAS then shows an empty gateway, not null
	Description string
	DNS         []string
	Managed     bool
}

// Rack is a rack controller.
type Rack struct {
	SystemID, Hostname, MAC, IP   string
	Iface                         string // name of the interface; empty: eno1
	Healthy                       bool
	Interface, Link, Subnet, VLAN int
}

// Pool is a resource pool.
type Pool struct {
	ID                int
	Name, Description string
}

// Zone is an availability zone.
type Zone struct {
	ID                int
	Name, Description string
}

func (r *Region) addFabric(name string) *Fabric {
	f := &Fabric{ID: r.id("fabric")}
	f.Name = name
	if name == "" {
		f.Name = fmt.Sprintf("fabric-%d", f.ID)
	}
	r.state.Fabrics = append(r.state.Fabrics, f)
	return f
}

func (r *Region) addVLAN(fabric, vid int, name string, mtu int) *VLAN {
	v := &VLAN{ID: r.id("vlan"), VID: vid, Fabric: fabric, Name: name, MTU: mtu, Space: "undefined"}
	if v.Name == "" {
		v.Name = strconv.Itoa(vid)
	}
	r.state.VLANs = append(r.state.VLANs, v)
	return v
}

func (r *Region) addSubnet(name, cidr string, vlan int) *Subnet {
	s := &Subnet{ID: r.id("subnet"), Name: name, CIDR: cidr, VLAN: vlan, Managed: true}
	r.state.Subnets = append(r.state.Subnets, s)
	return s
}

func (r *Region) fabric(id int) *Fabric {
	for _, f := range r.state.Fabrics {
		if f.ID == id {
			return f
		}
	}
	return nil
}

func (r *Region) vlan(id int) *VLAN {
	for _, v := range r.state.VLANs {
		if v.ID == id {
			return v
		}
	}
	return nil
}

func (r *Region) subnet(id int) *Subnet {
	for _, s := range r.state.Subnets {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// defaultVLAN returns the untagged VLAN of the lowest fabric.
func (r *Region) defaultVLAN() *VLAN {
	var best *VLAN
	for _, v := range r.state.VLANs {
		if v.VID == 0 && (best == nil || v.Fabric < best.Fabric) {
			best = v
		}
	}
	return best
}

// findSubnet accepts an id, a CIDR, or a specifier such as cidr:… or name:….
func (r *Region) findSubnet(spec string) *Subnet {
	kind, value, ok := strings.Cut(spec, ":")
	if !ok || strings.Contains(spec, "::") {
		kind, value = "", spec
	}
	for _, s := range r.state.Subnets {
		switch kind {
		case "cidr":
			ok = s.CIDR == value
		case "name":
			ok = s.Name == value
		default:
			ok = strconv.Itoa(s.ID) == value || s.CIDR == value
		}
		if ok {
			return s
		}
	}
	return nil
}

// claim takes a free address of a subnet, the lowest first.
func (r *Region) claim(s *Subnet) (string, error) {
	p, err := netip.ParsePrefix(s.CIDR)
	exhausted := &RefusalError{
		Status: http.StatusServiceUnavailable,
		Text:   fmt.Sprintf("No more IPs available in subnet: %s.", s.CIDR),
	}
	if err != nil {
		return "", exhausted
	}
	if !p.Addr().Is4() {
		return r.claimIPv6(p, exhausted)
	}
	b := p.Masked().Addr().As4()
	base := uint64(binary.BigEndian.Uint32(b[:]))
	size := uint64(1) << (32 - p.Bits())
	for n := range size {
		off := r.nextIP[s.ID] + n
		if off%size == 0 || off%size == size-1 {
			continue
		}
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(base+off%size)) //nolint:gosec // within an IPv4 prefix
		ip := netip.AddrFrom4(a).String()
		if !r.usedIPs[ip] {
			r.usedIPs[ip] = true
			r.nextIP[s.ID] = off + 1
			return ip, nil
		}
	}
	return "", exhausted
}

// claimIPv6 takes the lowest free address past the 32 bits that MAAS keeps for
// leases.
func (r *Region) claimIPv6(p netip.Prefix, exhausted error) (string, error) {
	b := p.Masked().Addr().As16()
	b[11] |= 1
	for a := netip.AddrFrom16(b); p.Contains(a); a = a.Next() {
		if ip := a.String(); !r.usedIPs[ip] {
			r.usedIPs[ip] = true
			return ip, nil
		}
	}
	return "", exhausted
}

// free returns an address. The search for the lowest starts again.
func (r *Region) free(ip string) {
	if ip == "" {
		return
	}
	delete(r.usedIPs, ip)
	clear(r.nextIP)
}

// Subnets lists the subnets.
func (r *Region) Subnets() []SubnetDoc {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := []SubnetDoc{}
	for _, s := range r.state.Subnets {
		list = append(list, *r.subnetDoc(s))
	}
	return list
}

// Subnet reads one subnet by id or specifier.
func (r *Region) Subnet(spec string) (*SubnetDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := r.findSubnet(spec); s != nil {
		return r.subnetDoc(s), nil
	}
	return nil, missing("Subnet")
}

// CreateSubnet adds a subnet.
func (r *Region) CreateSubnet(c Caller, f url.Values) (*SubnetDoc, error) {
	if c.User == nil || !c.User.Admin {
		return nil, adminOnly()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := parseCIDR(f.Get("cidr"))
	if err != nil {
		return nil, err
	}
	v := r.defaultVLAN()
	switch {
	case f.Get("vlan") != "":
		n, _ := strconv.Atoi(f.Get("vlan"))
		if v = r.vlan(n); v == nil {
			return nil, fieldError("vlan", "Select a valid choice. That choice is not one of the available choices.")
		}
	case f.Get("vid") != "":
		if v, err = r.vlanByVID(f); err != nil {
			return nil, err
		}
	}
	for _, s := range r.state.Subnets {
		if other, err := netip.ParsePrefix(s.CIDR); err == nil && other.Overlaps(p) {
			return nil, fieldError("__all__", fmt.Sprintf("Subnet %s would overlap with existing subnets.", p))
		}
	}
	name := f.Get("name")
	if name == "" {
		name = f.Get("cidr")
	}
	if v == nil {
		v = r.addVLAN(r.addFabric("").ID, 0, "untagged", 1500)
	}
	s := r.addSubnet(name, p.String(), v.ID)
	s.Gateway, s.ViaAPI, s.Description = f.Get("gateway_ip"), true, f.Get("description")
	s.DNS = strings.FieldsFunc(f.Get("dns_servers"), func(c rune) bool { return c == ',' || c == ' ' })
	if s.Gateway != "" {
		r.usedIPs[s.Gateway] = true
	}
	r.changes++
	return r.subnetDoc(s), nil
}

func parseCIDR(s string) (netip.Prefix, error) {
	if s == "" {
		return netip.Prefix{}, fieldError("cidr", "This field is required.")
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fieldError("cidr", "Required format: <network>/<prefixlen>.")
	}
	return p.Masked(), nil
}

func (r *Region) vlanByVID(f url.Values) (*VLAN, error) {
	vid, err := strconv.Atoi(f.Get("vid"))
	if err != nil {
		return nil, fieldError("vid", "Enter a whole number.")
	}
	in, where := 0, "default fabric"
	if v := f.Get("fabric"); v != "" {
		if in, err = strconv.Atoi(v); err != nil || r.fabric(in) == nil {
			return nil, fieldError("fabric", "Select a valid choice. That choice is not one of the available choices.")
		}
		where = "fabric " + r.fabric(in).Name
	}
	for _, v := range r.state.VLANs {
		if v.Fabric == in && v.VID == vid {
			return v, nil
		}
	}
	return nil, fieldError("vid", fmt.Sprintf("No VLAN with vid %d in %s.", vid, where))
}

// DeleteSubnet removes a subnet and the links to it.
func (r *Region) DeleteSubnet(c Caller, spec string) error {
	if c.User == nil || !c.User.Admin {
		return adminOnly()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.findSubnet(spec)
	if s == nil {
		return missing("Subnet")
	}
	for _, m := range r.state.Machines {
		for _, i := range m.Interfaces {
			kept := i.Links[:0]
			for _, l := range i.Links {
				if l.Subnet == s.ID {
					r.free(l.IP)
					continue
				}
				kept = append(kept, l)
			}
			i.Links = kept
		}
	}
	for n, other := range r.state.Subnets {
		if other == s {
			r.state.Subnets = append(r.state.Subnets[:n], r.state.Subnets[n+1:]...)
			break
		}
	}
	r.changes++
	return nil
}

// Fabrics lists the fabrics.
func (r *Region) Fabrics() []FabricDoc {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := []FabricDoc{}
	for _, f := range r.state.Fabrics {
		list = append(list, r.fabricDoc(f))
	}
	return list
}

// Fabric reads one fabric.
func (r *Region) Fabric(id int) (*FabricDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.fabric(id)
	if f == nil {
		return nil, missing("Fabric")
	}
	d := r.fabricDoc(f)
	return &d, nil
}

// CreateFabric adds a fabric with its untagged VLAN.
func (r *Region) CreateFabric(c Caller, f url.Values) (*FabricDoc, error) {
	if c.User == nil || !c.User.Admin {
		return nil, adminOnly()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fabric := r.addFabric(f.Get("name"))
	r.addVLAN(fabric.ID, 0, "untagged", 1500)
	r.changes++
	d := r.fabricDoc(fabric)
	return &d, nil
}

// UpdateVLAN changes the name, MTU or DHCP of a VLAN.
func (r *Region) UpdateVLAN(c Caller, fabric *int, number int, f url.Values) (*VLANDoc, error) {
	if c.User == nil || !c.User.Admin {
		return nil, adminOnly()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.state.VLANs {
		if fabric == nil && v.ID != number || fabric != nil && (v.Fabric != *fabric || v.VID != number) {
			continue
		}
		mtu, err := parseMTU(f, v.MTU)
		if err != nil {
			return nil, err
		}
		on, err := wordBool(f, "dhcp_on")
		if err != nil {
			return nil, err
		}
		v.MTU, v.DHCP = mtu, on || v.DHCP && !f.Has("dhcp_on")
		if name := f.Get("name"); name != "" {
			v.Name = name
		}
		r.changes++
		return r.vlanDoc(v), nil
	}
	return nil, missing("VLAN")
}

func parseMTU(f url.Values, otherwise int) (int, error) {
	s := f.Get("mtu")
	if s == "" {
		return otherwise, nil
	}
	mtu, err := strconv.Atoi(s)
	if err != nil || mtu < 552 || mtu > 65535 {
		return 0, fieldError("mtu", "MTU must be between 552 and 65535.")
	}
	return mtu, nil
}

// VLANs lists the VLANs of a fabric.
func (r *Region) VLANs(fabric int) ([]VLANDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.fabric(fabric)
	if f == nil {
		return nil, missing("Fabric")
	}
	return r.fabricDoc(f).VLANs, nil
}

// VLAN reads a VLAN by id, or by tag when a fabric is given.
func (r *Region) VLAN(fabric *int, number int) (*VLANDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, v := range r.state.VLANs {
		if fabric == nil && v.ID == number || fabric != nil && v.Fabric == *fabric && v.VID == number {
			return r.vlanDoc(v), nil
		}
	}
	return nil, missing("VLAN")
}

// CreateVLAN adds a VLAN to a fabric.
func (r *Region) CreateVLAN(c Caller, fabric int, f url.Values) (*VLANDoc, error) {
	if c.User == nil || !c.User.Admin {
		return nil, adminOnly()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fabric(fabric) == nil {
		return nil, missing("Fabric")
	}
	vid, err := strconv.Atoi(f.Get("vid"))
	switch {
	case f.Get("vid") == "":
		return nil, fieldError("vid", "This field is required.")
	case err != nil || vid < 0 || vid > 4094:
		return nil, fieldError("vid", "VID must be between 0 and 4094.")
	}
	for _, v := range r.state.VLANs {
		if v.Fabric == fabric && v.VID == vid {
			return nil, bareFieldError("__all__", "A VLAN with the specified VID already exists in the destination fabric.")
		}
	}
	mtu, err := parseMTU(f, 1500)
	if err != nil {
		return nil, err
	}
	r.changes++
	return r.vlanDoc(r.addVLAN(fabric, vid, f.Get("name"), mtu)), nil
}
