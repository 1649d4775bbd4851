package region

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var powerTypes = []string{
	"manual", "ipmi", "redfish", "lxd", "virsh", "webhook", "amt", "apc", "dli", "eaton", "hmc",
	"hmcz", "moonshot", "mscm", "msftocs", "nova", "openbmc", "proxmox", "raritan", "recs_box", "sm15k", "ucsm", "vmware",
	"wedge",
}

const notConfigured = "Unconfigured power type. Please configure the power type and try again."

// Create registers a machine. For an administrator it also commissions it,
// unless told otherwise.
func (r *Region) Create(ctx context.Context, c Caller, f url.Values) (*MachineDoc, error) {
	commission, err := wordBool(f, "commission")
	if err != nil {
		return nil, err
	}
	if f.Get("commission") == "" {
		commission = true
	}
	commission = commission && c.User.Admin
	r.mu.Lock()
	m, err := r.register(f)
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	r.changes++
	doc := r.machineDoc(m)
	r.mu.Unlock()
	if !commission {
		return doc, nil
	}
	if m.PowerType == "" {
		return nil, &RefusalError{Status: http.StatusInternalServerError, Text: notConfigured}
	}
	return r.Commission(ctx, c, m.SystemID, f)
}

func (r *Region) register(f url.Values) (*Machine, error) {
	errs := map[string][]string{}
	m := &Machine{
		Domain: "maas", Zone: "default", Pool: "default", PowerState: "unknown", Netboot: true,
		PowerParameters: map[string]any{},
	}
	ipmi := f.Get("power_type") == "ipmi"
	macs := r.checkMACs(f, ipmi, errs)
	r.checkArchitecture(m, f, ipmi, errs)
	r.checkNames(m, f, errs)
	r.checkPower(m, f, len(errs["mac_addresses"]) > 0, errs)
	if err := fieldErrors(errs); err != nil {
		return nil, err
	}
	m.ID, m.SystemID = r.id("machine"), r.systemID()
	if m.Hostname == "" {
		m.Hostname = r.petName()
	}
	for n, mac := range macs {
		i := &Interface{ID: r.id("interface"), Name: "eth" + strconv.Itoa(n), MAC: mac, Kind: "physical", Enabled: true}
		m.Interfaces = append(m.Interfaces, i)
	}
	r.adopt(m)
	r.state.Machines = append(r.state.Machines, m)
	r.indexMachine(m)
	return m, nil
}

// adopt finds the server that a record stands for.
func (r *Region) adopt(m *Machine) {
	if h := r.byBMC[m.powerAddress()]; h != nil {
		m.Hardware = h
	}
	for _, i := range m.Interfaces {
		if h := r.hwByMAC[i.MAC]; h != nil && m.Hardware == nil {
			m.Hardware = h
		}
	}
}

func (r *Region) checkMACs(f url.Values, ipmi bool, errs map[string][]string) []string {
	var macs []string
	for _, given := range f["mac_addresses"] {
		for _, s := range strings.FieldsFunc(given, func(c rune) bool { return c == ',' || c == ' ' }) {
			mac, ok := normaliseMAC(s)
			switch other := r.byMAC[mac]; {
			case !ok:
				errs["mac_addresses"] = append(errs["mac_addresses"], fmt.Sprintf("'%s' is not a valid MAC address.", s))
			case other != nil:
				errs["mac_addresses"] = append(errs["mac_addresses"],
					fmt.Sprintf("MAC address %s already in use on %s.", mac, other.Hostname))
			default:
				macs = append(macs, mac)
			}
		}
	}
	if len(macs) == 0 && len(errs["mac_addresses"]) == 0 && !ipmi {
		errs["mac_addresses"] = []string{"This field is required."}
	}
	return macs
}

func (r *Region) checkArchitecture(m *Machine, f url.Values, ipmi bool, errs map[string][]string) {
	a := f.Get("architecture")
	if a == "" {
		if !ipmi {
			errs["architecture"] = []string{"This field is required."}
		}
		return
	}
	if !strings.Contains(a, "/") {
		a += "/generic"
	}
	var known []string
	for _, i := range r.state.Images {
		if !slices.Contains(known, i.Architecture) {
			known = append(known, i.Architecture)
		}
	}
	if !slices.Contains(known, a) {
		errs["architecture"] = []string{fmt.Sprintf("'%s' is not a valid architecture.  It should be one of: '%s'.", a,
			strings.Join(known, "', '"))}
	}
	m.Architecture = a
}

