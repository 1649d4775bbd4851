package site

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

// Capability is something that a site may need of its MAAS, and that can be looked
// for there.
type Capability string

// The capabilities.
const (
	HTTPS          Capability = "https"           // MAAS is reached over https
	RedundantRacks Capability = "redundant_racks" // two healthy rack controllers
	RedundantDHCP  Capability = "redundant_dhcp"  // the PXE VLAN has a primary and a secondary rack
)

// Capabilities lists them.
func Capabilities() []Capability { return []Capability{HTTPS, RedundantRacks, RedundantDHCP} }

// Script is a commissioning or testing script of a region.
type Script struct {
	Name     string
	Versions []string // by which the newest revision is known: its number and its comment
}

// RackInterface is a network interface of a rack controller.
type RackInterface struct {
	Name      string
	VID       int
	DHCP      bool // MAAS serves DHCP on its VLAN
	Secondary bool // and has a second rack for it
}

// scriptForm is NAME or NAME@VERSION.
var scriptForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}(@[^\s@]{1,100})?$`)

func (s Settings) checkRequired(p *problems) {
	for i, text := range s.RequiredScripts {
		p.matches(fmt.Sprintf("body.required_scripts[%d]", i), text, scriptForm,
			"must be the name of a script in MAAS, or NAME@VERSION")
	}
	for i, c := range s.RequiredCapabilities {
		if !slices.Contains(Capabilities(), c) {
			p.add(fmt.Sprintf("body.required_capabilities[%d]", i), "must be https, redundant_racks or redundant_dhcp")
		}
	}
}

// PXEOf is the interface of the MAAS server on the PXE network and the VLAN there.
// A profile may deviate from the site.
func (s Settings) PXEOf(p Policy) (iface string, vid int) {
	iface, vid = s.PXEIface, int(s.PXEVLANVID)
	if p.PXEIface != "" {
		iface = p.PXEIface
	}
	if p.PXEVLANVID >= 0 {
		vid = int(p.PXEVLANVID)
	}
	return iface, vid
}

// RequirePXE refuses a PXE network that MAAS does not have as described: a rack
// controller has the interface, it is on the VLAN, and MAAS serves DHCP there.
func RequirePXE(s Site, p Policy, racks []Rack) error {
	iface, vid := s.Settings.PXEOf(p)
	var names []string
	for _, r := range racks {
		for _, i := range r.Interfaces {
			names = append(names, fmt.Sprintf("%s (VLAN %d)", i.Name, i.VID))
		}
	}
	named := pxeInterfaces(s, p, racks)
	on := slices.DeleteFunc(slices.Clone(named), func(i RackInterface) bool { return i.VID != vid })
	loosen := fmt.Sprintf("; or let work begin even so: gpuaas site profile set %s PROFILE strict_pxe_preflight=false", s.Name)
	switch {
	case len(named) == 0:
		return fault.New(fault.Conflict, "pxe_iface_missing", "no rack controller has the interface %s; MAAS shows %s", iface,
			listed(names)).
			WithRemedy("correct it: gpuaas site update %s --pxe-iface NAME%s", s.Name, loosen)
	case len(on) == 0:
		return fault.New(fault.Conflict, "pxe_vlan_differs", "%s of the rack controllers is not on VLAN %d; MAAS shows %s", iface,
			vid, listed(names)).
			WithRemedy("correct it: gpuaas site update %s --pxe-vlan VID%s", s.Name, loosen)
	case !slices.ContainsFunc(on, func(i RackInterface) bool { return i.DHCP }):
		return fault.New(fault.Conflict, "pxe_dhcp_off", "MAAS serves no DHCP on VLAN %d of %s: no machine can boot from there",
			vid, iface).
			WithRemedy("enable DHCP on that VLAN in MAAS%s", loosen)
	}
	return nil
}

// pxeInterfaces are those of the name, or of the name with the VLAN behind it, as
// tagged interfaces are called.
func pxeInterfaces(s Site, p Policy, racks []Rack) []RackInterface {
	iface, vid := s.Settings.PXEOf(p)
	var out []RackInterface
	for _, r := range racks {
		for _, i := range r.Interfaces {
			if i.Name == iface || i.Name == fmt.Sprintf("%s.%d", iface, vid) {
				out = append(out, i)
			}
		}
	}
	return out
}

// RequireCapabilities refuses a MAAS that lacks what the site needs.
func RequireCapabilities(s Site, p Policy, racks []Rack) error {
	healthy := 0
	for _, r := range racks {
		if r.Healthy {
			healthy++
		}
	}
	has := map[Capability]bool{
		HTTPS: !s.Settings.plainHTTP(), RedundantRacks: healthy > 1,
		RedundantDHCP: slices.ContainsFunc(pxeInterfaces(s, p, racks),
			func(i RackInterface) bool { return i.DHCP && i.Secondary }),
	}
	var lacking []string
	for _, c := range s.Settings.RequiredCapabilities {
		if !has[c] {
			lacking = append(lacking, string(c))
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "site_capability_lacking", "the site %s requires what its MAAS lacks: %s", s.Name,
		strings.Join(lacking, ", ")).
		WithRemedy("set MAAS up for it, or change what is required: gpuaas site update %s --require-capability …", s.Name)
}

// RequireScripts refuses a MAAS that lacks a script, or has another version of it.
func RequireScripts(s Site, have []Script) error {
	var lacking []string
	for _, text := range s.Settings.RequiredScripts {
		name, version, pinned := strings.Cut(text, "@")
		i := slices.IndexFunc(have, func(h Script) bool { return h.Name == name })
		switch {
		case i < 0:
			lacking = append(lacking, name+" is missing")
		case pinned && !slices.Contains(have[i].Versions, version):
			lacking = append(lacking, fmt.Sprintf("%s is of version %s, not %s", name, listed(have[i].Versions), version))
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "site_script_missing", "scripts of MAAS that the site %s requires: %s", s.Name,
		strings.Join(lacking, "; ")).
		WithRemedy("upload them to MAAS, or change what is required: gpuaas site update %s --require-script …", s.Name)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
