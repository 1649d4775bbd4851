package site

import (
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// SelectorType says by what an override finds its machine.
type SelectorType string

// The selector types, the strongest first.
const (
	ByPXEMAC   SelectorType = "pxe_mac"
	ByIPMIIP   SelectorType = "ipmi_ip"
	ByHostname SelectorType = "hostname"
)

// selectorOrder is the order of choice: what is soldered on before what is
// configured, and that before what is only a name.
var selectorOrder = []SelectorType{ByPXEMAC, ByIPMIIP, ByHostname}

// Selector names the machine that an override is for.
type Selector struct {
	Type  SelectorType
	Value string
}

// PowerOverride is BMC credentials of one machine that deviate from the site's.
type PowerOverride struct {
	ID                   id.PowerOverride
	Site                 id.Site
	Selector             Selector
	Status               Status
	Credential           Credential
	Version              int64
	CreatedAt, UpdatedAt time.Time
}

// NewPowerOverride is an override to be made.
type NewPowerOverride struct {
	Selector    Selector
	Credentials PowerCredentials
}

// PowerOverrideChange is what to change of an override; nil stays as it is.
type PowerOverrideChange struct {
	Status      *Status
	Credentials *PowerCredentials
}

func (s Selector) checked(p *problems) Selector {
	var err error
	switch s.Type {
	case ByHostname:
		s.Value, err = normalHostname(s.Value)
	case ByIPMIIP:
		s.Value, err = normalIP(s.Value)
	case ByPXEMAC:
		s.Value, err = normalMAC(s.Value)
	default:
		p.add("body.selector_type", "must be hostname, ipmi_ip or pxe_mac")
		return s
	}
	p.note("body.selector_value", err)
	return s
}

// Machine is what is known of a machine when BMC credentials are chosen.
type Machine struct {
	Hostname, IPMIIP, PXEMAC string
}

func (m Machine) checked() (Machine, error) {
	var p problems
	normalise := func(field string, value *string, form func(string) (string, error)) {
		if *value == "" {
			return
		}
		var err error
		*value, err = form(*value)
		p.note("query."+field, err)
	}
	normalise("hostname", &m.Hostname, normalHostname)
	normalise("ipmi_ip", &m.IPMIIP, normalIP)
	normalise("pxe_mac", &m.PXEMAC, normalMAC)
	if m == (Machine{}) {
		p.add("query", "must name the machine by hostname, ipmi_ip or pxe_mac")
	}
	return m, p.rejected()
}

func (m Machine) by(t SelectorType) string {
	switch t {
	case ByPXEMAC:
		return m.PXEMAC
	case ByIPMIIP:
		return m.IPMIIP
	case ByHostname:
		return m.Hostname
	}
	return ""
}

// Choice is whose BMC credentials are used for a machine, and why.
type Choice struct {
	Override    id.PowerOverride // zero: the site's own
	Fingerprint string
	Reason      string
}

// ChoosePower decides which credentials a machine gets: an active override by
// PXE MAC, else by IPMI address, else by host name, else the site's own. None are for
// a BMC outside of the networks of the site.
func ChoosePower(site Site, overrides []PowerOverride, m Machine) (Choice, error) {
	if m.IPMIIP != "" {
		if err := RequireBMC(site, m.IPMIIP); err != nil {
			return Choice{}, err
		}
	}
	reason := ""
	for _, t := range selectorOrder {
		value := m.by(t)
		if value == "" {
			continue
		}
		for _, o := range overrides {
			if o.Selector != (Selector{Type: t, Value: value}) {
				continue
			}
			if o.Status == Active {
				return Choice{
					Override: o.ID, Fingerprint: o.Credential.Fingerprint,
					Reason: reason + fmt.Sprintf("active override by %s %s", t, value),
				}, nil
			}
			reason += fmt.Sprintf("the override by %s %s is disabled; ", t, value)
		}
	}
	if !site.Power.Present() {
		return Choice{}, fault.New(fault.Conflict, "power_credentials_missing",
			"no override is for the machine, and the site %s has no default BMC credentials", site.Name).
			WithRemedy("write them: gpuaas site credentials set %s --power-file FILE", site.Name)
	}
	return Choice{
		Fingerprint: site.Power.Fingerprint,
		Reason:      reason + "no active override is for the machine: the default of the site",
	}, nil
}