// checkNames reads the fields that creating and updating share.
func (r *Region) checkNames(m *Machine, f url.Values, errs map[string][]string) {
	if h := f.Get("hostname"); h != "" && h != m.Hostname {
		switch {
		case strings.Contains(h, "_"):
			errs["hostname"] = []string{fmt.Sprintf("Host label cannot contain underscore: '%s'.", h)}
		case strings.Trim(strings.ToLower(h), "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || strings.HasPrefix(h, "-"):
			errs["hostname"] = []string{fmt.Sprintf("Invalid hostname: '%s'.", h)}
		case slices.ContainsFunc(r.state.Machines, func(o *Machine) bool { return o.Hostname == h }):
			errs["hostname"] = []string{"Node with this Hostname already exists."}
		default:
			m.Hostname = h
		}
	}
	pick := func(field string, into *string, known func(string) bool) {
		if v := f.Get(field); v != "" {
			if !known(v) {
				errs[field] = []string{"Select a valid choice. That choice is not one of the available choices."}
				return
			}
			*into = v
		}
	}
	pick("zone", &m.Zone, func(s string) bool { return r.zoneDoc(s).Name != "" })
	pick("pool", &m.Pool, func(s string) bool { return r.poolDoc(s).Name != "" })
	pick("domain", &m.Domain, func(s string) bool { return s == "maas" })
	if v, ok := f["description"]; ok {
		m.Description = v[0]
	}
	if v, ok := f["min_hwe_kernel"]; ok {
		m.MinHWEKernel = v[0]
	}
	for field, into := range map[string]*int{"cpu_count": &m.CPUCount, "memory": &m.Memory} {
		if v := f.Get(field); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil {
				errs[field] = []string{"Enter a whole number."}
				continue
			}
			*into = n
		}
	}
}

var ipmiDefaults = map[string]any{
	"power_driver": "LAN_2_0", "power_boot_type": "auto", "power_address": "",
	"power_user": "", "power_pass": "", "k_g": "", "cipher_suite_id": "3", "privilege_level": "OPERATOR",
	"workaround_flags": []string{"opensesspriv"}, "mac_address": "", "power_off_mode": "hard",
}

func (r *Region) checkPower(m *Machine, f url.Values, badMAC bool, errs map[string][]string) {
	kind := f.Get("power_type")
	if kind != "" && !slices.Contains(powerTypes, kind) {
		errs["power_type"] = []string{"Select a valid choice. " + kind + " is not one of the available choices."}
		return
	}
	if badMAC && kind != "" && kind != "ipmi" {
		errs["power_type"] = []string{"Can't set power type to " + kind + " without network interfaces"}
	}
	params := maps.Clone(m.PowerParameters)
	if kind != "" && kind != m.PowerType {
		params = map[string]any{}
		if kind == "ipmi" {
			params = maps.Clone(ipmiDefaults)
		}
	}
	if whole := f.Get("power_parameters"); whole != "" {
		if err := json.Unmarshal([]byte(whole), &params); err != nil {
			errs["power_parameters"] = []string{"Failed to parse JSON power_parameters"}
			return
		}
	}
	for k, v := range f {
		if name, ok := strings.CutPrefix(k, "power_parameters_"); ok && name != "skip_check" {
			params[name] = v[0]
		}
	}
	if kind == "" {
		kind = m.PowerType
	}
	address, _ := params["power_address"].(string)
	skip, _ := wordBool(f, "power_parameters_skip_check")
	if (kind == "ipmi" || kind == "redfish") && address == "" && !skip {
		errs["power_parameters"] = []string{"This field is required."}
		return
	}
	m.PowerType, m.PowerParameters = kind, params
}

var petAdjectives = []string{
	"able", "brave", "calm", "deep", "eager", "fair", "glad", "keen", "loyal", "merry",
	"noble", "proud", "quick", "rapid", "sound", "swift", "tidy", "vital", "wise", "young",
}

var petAnimals = []string{
	"ant", "bat", "bear", "bee", "boar", "cat", "crab", "crow", "deer", "dog", "duck", "eagle",
	"elk", "fox", "goat", "hawk", "hen", "lynx", "mole", "owl",
}

func (r *Region) petName() string {
	for {
		name := petAdjectives[r.rng.IntN(len(petAdjectives))] + "-" +
			petAnimals[r.rng.IntN(len(petAnimals))] + strconv.Itoa(r.rng.IntN(1000))
		if r.find(name) == nil {
			return name
		}
	}
}

// Update changes a machine's record, whatever its status.
func (r *Region) Update(c Caller, systemID string, f url.Values) (*MachineDoc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forAdmin(c, systemID)
	if err != nil {
		return nil, err
	}
	next, errs := *m, map[string][]string{}
	r.checkNames(&next, f, errs)
	if f.Get("architecture") != "" {
		r.checkArchitecture(&next, f, true, errs)
	}
	r.checkPower(&next, f, false, errs)
	if v := f.Get("swap_size"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			errs["swap_size"] = []string{"Enter a whole number."}
		}
		next.SwapSize = &n
	}
	if err := fieldErrors(errs); err != nil {
		return nil, err
	}
	*m = next
	r.adopt(m)
	r.changes++
	return r.machineDoc(m), nil
}

// Delete forgets a machine. It touches neither power nor disks.
func (r *Region) Delete(c Caller, systemID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.forAdmin(c, systemID)
	if err != nil {
		return err
	}
	r.forget(m)
	return nil
}

func (r *Region) forget(m *Machine) {
	for _, i := range m.Interfaces {
		r.dropLinks(m, i)
		delete(r.byMAC, i.MAC)
	}
	delete(r.bySystem, m.SystemID)
	r.state.Machines = slices.DeleteFunc(r.state.Machines, func(o *Machine) bool { return o == m })
	r.state.Tokens = slices.DeleteFunc(r.state.Tokens, func(t *Token) bool { return t.Machine == m.SystemID })
	for _, id := range m.SetIDs {
		delete(r.sets, id)
	}
	r.state.Sets = slices.DeleteFunc(r.state.Sets, func(s *ScriptSet) bool { return s.Machine == m.SystemID })
	m.Ops++
	m.Boots++
	r.changes++
}
