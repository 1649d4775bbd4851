package region

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// forInterface finds an interface that the caller may change. verb is the word
// of the refusal if the machine is in the wrong state.
func (r *Region) forInterface(c Caller, systemID string, id int, verb string, also ...Status) (
	*Machine, *Interface, error,
) {
	m, err := r.forAdmin(c, systemID)
	if err != nil {
		return nil, nil, err
	}
	i := m.nic(id)
	if i == nil {
		return nil, nil, missing("Interface")
	}
	if verb != "" && !m.Status.in(append([]Status{New, Ready, FailedTesting, Allocated, Broken}, also...)...) {
		return nil, nil, conflict("Cannot %s interface because the machine is not New, Ready, Allocated, or Broken.", verb)
	}
	return m, i, nil
}

// Interfaces lists the interfaces of a machine.
func (r *Region) Interfaces(c Caller, systemID string) ([]InterfaceDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, err := r.forReading(c, systemID)
	if err != nil {
		return nil, err
	}
	list := []InterfaceDoc{}
	for _, i := range m.Interfaces {
		list = append(list, *r.interfaceDoc(m, i))
	}
	return list, nil
}

// Interface reads one interface.
func (r *Region) Interface(c Caller, systemID string, id int) (*InterfaceDoc, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, err := r.forReading(c, systemID)
	if err != nil {
		return nil, err
	}
	if i := m.nic(id); i != nil {
		return r.interfaceDoc(m, i), nil
	}
	return nil, missing("Interface")
}

// UpdateInterface changes an interface. For a deployed machine only its name
// and MAC can change.
func (r *Region) UpdateInterface(c Caller, systemID string, id int, f url.Values) (*InterfaceDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, i, err := r.forInterface(c, systemID, id, "update", Deployed)
	if err != nil {
		return nil, err
	}
	if name := f.Get("name"); name != "" {
		if len(name) > 15 {
			return nil, fieldError("name", "Ensure this value has at most 15 characters (it has "+strconv.Itoa(len(name))+").")
		}
		i.Name = name
	}
	if v := f.Get("mac_address"); v != "" {
		mac, ok := normaliseMAC(v)
		if !ok {
			return nil, fieldError("mac_address", fmt.Sprintf("'%s' is not a valid MAC address.", v))
		}
		delete(r.byMAC, i.MAC)
		i.MAC = mac
		r.byMAC[mac] = m
	}
	if v, given := f["vlan"]; given && m.Status != Deployed {
		n, _ := strconv.Atoi(v[0])
		if v[0] != "" && r.vlan(n) == nil {
			return nil, fieldError("vlan", "Select a valid choice. That choice is not one of the available choices.")
		}
		i.VLAN = n
	}
	if m.Status != Deployed {
		mtu, err := parseMTU(f, i.MTU)
		if err != nil {
			return nil, err
		}
		i.MTU = mtu
	}
	if v, given := f["tags"]; given {
		i.Tags = strings.FieldsFunc(strings.Join(v, ","), func(c rune) bool { return c == ',' })
	}
	r.changes++
	return r.interfaceDoc(m, i), nil
}

// Disconnect drops all links of an interface and takes it off its VLAN.
func (r *Region) Disconnect(c Caller, systemID string, id int) (*InterfaceDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, i, err := r.forInterface(c, systemID, id, "disconnect")
	if err != nil {
		return nil, err
	}
	r.dropLinks(m, i)
	i.VLAN = 0
	r.changes++
	return r.interfaceDoc(m, i), nil
}

func (r *Region) dropLinks(m *Machine, i *Interface) {
	for _, l := range i.Links {
		r.free(l.IP)
		if m.GatewayLink == l.ID {
			m.GatewayLink = 0
		}
	}
	i.Links = nil
}

// Unlink removes one link.
func (r *Region) Unlink(c Caller, systemID string, id int, f url.Values) (*InterfaceDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, i, err := r.forInterface(c, systemID, id, "unlink subnet")
	if err != nil {
		return nil, err
	}
	if f.Get("id") == "" {
		return nil, fieldError("id", "This field is required.")
	}
	at := slices.IndexFunc(i.Links, func(l *Link) bool { return strconv.Itoa(l.ID) == f.Get("id") })
	if at < 0 {
		ids := []string{}
		for _, l := range i.Links {
			ids = append(ids, fmt.Sprintf("'%d'", l.ID))
		}
		return nil, fieldError("id", fmt.Sprintf("'%s' is not a valid id.  It should be one of: %s.", f.Get("id"),
			strings.Join(ids, ", ")))
	}
	if m.GatewayLink == i.Links[at].ID {
		m.GatewayLink = 0
	}
	r.free(i.Links[at].IP)
	i.Links = slices.Delete(i.Links, at, at+1)
	if len(i.Links) == 0 && i.Enabled && i.VLAN != 0 {
		up := &Link{ID: r.id("link"), Mode: "link_up"}
		if len(i.Discovered) > 0 { // MAAS remembers where DHCP once answered
			up.Subnet = i.Discovered[0].Subnet
		}
		i.Links = []*Link{up}
	}
	r.changes++
	return r.interfaceDoc(m, i), nil
}

// SetDefaultGateway makes the gateway of a linked subnet the default one.
func (r *Region) SetDefaultGateway(c Caller, systemID string, id int, f url.Values) (*InterfaceDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, i, err := r.forInterface(c, systemID, id, "set default gateway on")
	if err != nil {
		return nil, err
	}
	for _, l := range i.Links {
		s := r.subnet(l.Subnet)
		if want := f.Get("link_id"); s == nil || s.Gateway == "" || want != "" && want != strconv.Itoa(l.ID) {
			continue
		}
		m.GatewayLink = l.ID
		r.changes++
		return r.interfaceDoc(m, i), nil
	}
	return nil, fieldError("__all__", "This interface has no usable gateways.")
}

// linkRequest is a checked link_subnet form.
type linkRequest struct {
	mode    string
	subnet  *Subnet
	ip      string
	force   bool
	gateway bool
}

// LinkSubnet joins an interface to a subnet.
func (r *Region) LinkSubnet(c Caller, systemID string, id int, f url.Values) (*InterfaceDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, i, err := r.forInterface(c, systemID, id, "link subnet")
	if err != nil {
		return nil, err
	}
	q, err := r.parseLink(i, f)
	if err != nil {
		return nil, err
	}
	if q.ip != "" && r.usedIPs[q.ip] {
		own := q.force && slices.ContainsFunc(i.Links, func(l *Link) bool { return l.IP == q.ip })
		if !own {
			return nil, &RefusalError{Status: http.StatusNotFound, Text: "IP address is already in use."}
		}
	}
	if q.force || onlyLinkUp(i) {
		r.dropLinks(m, i)
	}
	if q.subnet != nil && (q.force || i.VLAN == 0) {
		i.VLAN = q.subnet.VLAN
	}
	l := &Link{ID: r.id("link"), Mode: q.mode}
	if q.subnet != nil {
		l.Subnet = q.subnet.ID
	}
	if q.mode == "static" {
		l.IP = q.ip
		if l.IP == "" {
			if l.IP, err = r.claim(q.subnet); err != nil {
				return nil, err
			}
		}
		r.usedIPs[l.IP] = true
	}
	i.Links = append(i.Links, l)
	if q.gateway {
		m.GatewayLink = l.ID
	}
	r.changes++
	return r.interfaceDoc(m, i), nil
}

func onlyLinkUp(i *Interface) bool {
	return len(i.Links) == 1 && i.Links[0].Mode == "link_up"
}

func (r *Region) parseLink(i *Interface, f url.Values) (linkRequest, error) {
	q := linkRequest{
		mode: strings.ToLower(f.Get("mode")), ip: f.Get("ip_address"),
		gateway: formBool(f, "default_gateway"),
	}
	var err error
	if q.force, err = wordBool(f, "force"); err != nil {
		return q, err
	}
	switch {
	case q.mode == "":
		return q, fieldError("mode", "This field is required.")
	case !slices.Contains([]string{"auto", "dhcp", "static", "link_up"}, q.mode):
		return q, fieldError("mode", fmt.Sprintf(
			"'%s' is not a valid mode.  It should be one of: 'auto', 'dhcp', 'static', 'link_up'.", f.Get("mode")))
	}
	needs := q.mode == "auto" || q.mode == "static"
	if spec := f.Get("subnet"); spec != "" {
		if q.subnet = r.findSubnet(spec); q.subnet == nil {
			return q, fieldErrors(map[string][]string{"subnet": {
				fmt.Sprintf("None found with id=%s.", spec),
				"This field is required.",
			}})
		}
	}
	switch {
	case needs && q.subnet == nil:
		return q, fieldError("subnet", "This field is required.")
	case q.gateway && !needs:
		return q, fieldError("default_gateway", fmt.Sprintf("Cannot use in mode '%s'.", q.mode))
	case q.gateway && q.subnet.Gateway == "":
		return q, fieldError("default_gateway", "Cannot set as default gateway because subnet "+r.describe(q.subnet)+
			" doesn't provide a gateway IP address.")
	case q.mode == "link_up" && !q.force && len(i.Links) > 0 && !onlyLinkUp(i):
		return q, fieldError("mode", "Cannot configure interface to link up (with no IP address) while other links are "+
			"already configured. Specify force=True to override this behavior and delete all links.")
	case q.mode == "dhcp" && !q.force && slices.ContainsFunc(i.Links, func(l *Link) bool { return l.Mode == "dhcp" }):
		return q, fieldError("mode", "Interface is already set to DHCP.")
	case q.subnet != nil && i.VLAN != 0 && i.VLAN != q.subnet.VLAN && !q.force:
		return q, fieldErrors(map[string][]string{"subnet": {fmt.Sprintf(
			"Select a valid choice. %s is not one of the available choices.", f.Get("subnet"))}})
	}
	if q.mode == "static" && q.ip != "" {
		a, err := netip.ParseAddr(q.ip)
		if err != nil {
			return q, fieldError("ip_address", "Enter a valid IPv4 or IPv6 address.")
		}
		if p, err := netip.ParsePrefix(q.subnet.CIDR); err != nil || !p.Contains(a) {
			return q, fieldError("ip_address", fmt.Sprintf("IP address is not in the given subnet '%s'.", r.describe(q.subnet)))
		}
	}
	return q, nil
}

func (r *Region) describe(s *Subnet) string {
	vid := 0
	if v := r.vlan(s.VLAN); v != nil {
		vid = v.VID
	}
	return fmt.Sprintf("%s:%s(vid=%d)", s.Name, s.CIDR, vid)
}
